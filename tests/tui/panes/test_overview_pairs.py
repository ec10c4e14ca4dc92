"""The overview of every pair of samples, drawn: also of those of which no rule found anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
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


def _demo() -> Table:
    paths = (str(SAMPLES / "demo" / f"{name}.json.gz") for name in ("normal", "abnormal"))
    runs = tuple(open_run(path, use_cache=False)[0] for path in paths)
    return ask(next(entry for entry in VIEWS if entry.name == "overview").load(), runs, Options())


def test_two_runs_are_two_bars_on_one_scale_an_account_that_adds_up_and_one_time_axis() -> None:
    table = _demo()
    few, all_ = (overview_picture(table, "", 160, 30, free).plain.splitlines() for free in (0, 60))
    a, b = (next(line for line in all_ if line.startswith(f"│ {side} ") and "ms " in line) for side in "AB")
    assert len(a[13:].rstrip("│ ")) < len(b[13:].rstrip("│ ")), "B's step is longer, so its bar is"
    assert len(all_) > len(few) and any("sum = the step" in line for line in all_)
    loads = [line for line in all_ if line.startswith(("│ A GPU", "│ B GPU"))]
    assert len(loads) == 2 and len(loads[1].rstrip("│ ")) < len(loads[0].rstrip("│ ")), "B's recording is shorter"


@pytest.mark.parametrize(("width", "height"), [(118, 31), (78, 17), (58, 14)])
def test_verdict_and_cause_are_there_at_every_size_word_for_word(width: int, height: int) -> None:
    table = _demo()
    lines = overview_picture(table, "", width, height).plain.splitlines()
    assert len(lines) <= height and all(len(line) <= width for line in lines)
    for one in table.facts["lines"][:2]:
        assert any(one["long"] in line or one["short"] in line for line in lines), one
    if height < 20:
        assert any("▾" in line and "more" in line for line in lines), "what is cut is counted"
