"""Make ``perfetto.pftrace`` and ``perfetto_metadata.pftrace.gz``: one synthetic training run in two writers' styles.

The first is in the style of the Perfetto SDK: interned strings, an incremental clock, a clock snapshot, arguments as
annotations, flows from launches to kernels. The second is in the style of PyTorch's first Perfetto writer: no
categories, all arguments in one string, a separate track per slice. Run it again after changing it:
``python samples/make_perfetto.py [FOLDER]``.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from protobuf_writer import Fixed, Message, message

Event = dict[str, Any]
"""An event as in Kineto's JSON, with ``ts`` and ``dur`` in ns."""
EPOCH = 1_760_000_000_000_000_000
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
HOST, THREAD, AUTOGRAD = 4711, 4711, 4755


def run(steps: int = 4) -> list[Event]:
    """A few training steps, each with an H2D copy, two kernels, an all-reduce, and a synchronising call."""
    rng, events, at, number = random.Random(18), list[Event](), 1_000_000, 0
    free = {7: 0, 20: 0}

    def host(cat: str, name: str, start: int, dur: int, tid: int = THREAD, **args: Any) -> None:
        events.append({"cat": cat, "name": name, "ts": start, "dur": dur, "pid": HOST, "tid": tid, "args": args})

    for step in range(steps):
        begin = at
        for name, kernel, cat, stream, bound in (
            ("aten::copy_", "Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 7, 30_000),
            ("aten::linear", "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "kernel", 7, 90_000),
            ("aten::gelu", "void at::native::vectorized_elementwise_kernel<4, GeluFunctor>(int)", "kernel", 7, 20_000),
            ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "kernel", 20, 120_000),
        ):
            number += 1
            call = "cudaMemcpyAsync" if cat == "gpu_memcpy" else "cudaLaunchKernel"
            link = {"correlation": number, "External id": number}
            host("cpu_op", name, at, 15_000, **{"External id": number, "Ev Idx": number, "Sequence number": number})
            host("cuda_runtime", call, at + 4_000, 6_000, **link)
            start, dur = max(at + 12_000, free[stream]), rng.randrange(bound // 2, bound)
            free[stream] = start + dur
            args: dict[str, Any] = {"device": 0, "stream": stream, **link}
            if cat == "gpu_memcpy":
                args |= {"bytes": 1 << 20}
            else:
                args |= {"grid": [number, 1, 1], "block": [256, 1, 1]}
                args |= {"registers per thread": 64, "shared memory": 4096}
                args |= {"est. achieved occupancy %": 50}
            if "nccl" in kernel:
                args |= {"Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 1 << 20, "Group size": 8}
            events.append({"cat": cat, "name": kernel, "ts": start, "dur": dur, "pid": 0, "tid": stream, "args": args})
            at += 16_000
        last = max(free.values())
        host("cuda_runtime", "cudaDeviceSynchronize", at, max(last - at, 0) + 3_000)
        at = max(at, last) + 10_000
        host("user_annotation", f"ProfilerStep#{step}", begin - 1_000, at - begin)
    return events


class Sdk:
    """Writes in the style of the SDK, with interned strings."""

    def __init__(self, compressed: bool = False) -> None:
        self.packets: list[Message] = []
        self._numbers: dict[tuple[int, str], int] = {}
        self._compressed = compressed
        self._now = 0

    def _packet(self, *fields: tuple[int, object]) -> Message:
        self.packets.append([(10, 1), *fields])
        return self.packets[-1]

    def begin(self) -> None:
        """Write the clock snapshot, the defaults and the tracks."""
        clocks = [[(1, 6), (2, 500)], [(1, 1), (2, EPOCH + 500)], [(1, 64), (2, 0), (3, 1), (4, 1)]]
        self._packet((13, 1), (6, [(1, clock) for clock in clocks]), (59, [(58, 64)]))
        self._now = 500
        self._packet((60, [(1, 1), (2, "python"), (3, [(1, HOST), (6, "python")])]))
        for tid in (THREAD, AUTOGRAD):
            self._packet((60, [(1, tid), (5, 1), (4, [(1, HOST), (2, tid), (5, f"thread {tid}")])]))
        self._packet((60, [(1, 2), (2, "GPU 0")]))
        self._packet((60, [(1, 3), (5, 2), (2, "GPU 0 power"), (8, [(6, "W")])]))
        for stream in (7, 20):
            self._packet((60, [(1, 100 + stream), (5, 2), (2, f"stream {stream}")]))

    def _number(self, kind: int, text: str, new: list[tuple[int, object]]) -> int:
        key = kind, text
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            new.append((kind, [(1, self._numbers[key]), (2, text)]))
        return self._numbers[key]

    def _annotation(self, name: str, value: Any, new: list[tuple[int, object]]) -> Message:
        out: Message = [(1, self._number(3, name, new))]
        if isinstance(value, list):
            return [*out, *((12, [(4, each)]) for each in value)]
        return [*out, (6, value) if isinstance(value, str) else (5, value) if isinstance(value, float) else (4, value)]

    def write(self, events: list[Event]) -> bytes:
        """The whole trace."""
        self.begin()
        marks = [(event["ts"], 1, -event["dur"], event) for event in events]
        marks += [(event["ts"] + event["dur"], 0, event["ts"], event) for event in events]
        order = sorted(range(len(marks)), key=lambda at: marks[at][:3])
        for at in order:
            time, begins, _, event = marks[at]
            self._event(time, begins, event)
        for time, watts in ((1_000_000, 310.5), (1_200_000, 402.0)):
            self._late(time, [(9, COUNTER), (11, 3), (44, watts)])
        memory = {"Device Type": 1, "Device Id": 0, "Addr": 0x7F1000, "Bytes": 4096, "Total Allocated": 4096,
                  "Total Reserved": 8192}
        new: list[tuple[int, object]] = []
        said = [(4, self._annotation(name, value, new)) for name, value in memory.items()]
        self._late(1_100_000, [(9, INSTANT), (11, THREAD), (23, "[memory]"), *said], new)
        data = [message([(1, packet)]) for packet in self.packets]
        if not self._compressed:
            return b"".join(data)
        halves = b"".join(data[: len(data) // 2]), b"".join(data[len(data) // 2 :])
        return b"".join(message([(1, [(50, zlib.compress(half))])]) for half in halves)

    def _late(self, time: int, event: Message, new: list[tuple[int, object]] | None = None) -> None:
        """Add a packet with an absolute timestamp."""
        self._packet((8, time), (58, 6), (11, event), *([(12, new)] if new else []))

    def _event(self, time: int, begins: int, event: Event) -> None:
        on_device = event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")
        track = 100 + event["tid"] if on_device else event["tid"]
        new: list[tuple[int, object]] = []
        body: Message = [(9, BEGIN if begins else END), (11, track)]
        if begins:
            body += [(3, self._number(1, event["cat"], new)), (10, self._number(2, event["name"], new))]
            body += [(4, self._annotation(name, value, new)) for name, value in event["args"].items()]
            if "correlation" in event["args"]:
                body.append((48 if on_device else 47, Fixed(event["args"]["correlation"])))
        self._packet((8, time - self._now), (11, body), *([(12, new)] if new else []))
        self._now = time


def with_metadata(events: list[Event]) -> bytes:
    """The trace in the style of PyTorch's first writer."""
    packets: list[Message] = [[(10, 9), (60, [(1, 1), (2, "Kineto Trace"), (3, [(1, 0), (6, "Kineto Trace")])])]]
    tracks: dict[tuple[int, int], int] = {}
    processes: dict[int, int] = {}
    count = 1

    def track(event: Event) -> int:
        nonlocal count
        key = event["pid"], event["tid"]
        if event["pid"] not in processes:
            count += 1
            processes[event["pid"]] = count
            name = "python [GPU 0]" if event["pid"] == 0 else "python [CPU]"
            packets.append([(10, 9), (60, [(1, count), (2, name), (3, [(1, event["pid"]), (6, "python")])])])
        if key not in tracks:
            count += 1
            tracks[key] = count
            name = f"stream {event['tid']} " if event["pid"] == 0 else f"thread {event['tid']} (python)"
            thread = [(1, event["pid"]), (2, event["tid"]), (5, name)]
            packets.append([(10, 9), (60, [(1, count), (5, processes[event["pid"]]), (2, name), (4, thread)])])
        return tracks[key]

    properties = '"deviceProperties": [{"id": 0, "name": "Made-up GPU", "numSms": 80}]'
    annotation = [(10, "properties"), (6, properties)]
    packets.append([(10, 9), (11, [(9, INSTANT), (23, "device_properties"), (4, annotation)])])
    said = json.dumps({"backend": "nccl", "rank": 3, "world_size": 8})
    packets.append([(10, 9), (11, [(9, INSTANT), (23, "trace_metadata"), (4, [(10, "distributedInfo"), (6, said)])])])
    for event in events:
        parent = track(event)
        count += 1
        packets.append([(60, [(1, count), (5, parent), (2, "name of the parent")])])
        args = dict(event["args"])
        correlation = args.get("correlation", 0)
        body: Message = [(9, BEGIN), (23, event["name"]), (11, count)]
        if text := json.dumps(args)[1:-1]:
            body.append((4, [(10, "metadata"), (6, text)]))
        if correlation:
            body += [(4, [(10, "correlation_id"), (4, correlation)]), (47, Fixed(correlation))]
        packets.append([(10, 9), (8, EPOCH + event["ts"]), (11, body)])
        packets.append([(10, 9), (8, EPOCH + event["ts"] + event["dur"]), (11, [(9, END), (11, count)])])
    return b"".join(message([(1, packet)]) for packet in packets)


def main(folder: Path) -> None:
    """Write both files."""
    events = run()
    (folder / "perfetto.pftrace").write_bytes(Sdk().write(events))
    packed = gzip.compress(with_metadata(events), mtime=0)
    (folder / "perfetto_metadata.pftrace.gz").write_bytes(packed)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
