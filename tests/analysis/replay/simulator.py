"""A simulated training run whose every cause is in the code: simulate again with a change and its effect is exact."""

from __future__ import annotations

import random
from collections.abc import Callable

from runs import run_of

from warplens.loaders.trace import Trace

LAUNCH, DISPATCH, BACK_TO_BACK, RETURN = 5_000, 4_000, 1_000, 3_000
"""ns: a launch call; from its end to the start on an idle stream; between activities of a busy one; back from waits."""
KINDS = ("device", "host", "input", "sync", "communication")
"""What sets the pace of a simulated run."""
Change = Callable[[str, str], float]


def unchanged(kind: str, name: str) -> float:
    """The factor on everything."""
    return 1.0


class Machine:
    """One process with two threads, and a device with streams."""

    def __init__(self, change: Change, graph: bool = False) -> None:
        self.change, self.now, self.thread, self.calls = change, 0, 1, 0
        self.graph, self.joined = graph, False
        """Whether the launches up to where the host waits or a cycle ends are one, and whether that was made."""
        self.free: dict[int, int] = {}
        self.bound: dict[int, int] = {}
        self.host_rows: list[dict[str, object]] = []
        self.kernel_rows: list[dict[str, object]] = []

    def slice(self, name: str, start: int, kind: str, **more: object) -> None:
        """Record what the thread did from then to now."""
        self.host_rows.append({"name": name, "kind": kind, "start_ns": start, "dur_ns": self.now - start, "pid": 1,
                               "tid": self.thread, "rank": None, **more})

    def work(self, name: str, nanoseconds: float, kind: str = "python") -> None:
        """Host code."""
        start = self.now
        self.now += 0 if self.joined else round(nanoseconds * self.change("host", name))
        self.slice(name, start, kind)

    def call(self, name: str, nanoseconds: int) -> int:
        """A runtime call."""
        self.calls += 1
        start = self.now
        self.now += 0 if self.joined else nanoseconds
        self.slice(name, start, "runtime", correlation=self.calls)
        return self.calls

    def launch(self, name: str, nanoseconds: float, stream: int, kind: str = "kernel") -> None:
        """A launch call and the activity it launches."""
        call = self.call("cudaMemcpyAsync" if kind == "memcpy" else "cudaLaunchKernel", LAUNCH)
        self.joined = self.graph
        dur = round(nanoseconds * self.change("copy" if kind == "memcpy" else kind, name))
        start = max(self.now + DISPATCH, self.free.get(stream, -BACK_TO_BACK) + BACK_TO_BACK, self.bound.pop(stream, 0))
        self.free[stream] = start + dur
        self.kernel_rows.append({"name": name, "kind": kind, "start_ns": start, "dur_ns": dur, "stream": stream,
                                 "device": "GPU 0", "rank": None, "pid": 1, "correlation": call})

    def op(self, name: str, kernel: str, nanoseconds: float, overhead: float) -> None:
        """An operator that launches a kernel on the main stream."""
        start = self.now
        self.now += 0 if self.joined else round(overhead * self.change("host", name))
        self.launch(kernel, nanoseconds, 7)
        self.slice(name, start, "op")

    def wait_for(self, stream: int, other: int) -> None:
        """What is launched on a stream from now on starts after what is on the other one by now."""
        self.call("cudaEventRecord", 1_000)
        self.call("cudaStreamWaitEvent", 1_000)
        self.bound[stream] = self.free.get(other, 0) + 2_000

    def synchronize(self, name: str) -> None:
        """Wait for the main stream."""
        self.joined = False
        end, start = self.free.get(7, 0), self.now
        self.now += 2_000
        if self.change("sync", name):
            self.now = max(self.now, end + RETURN)
        self.calls += 1
        self.slice(name, start, "runtime", correlation=self.calls)


def simulate(
    seed: int, pace: str, change: Change = unchanged, cycles: int = 8, graph: bool = False
) -> tuple[Trace, float]:
    """A run with that pace, and how long one of its cycles takes (ns, from the first mark to the end of all work)."""
    machine, rng, ends = Machine(change, graph), random.Random(seed), list[int]()
    marks = []
    long, over = {"device": (180e3, 12e3), "communication": (180e3, 12e3), "host": (25e3, 60e3)}.get(pace, (90e3, 20e3))
    for cycle in range(cycles):
        begin, machine.joined = machine.now, False
        if pace == "input":
            machine.work("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 6e6 * rng.uniform(0.9, 1.1),
                         "annotation")
        machine.work("train.py(31): prepare", 150e3)
        machine.launch("Memcpy HtoD (Pageable -> Device)", 120e3, 7, "memcpy")
        machine.synchronize("cudaEventSynchronize")
        for layer in range(12):
            machine.op("aten::addmm", "gemm_forward", long * rng.uniform(0.97, 1.03), over)
            machine.op("aten::layer_norm", "norm", 0.3 * long * rng.uniform(0.97, 1.03), over)
            if pace == "sync" and layer % 4 == 3:
                machine.synchronize("cudaStreamSynchronize")
                machine.work("train.py(57): choose", 200e3)
        machine.thread = 2
        for layer in range(12):
            machine.op("aten::mm", "gemm_backward", 1.6 * long * rng.uniform(0.97, 1.03), over)
            if layer % 4 == 3:
                machine.wait_for(20, 7)
                size = (9.0 if pace == "communication" else 1.5) * long
                machine.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", size * rng.uniform(0.97, 1.03), 20,
                               "collective")
        machine.thread = 1
        machine.wait_for(7, 20)
        machine.op("aten::_foreach_add_", "adam", 2 * long, over)
        marks.append({"cycle": cycle, "start_ns": begin, "dur_ns": machine.now - begin, "rank": None, "kind": "step",
                      "label": f"ProfilerStep#{cycle}", "source": "recorded", "complete": True})
        ends.append(max(machine.now, *machine.free.values()))
    kernels = sorted(machine.kernel_rows, key=lambda row: str(row["start_ns"]).zfill(20))
    for index, row in enumerate(kernels):
        row["index"] = index
    run = run_of(pace, kernels=kernels, host=machine.host_rows, cycles=marks)
    return run, (ends[-1] - marks[0]["start_ns"]) / cycles
