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
