"""Runs of a history whose truth is known: their sums, and small recordings of the same."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from warplens.analysis.history.sums import KindSums, RunSums, Sum

KERNELS = {"gemm_a": 3_000_000.0, "gemm_c": 5_000_000.0, "norm_b": 1_000_000.0, "softmax": 700_000.0}


def sums(
    number: int, factors: Mapping[str, float] | None = None, *, hardware: str = "NVIDIA A100", noise: float = 0.004,
    kernels: Mapping[str, float] = KERNELS, ops: Mapping[str, float] | None = None, cycle_kind: str = "step",
) -> RunSums:
    """A run whose kernels take so long per cycle, times their factor, with noise of its own."""
    rng = random.Random(number)
    times = {name: ns * (factors or {}).get(name, 1.0) * rng.gauss(1, noise) for name, ns in kernels.items()}
    launched = {name: Sum(ns, 10.0) for name, ns in times.items()}
    parts = {"kernel": launched, "idle": {"launch": Sum(50_000.0)}}
    if ops:
        parts["op"] = {name: Sum(1e6, calls) for name, calls in ops.items()}
    total = sum(times.values())
    part = KindSums(cycle_kind, 6, total + 50_000, total, 50_000.0, None, parts)
    return RunSums(
        f"/runs/night-{number:03}.json", f"night-{number:03}", f"2026-01-01T00:{number:02}:00+00:00", (hardware,),
        "recorded", 1, (part,))


def stepped(runs: int, name: str, factor: float, at: int) -> list[RunSums]:
    """A history in which one kernel takes so many times as long from that run on."""
    return [sums(number, {name: factor if number >= at else 1.0}) for number in range(runs)]


def write_run(path: Path, factors: Mapping[str, float], seed: int, kernels: Sequence[str] = tuple(KERNELS)) -> Path:
    """A Kineto trace of four steps, in each of which every kernel runs twice."""
    rng, now = random.Random(seed), 1e15
    events: list[dict[str, object]] = []
    for step in range(4):
        begin = now
        for turn in range(2):
            for name in kernels:
                correlation = step * 100 + turn * 10 + list(KERNELS).index(name) + 1
                length = KERNELS[name] / 2_000 * factors.get(name, 1.0) * rng.gauss(1, 0.002)
                call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "ts": now, "dur": 5.0}
                ran = {"cat": "kernel", "name": name, "pid": 0, "ts": now + 8, "dur": length}
                events.append({"ph": "X", "tid": 1, **call, "args": {"correlation": correlation}})
                arguments = {"device": 0, "stream": 7, "correlation": correlation}
                events.append({"ph": "X", "tid": 7, **ran, "args": arguments})
                now += length + 12
        mark = {"cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": begin, "dur": now - begin}
        events.append({"ph": "X", "pid": 1, "tid": 1, **mark})
    document = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100"}], "traceEvents": events}
    path.write_text(json.dumps(document))
    return path
