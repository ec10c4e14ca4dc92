"""Causes of idle time as rows of the diff, and what they explain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from runs import host, kernel, run_of, samples, steps

from warplens.analysis.query.ask import ask
from warplens.analysis.table.parts import opened
from warplens.analysis.table.table import Table
from warplens.analysis.views.diff import VIEW
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

MS = 1_000_000
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
INPUT = "idle: DataLoader (input)"


def training(seed: int, *, loader_ms: float = 2.0, slow: dict[int, float] | None = None, count: int = 12) -> Trace:
    """Steps that load input while the device waits and then launch a kernel of 3 ms; ``slow`` steps have more host
    time after it, in ms.
    """
    draw = np.random.default_rng(seed)
    slices: list[dict[str, Any]] = []
    kernels: list[dict[str, Any]] = []
    lengths: list[int] = []
    at = 0
    for number in range(count):
        begin = at
        load = round(loader_ms * MS * float(np.exp(draw.normal(0, 0.01)))) + 1
        slices.append(host(LOADER, at, load, "dataloader"))
        at += load
        slices += [host("aten::mm", at, 100_000), host("cudaLaunchKernel", at + 10_000, 5_000, "runtime",
                                                       correlation=number + 1)]
        dur = round(3 * MS * float(np.exp(draw.normal(0, 0.002))))
        kernels.append(kernel(number, at + 20_000, dur, correlation=number + 1, pid=1))
        at += 30_000 + dur
        if slow and number in slow:
            slices.append(host("aten::item", at, round(slow[number] * MS)))
            at += round(slow[number] * MS)
        lengths.append(at - begin)
    return run_of("made", kernels=kernels, host=slices, cycles=steps(*lengths))


def without_device(run: Trace) -> Trace:
    text = run.kernels.collect_schema()["device"]
    return run.with_tables(kernels=run.kernels.with_columns(device=pl.lit(None, text)))


def test_the_idle_time_of_a_device_without_a_name_is_a_row_too() -> None:
    table = diff(without_device(training(1)), without_device(training(2, loader_ms=6)))
    assert idle_rows(table)[INPUT]["verdict"] == "slower"


def diff(a: Trace, b: Trace) -> Table:
    return ask(VIEW, (a, b))


def idle_rows(table: Table) -> dict[str, dict[str, Any]]:
    return {row["function"]: row for row in table.frame.to_dicts() if row["kind"] == "idle"}


@pytest.mark.parametrize(("a_ms", "b_ms", "verdict", "went"), [(2, 6, "slower", "more"), (6, 2, "faster", "less")])
def test_the_cause_that_is_the_cycles_change_comes_first_whichever_way_it_went(
    a_ms: float, b_ms: float, verdict: str, went: str
) -> None:
    table = diff(training(1, loader_ms=a_ms), training(2, loader_ms=b_ms))
    first = table.frame.row(0, named=True)
    assert (first["function"], first["device"], first["kind"], first["verdict"]) == (INPUT, "GPU 0", "idle", verdict)
    assert first["path"] == "exposed" and first["q"] <= 0.05
    assert (first["a_ms"], first["b_ms"]) == (pytest.approx(a_ms, rel=0.02), pytest.approx(b_ms, rel=0.02))
    explanation = table.facts["explanation"]
    assert f"idles {went} on DataLoader (input)" in explanation
    assert table.facts["cause"]["where"] == "idle"


def test_equal_runs_have_no_changed_cause() -> None:
    table = diff(training(1), training(2))
    assert {row["verdict"] for row in idle_rows(table).values()} == {"~"}
    assert not table.facts["idle"]


def test_a_change_that_leaves_the_cycle_as_long_as_it_was_is_none() -> None:
    table = diff(training(1, loader_ms=0.010), training(2, loader_ms=0.030))
    assert idle_rows(table)[INPUT]["verdict"] == "~"


def test_without_recorded_launches_idle_time_has_no_cause_and_explains_nothing() -> None:
    bare = [run.with_tables(kernels=run.kernels.drop("correlation")) for run in (
        training(1, loader_ms=2), training(2, loader_ms=6))]
    made = [run_of("made", **{name: run.table(name).collect().to_dicts() for name in ("kernels", "host", "cycles")})
            for run in bare]
    table = diff(made[0], made[1])
    assert set(idle_rows(table)) == {"idle: unknown launches", "idle: lost records"}
    assert LOADER in table.frame["function"].to_list()


def test_what_a_process_allocates_is_no_resource() -> None:
    def run(seed: int, size: float) -> Trace:
        made = training(seed)
        tables = {name: made.table(name).collect().to_dicts() for name in ("kernels", "host", "cycles")}
        points = [(at * 100_000, size * (1 + at % 3)) for at in range(500)]
        return run_of("made", **tables, metrics=[
            *samples("memory change", "Host", *points, unit="B"), *samples("gpu_sm_frequency", "GPU 0", *points),
        ])

    table = diff(run(1, 1000.0), run(2, 300.0))
    assert {one["metric"] for one in table.facts["resources"]} == {"gpu_sm_frequency"}
    assert "memory change" not in set(table.frame["metric"])


def test_the_textbook_pair_is_explained_by_its_input(data: Path) -> None:
    folder = data / "traces" / "kineto" / "tb_plugin" / "samples"
    none, four = (open_run(str(next((folder / f"resnet50_num_workers_{n}").iterdir())), use_cache=False)[0]
                  for n in (0, 4))
    table = diff(none, four)
    assert table.frame["function"][0] == INPUT
    row = idle_rows(table)[INPUT]
    assert 48 < row["a_ms"] < 62.1 and row["b_ms"] < 1.5  # the gaps in DataLoader slices: 283.7 and 2.77 ms in all
    assert "DataLoader" in table.facts["explanation"] and not table.facts["resources"]
    assert table.facts["cycle_time"]["verdict"] == "cannot tell" or table.facts["cycle_time"]["mean_delta_ms"] < 0


def test_the_loader_is_part_of_the_idle_time_that_waits_for_it() -> None:
    table = diff(training(1, loader_ms=2), training(2, loader_ms=6))
    rows = {row["function"]: row for row in table.frame.to_dicts()}
    assert rows[INPUT]["parts"] == 1 and LOADER not in rows
    wider = opened(table, 0, True)
    assert wider is not None and wider.window(1, 2)[0][0] == LOADER


def test_a_loader_of_which_little_is_waited_for_stays() -> None:
    def hidden(seed: int, loader_ms: float, waited_ms: float) -> Trace:
        """Kernels of the step before run while input loads, so that most of it is hidden."""
        draw = np.random.default_rng(seed)
        slices, kernels = [], []
        for number in range(12):
            at = number * 20_000_000
            load = round(loader_ms * 1e6 * float(np.exp(draw.normal(0, 0.002))))
            slices += [host(LOADER, at, load, "dataloader"), host("cudaLaunchKernel", at + load, 5_000, "runtime",
                                                                  correlation=number + 1)]
            dur = 20_000_000 - round(waited_ms * 1e6)
            kernels.append(kernel(number, at + load + 5_000, dur - load // 1_000, correlation=number + 1, pid=1))
        return run_of("made", kernels=kernels, host=slices, cycles=steps(*[20_000_000] * 12))

    names = set(diff(hidden(1, 2, 0.2), hidden(2, 8, 2)).frame["function"])
    assert LOADER in names


def test_of_cycles_that_do_other_work_no_idle_time_is_called_more_or_less() -> None:
    other = training(2, loader_ms=9)
    tables = {name: other.table(name).collect().to_dicts() for name in ("kernels", "host", "cycles")}
    tables["kernels"] = [
        row | {"name": f"flash_{half}", "index": 2 * row["index"] + at}
        for row in tables["kernels"] for at, half in enumerate("ab")]
    for row in tables["host"]:
        row["name"] = {"aten::mm": "aten::attention"}.get(row["name"], row["name"])
    table = diff(training(1, loader_ms=2), run_of("made", **tables))
    assert not table.facts["comparability"]["comparable"]
    assert {row["verdict"] for row in idle_rows(table).values()} == {"not judged"} and not table.facts["idle"]
