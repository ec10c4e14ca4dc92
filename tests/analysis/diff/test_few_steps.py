"""Runs with too few steps to judge by them: what a launch takes is compared, per step that was recorded whole."""

from __future__ import annotations

from runs import kernel, run_of, steps

from warplens.analysis.query.ask import ask
from warplens.analysis.views.diff import VIEW


def test_device_figures_are_per_step_that_was_seen_whole() -> None:
    cycles = steps(1_000_000, 1_000_000)
    cycles[1]["complete"] = False
    run = run_of(kernels=[kernel(at, 10_000 * at, 5_000) for at in range(8)], cycles=cycles)
    (row,) = ask(VIEW, (run, run)).frame.to_dicts()
    assert (row["launches_a"], row["a_ms"]) == (8, 0.04)
