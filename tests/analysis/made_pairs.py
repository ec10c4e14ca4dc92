"""Made-up runs for pairs: training steps, a kernel behind the host, convolutions by swapped kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from runs import host, kernel, run_of, steps

from warplens.loaders.trace import Trace

MS = 1_000_000
SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SEVERAL = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def training(
    seed: int, *, loader_ms: float = 2.0, loader: str = SINGLE, kernel_ms: float = 3.0, items: float = 1.0,
    count: int = 12, odd_ms: float = 0.0,
) -> Trace:
    """Steps that load input, run an operator with a call inside it, launch kernels and wait for them; a little noise.

    ``items`` is the time in ms of a host call inside the operator, ``odd_ms`` what the fourth step takes longer.
    """
    draw = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    kernels: list[dict[str, Any]] = []
    lengths: list[int] = []
    begin = 0

    def noisy(ms: float) -> int:
        return round(ms * MS * float(np.exp(draw.normal(0, 0.004))))

    for number in range(count):
        at = begin
        load, item = noisy(loader_ms), noisy(items)
        rows.append(host(loader, at, load, "dataloader"))
        at += load
        rows += [host("aten::linear", at, item + 40_000), host("aten::prepare", at + 10_000, item)]
        at += item + 50_000
        for each in range(4):
            rows.append(host("cudaLaunchKernel", at + 5_000 * each, 4_000, "runtime"))
        done = at
        for each in range(4):
            dur = noisy(kernel_ms / 4)
            kernels.append(kernel(len(kernels), done, dur, f"gemm_{each}", pid=1))
            done += dur
        rows.append(host("cudaDeviceSynchronize", at + 30_000, done - at - 30_000, "runtime"))
        lengths.append(done + 20_000 - begin + (round(odd_ms * MS) if number == 3 else 0))
        begin += lengths[-1]
    return run_of("made", kernels=kernels, host=rows, cycles=steps(*lengths))


def behind_the_host(seed: int, *, kernel_ms: float = 1.0, odd: int = 0) -> Trace:
    """Steps of a host that takes 10 ms, with a kernel that nobody waits for; ``odd`` steps take twice as long."""
    draw = np.random.default_rng(seed)
    rows, kernels, lengths, begin = [], [], [], 0
    for number in range(12):
        length = round(10 * MS * float(np.exp(draw.normal(0, 0.002)))) * (2 if number >= 12 - odd else 1)
        rows += [host("aten::mm", begin, length - 1000), host("cudaLaunchKernel", begin + 1000, 4000, "runtime",
                                                              correlation=number + 1)]
        dur = round(kernel_ms * MS * float(np.exp(draw.normal(0, 0.002))))
        kernels.append(kernel(number, begin + 6000, dur, correlation=number + 1, pid=1))
        lengths.append(length)
        begin += length
    return run_of("made", kernels=kernels, host=rows, cycles=steps(*lengths))


BEFORE, AFTER = ["wino", "wino", "wino", "implicit"], ["wino", "fft", "fft", "fft"]


def convolutions(
    kernels: list[str], seed: int, *, us: float = 100.0, op: str = "aten::conv", ops: list[str] | None = None,
    count: int = 10, module: str | None = None,
) -> Trace:
    """Cycles in which one operator is called once for each of these kernels, and another one for a norm; ``module``:
    all calls but that are inside one of this name."""
    draw = np.random.default_rng(seed)
    slices: list[dict[str, Any]] = []
    activities = []
    under = zip(ops or [op] * len(kernels), kernels, strict=True)
    calls = [*((operator, name, us) for operator, name in under), ("aten::norm", "norm", 800.0)]
    apart = min(300_000, 1_900_000 // len(calls))
    for cycle in range(count):
        if module is not None:
            slices.append(host(f"nn.Module: {module}_{cycle}", cycle * 2_000_000, 300_000 * len(kernels), "python"))
        for place, (operator, name, taken) in enumerate(calls):
            at, number = cycle * 2_000_000 + place * apart, cycle * len(calls) + place + 1
            slices += [host(operator, at, 8_000),
                       host("cudaLaunchKernel", at + 1_000, 2_000, "runtime", correlation=number)]
            dur = round(taken * 1e3 * float(np.exp(draw.normal(0, 0.003))))
            activities.append(kernel(number - 1, at + 5_000, dur, name, correlation=number, pid=1))
    return run_of("made", host=slices, kernels=activities, cycles=steps(*[2_000_000] * count))
