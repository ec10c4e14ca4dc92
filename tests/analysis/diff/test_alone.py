"""What explains a difference is replayed alone: the first run with nothing but that changed."""

from __future__ import annotations

from pathlib import Path

from warplens.analysis.contract.options import Options
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run

DEMO = Path(__file__).resolve().parents[3] / "samples" / "demo"


def test_a_clock_that_slows_kernels_nobody_waits_for_leaves_the_cycle_as_it_is() -> None:
    a, b = (open_run(str(DEMO / f"{name}.json.gz"), use_cache=False)[0] for name in ("normal", "abnormal"))
    answer = view("diff").build((a, b), Options())
    alone = answer.facts["cause"]["alone"]
    assert alone["functions"] == 13 and abs(alone["predicted_ns"] / 751.2e6 - 1) < 0.001
    assert any("With only the SM clock changed, the cycle would still take 751." in line for line in answer.summary)
