"""The overview of every pair of samples, drawn: also of those of which no rule found anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.views import VIEWS
from warplens.loaders.ingest.opening import open_run
from warplens.tui.panes.overview_picture import overview_picture

SAMPLES = Path(__file__).parents[3] / "samples"


@pytest.mark.parametrize("other", ["cycle_profile/normal", "ncu_text.txt", "kernel_table_bert_training.txt"])
def test_a_pair_without_a_finding_shows_what_its_runs_are(other: str) -> None:
    runs = [open_run(str(SAMPLES / name), use_cache=False)[0] for name in ("ncu_long.csv", other)]
    view = next(entry for entry in VIEWS if entry.name == "overview").load()
    lines = overview_picture(ask(view, tuple(runs), Options()), "", 118, 30).plain.splitlines()
    assert all(len(line) <= 118 for line in lines) and any(line.startswith("│") and line.strip("│ ") for line in lines)


def test_parts_of_two_runs_have_bars_and_take_the_lines_that_nobody_else_wants() -> None:
    paths = (str(SAMPLES / "demo" / f"{name}.json.gz") for name in ("normal", "abnormal"))
    runs = tuple(open_run(path, use_cache=False)[0] for path in paths)
    table = ask(next(entry for entry in VIEWS if entry.name == "overview").load(), runs, Options())
    few, all_ = (overview_picture(table, "", 160, 46, free).plain.splitlines() for free in (0, 40))
    assert any("3 smaller parts · ░ more in A or B" in line for line in few)
    assert not any("smaller part" in line for line in all_) and len(all_) == len(few) + 3
    gemm = next(line for line in all_ if line.startswith("│ g GEMM"))
    assert gemm.count("░") > 1.5 * gemm.count("█") > 0, "5.2% of A and 18.2% of B: what B has more is longer"
    python = next(line for line in all_ if "idle: Python code" in line and "pt" in line)
    assert python.count("█") > 4 * python.count("░") > 0
