"""Make ``xla_gpu.xplane.pb`` and ``xla_tpu.xplane.pb``: small profiles as written by JAX on a GPU and on a TPU.

On the GPU four training steps each launch a copy, on its own stream, and four kernels through the HLO ops of one
module; on the TPU two cores run the ops of one program, some inside a loop, in recorded steps. Run it again after
changing it: ``python samples/make_xla.py [FOLDER]``.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from protobuf_writer import Message, message

STARTED = 1_760_000_000_000_000_000
Said = dict[str, "int | float | str"]


class Plane:
    """A plane with its tables of names. Event times are in ns from the start of their line."""

    def __init__(self, number: int, name: str, **own: int | float | str) -> None:
        self.number, self.name, self.own = number, name, own
        self._events: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._lines: list[Message] = []

    def _name(self, text: str) -> int:
        return self._names.setdefault(text, len(self._names) + 1)

    def _said(self, said: Said) -> list[tuple[int, object]]:
        out: list[tuple[int, object]] = []
        for name, value in said.items():
            kind = 2 if isinstance(value, float) else 4 if isinstance(value, int) else 7
            out.append((4, [(1, self._name(name)), (kind, self._name(value) if isinstance(value, str) else value)]))
        return out

    def line(self, number: int, name: str, begin_ns: int, events: list[tuple[str, int, int, Said]]) -> None:
        """Add a line of events: (name, start in ns, duration in ns, statistics)."""
        out: Message = [(1, number), (2, name), (3, begin_ns)]
        for event, start, dur, said in events:
            known = self._events.setdefault(event, len(self._events) + 1)
            out.append((4, [(1, known), (2, start * 1000), (3, dur * 1000 + 250), *self._said(said)]))
        self._lines.append(out)

    def written(self) -> Message:
        """The plane as a message, with the name tables after the lines."""
        own = [(6, said) for _, said in self._said(self.own)]
        out: Message = [(1, self.number), (2, self.name), *((3, line) for line in self._lines)]
        out += [(4, [(1, known), (2, [(1, known), (2, name)])]) for name, known in self._events.items()]
        out += [(5, [(1, known), (2, [(1, known), (2, name)])]) for name, known in self._names.items()]
        return out + own


def gpu(steps: int = 4) -> bytes:
    """The profile of a GPU: launches on the host, kernels on one stream and copies on another."""
    rng = random.Random(7)
    device = Plane(1, "/device:GPU:0", device_type_string="Made-up GPU", core_count=108)
    host, about = Plane(2, "/host:CPU"), Plane(3, "Task Environment", profile_start_time=STARTED)
    calls: list[tuple[str, int, int, Said]] = []
    python: list[tuple[str, int, int, Said]] = []
    compute: list[tuple[str, int, int, Said]] = []
    links: list[tuple[str, int, int, Said]] = []
    at, number, free = 5_000, 100, 0
    for step in range(steps):
        begin = at
        python.append(("$train.py:12 step", at, 250_000, {}))
        python.append(("jit_step:XLA GPU module", at + 2_000, 240_000, {}))
        for op, kernel in (
            ("copy.1", "MemcpyH2D"), ("gemm_fusion_dot.3", "gemm_fusion_dot_3"), ("loop_add_fusion", "loop_add_fusion"),
            ("all-reduce.5", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)"),
            ("input_reduce_fusion", "input_reduce_fusion"),
        ):
            number += 1
            at += 40_000
            about_op: Said = {"correlation_id": number, "hlo_op": op, "hlo_module": "jit_step"}
            call = "cuMemcpyHtoDAsync_v2" if kernel == "MemcpyH2D" else "cuLaunchKernelEx"
            python.append((op, at, 20_000, {}))
            calls.append((call, at + 5_000, 9_000, about_op))
            dur = rng.randrange(10_000, 70_000)
            start = max(at + 18_000, free)
            free = start + dur
            details = "regs:64 static_shared:0 dynamic_shared:4096 grid:32,8,1 block:128,1,1 occ_pct:50"
            said: Said = {"kernel_details": details, **about_op}
            if kernel == "MemcpyH2D":
                said = {"memcpy_details": "kind_src:pinned kind_dst:device size:1048576 dest:0 async:1", **about_op}
            (links if kernel == "MemcpyH2D" else compute).append((kernel, start, dur, said))
        at = max(at, free) + 30_000
        python.append(("train", begin - 2_000, at - begin, {"step_num": step}))
    device.line(14, "Stream #14(Compute)", 3_000_000, compute)
    device.line(18, "Stream #18(MemcpyH2D)", 3_000_000, links)
    device.line(90, "XLA Modules", 3_000_000, [("jit_step", compute[0][1], 10_000, {})])
    host.line(77, "cuda-api", 3_000_000, calls)
    host.line(4711, "python3", 3_000_000, python)
    return message([*((1, plane.written()) for plane in (device, host, about)), (4, "made-up-host")])


def tpu(steps: int = 3) -> bytes:
    """The profile of two TPU cores: recorded steps, one program per step, a loop around some of its ops."""
    rng, planes = random.Random(8), []
    for core in range(2):
        plane = Plane(core + 1, f"/device:TPU:{core}")
        ops: list[tuple[str, int, int, Said]] = []
        marks: list[tuple[str, int, int, Said]] = []
        modules: list[tuple[str, int, int, Said]] = []
        at = 10_000
        for step in range(steps):
            begin = at
            durations = [rng.randrange(5_000, 60_000) for _ in range(6)]
            inside = sum(durations[:4])
            ops.append(("while.7", at, inside, {}))
            for name, dur in zip(("fusion.1", "convolution.2", "fusion.1", "convolution.2"), durations, strict=False):
                ops.append((name, at, dur, {"hlo_category": "fusion", "flops": 1 << 20}))
                at += dur
            for name, dur in zip(("all-reduce.3", "copy.4"), durations[4:], strict=True):
                ops.append((name, at, dur, {}))
                at += dur
            modules.append(("jit_step(3)", begin, at - begin, {}))
            marks.append((str(step + 40), begin, at - begin + 4_000, {}))
            at += 5_000
        plane.line(1, "Steps", STARTED, marks)
        plane.line(2, "XLA Modules", STARTED, modules)
        plane.line(3, "XLA Ops", STARTED, ops)
        planes.append(plane)
    return message([*((1, plane.written()) for plane in planes), (4, "made-up-tpu")])


def main(folder: Path) -> None:
    """Write both profiles."""
    (folder / "xla_gpu.xplane.pb").write_bytes(gpu())
    (folder / "xla_tpu.xplane.pb").write_bytes(tpu())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
