"""Whether anybody waits for a slower kernel, told from when it ran."""

from __future__ import annotations

from typing import Any

import numpy as np
from runs import kernel, run_of, steps

from warplens.analysis.query.ask import ask
from warplens.analysis.views.diff import VIEW
from warplens.loaders.trace import Trace

MS = 1_000_000


def trace(seed: int, cycle_ms: float, lanes: list[list[tuple[str, float]]], cycles: int = 10) -> Trace:
    """Cycles of that length; each lane is a stream that runs its kernels (name, ms) one after the other."""
    draw = np.random.default_rng(seed)
    lengths = [round(cycle_ms * MS * float(np.exp(draw.normal(0, 0.002)))) for _ in range(cycles)]
    kernels: list[dict[str, Any]] = []
    begin = 0
    for length in lengths:
        for stream, lane in enumerate(lanes):
            at = begin + 1_000
            for name, ms in lane:
                dur = round(ms * MS * float(np.exp(draw.normal(0, 0.002))))
                kernels.append(kernel(len(kernels), at, dur, name, stream=stream, pid=1))
                at += dur
        begin += length
    return run_of("made", kernels=kernels, cycles=steps(*lengths))


def path(a: Trace, b: Trace, function: str) -> str | None:
    rows = {row["function"]: row for row in ask(VIEW, (a, b)).frame.to_dicts()}
    assert rows[function]["verdict"] in ("slower", "new")
    found: str | None = rows[function]["path"]
    return found


def test_a_kernel_that_makes_a_busy_device_s_cycle_longer_is_exposed() -> None:
    a = trace(1, 10.2, [[("gemm", 6), ("norm", 4)]])
    b = trace(2, 12.2, [[("gemm", 8), ("norm", 4)]])
    assert path(a, b, "gemm") == "exposed"


def test_a_kernel_that_grows_into_idle_time_is_hidden() -> None:
    a = trace(1, 10, [[("gemm", 2), ("norm", 1)]])
    b = trace(2, 10, [[("gemm", 4), ("norm", 1)]])
    assert path(a, b, "gemm") == "hidden"


def test_a_kernel_that_grows_under_another_is_hidden_though_the_device_is_never_idle() -> None:
    a = trace(1, 10.05, [[("gemm", 6), ("norm", 4)], [("copy_back", 1)]])
    b = trace(2, 10.05, [[("gemm", 6), ("norm", 4)], [("copy_back", 3)]])
    assert path(a, b, "copy_back") == "hidden"


def test_only_the_kernel_on_the_path_is_exposed_where_another_grew_under_it() -> None:
    a = trace(1, 10.2, [[("norm", 4), ("gemm", 6)], [("copy_back", 1)]])
    b = trace(2, 12.2, [[("norm", 4), ("gemm", 8)], [("copy_back", 3)]])
    assert (path(a, b, "gemm"), path(a, b, "copy_back")) == ("exposed", None)


def test_a_cycle_that_grew_by_much_more_than_an_idle_device_did_tells_nothing_about_its_kernels() -> None:
    a = trace(1, 20, [[("gemm", 2), ("norm", 1)]])
    b = trace(2, 40, [[("gemm", 4), ("norm", 1)]])
    assert path(a, b, "gemm") is None


def test_too_few_cycles_tell_nothing() -> None:
    a = trace(1, 10, [[("gemm", 2), ("norm", 1)]], cycles=3)
    b = trace(2, 10, [[("gemm", 9), ("norm", 1)]], cycles=3)
    rows = {row["function"]: row["path"] for row in ask(VIEW, (a, b)).frame.to_dicts()}
    assert rows["gemm"] is None
