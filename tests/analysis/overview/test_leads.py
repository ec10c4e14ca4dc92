"""The one number of a view's answer agrees with its rows."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from runs import run_of

from warplens.analysis.core import units
from warplens.analysis.overview.leads import lead_of
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace


@pytest.fixture(scope="module")
def runs() -> tuple[Trace, Trace]:
    folder = Path(__file__).resolve().parents[3] / "samples" / "demo"
    (a,), (b,) = (open_run(str(folder / f"{name}.json.gz")) for name in ("normal", "abnormal"))
    return a, b


def number(name: str, *runs: Trace) -> str:
    found = lead_of(ask(view(name), runs))
    return f"{found.number} {found.caption}" if found else ""


def test_kernel_time_is_that_of_kernels_and_collectives(runs: tuple[Trace, Trace]) -> None:
    ran = runs[0].kernels.filter(pl.col("kind").cast(pl.String).is_in(["kernel", "collective"]))
    total = units.duration(ran.select(pl.col("dur_ns").sum()).collect().item())
    assert number("kernels", runs[0]) == f"{total} of kernel time"


def test_kernels_without_durations_take_no_number_from_the_others() -> None:
    work = [{"index": at, "name": kind, "kind": kind, "dur_ns": ns} for at, (kind, ns) in
            enumerate((("kernel", 5_000), ("collective", None)))]
    assert number("kernels", run_of(kernels=work)) == "5.00 µs of kernel time"
    assert number("kernels", run_of(kernels=work[1:])) == ""


def test_two_runs_are_compared_per_cycle(runs: tuple[Trace, Trace]) -> None:
    table = ask(view("kernels"), runs).compared("cycle")
    a, b = (sum(row[0] or 0 for row in table.window(0, len(table), [f"per_cycle_ns_{side}"])) for side in "ab")
    assert number("kernels", *runs).startswith(f"{units.factor(b / a)} device time per cycle, ")


def test_idle_time_is_a_share_of_the_steps(runs: tuple[Trace, Trace]) -> None:
    assert number("idle", *runs) == "80% idle on GPU 7, 94% in A"


def test_a_view_without_a_number_has_none(runs: tuple[Trace, Trace]) -> None:
    assert number("ranks", runs[0]) == "" and number("launches", runs[0]) == ""
