"""A diff of many functions and cycles looks at some of them at a time, and says what it would say of all at once."""

from __future__ import annotations

import numpy as np
import pytest
from runs import run_of

from warplens.analysis.cycles import detection
from warplens.analysis.diff import reference, rows
from warplens.analysis.diff.prepare import samples
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.views.diff import VIEW
from warplens.loaders.trace import Trace


def made_up(seed: int) -> Trace:
    """Twelve functions in twenty cycles, in no order, every second one with two metrics; the first ones get slower."""
    draw = np.random.default_rng(seed)
    cycles = [{"cycle": number, "start_ns": 1_000_000 * number, "dur_ns": 900_000 + number} for number in range(20)]
    rows = []
    for cycle in cycles:
        for function in range(12):
            span = int((10_000 + 900 * function) * (1 + (seed - 1) * 0.3 * (function < 3)) * draw.lognormal(0, 0.01))
            on_device = function % 2 == 0
            for metric in ("gpu_sm_frequency", "gpu_usage") if on_device else (None,):
                rows.append({
                    "cycle": cycle["cycle"], "cycle_ns": cycle["dur_ns"], "cycle_start_ns": cycle["start_ns"], "pid": 1,
                    "function": f"f{function}", "kind": "kernel" if on_device else "op", "metric": metric,
                    "device": "GPU 0" if on_device else "Host", "beta": span / 9_000, "dur_ns": span, "instances": 2,
                    "mu": draw.normal(1000, 5) if metric else None,
                })
    draw.shuffle(rows)
    return run_of(cycles=cycles, profile=rows)


def answered() -> Table:
    return ask(VIEW, (made_up(1), made_up(2)))


def test_how_many_are_looked_at_at_once_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answered()
    assert {"slower", "~"} <= set(whole.frame["verdict"])
    for module, name, few in (
        (samples, "_BLOCK", 17), (reference, "_TOGETHER", 90), (rows, "TOGETHER", 90),
        (detection, "TOGETHER", 50),
    ):
        monkeypatch.setattr(module, name, few)
    some = answered()
    assert some.frame.equals(whole.frame)
    assert (some.facts, some.summary, some.notes) == (whole.facts, whole.summary, whole.notes)


def test_the_rows_are_let_go_once_they_are_matrices() -> None:
    from warplens.analysis.contract.options import Options
    from warplens.analysis.diff.headline import prepared_pair

    ready = prepared_pair((made_up(1), made_up(2)), Options())
    assert ready is not None and all(work.rows.is_empty() for work in ready.works)
    assert ready.matched[0].a.ms.shape == (12, 20)
