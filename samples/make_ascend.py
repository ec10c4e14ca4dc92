"""Make ``ascend/``: the folder Ascend's PyTorch profiler writes for one rank, made up and small.

Two steps of a toy training loop: operators put tasks into a queue, another thread launches them, a collective overlaps
with a kernel. The tables agree with the trace. Run it again after changing it:
``python samples/make_ascend.py [FOLDER]``.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

STARTED = 1_760_000_000_000_000_000
PYTHON, CANN, HARDWARE, LINKS, OVERLAP = 4711, 482406560, 482406752, 482406816, 482407072
MAIN, QUEUE = 4711, 4755
Place = tuple[int, int, int]
HEADER = (
    "Step Id,Model ID,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,"
    "Mix Block Dim,aicore_time(us),aic_mac_ratio,cube_utilization(%)"
)
TASKS = (
    ("aclnnInplaceCopy", "MEMCPY_ASYNC", "PCIE_DMA_SQE", 0, 0.0), ("aclnnMm", "aclnnMm_MatMulV2", "AI_CORE", 24, 0.81),
    ("aclnnRelu", "aclnnRelu_Relu", "AI_VECTOR_CORE", 48, 0.0),
    ("HcclAllreduce", "hcom_allReduce__271", "HCCL", 0, 0.0), ("aclnnAdd", "aclnnAdd_Add", "AI_VECTOR_CORE", 40, 0.0),
)


def us(time_ns: int) -> str:
    """A time as the profiler writes it."""
    return f"{(STARTED + time_ns) // 1000}.{(STARTED + time_ns) % 1000:03d}"


class Run:
    """The events of the trace, the rows of the tables and the busy intervals they are summed from."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.rows = [HEADER]
        self.compute: list[tuple[int, int]] = []
        self.links: list[tuple[int, int]] = []
        names = {PYTHON: "Python", CANN: "CANN", HARDWARE: "Ascend Hardware", LINKS: "HCCL"} | {
            OVERLAP: "Overlap Analysis"
        }
        for pid, name in names.items():
            self.events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
        for tid, name in ((0, "Group 0 Communication"), (1, "Plane 0")):
            self.events.append({"ph": "M", "name": "thread_name", "pid": LINKS, "tid": tid, "args": {"name": name}})

    def slice(self, name: str, pid: int, tid: int, start: int, dur: int, cat: str = "", **args: Any) -> None:
        """One slice, in ns."""
        event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": us(start), "dur": dur / 1000, "args": args}
        self.events.append({**event, "cat": cat} if cat else event)

    def arrow(self, name: str, cat: str, number: object, begin: Place, end: Place) -> None:
        """An arrow between two (process, thread, time)."""
        for phase, (pid, tid, time) in (("s", begin), ("f", end)):
            self.events.append(
                {"ph": phase, "bp": "e", "name": name, "id": number, "pid": pid, "tid": tid, "ts": us(time), "cat": cat}
            )

    def step(self, number: int, at: int, rng: random.Random) -> int:
        """One step from a time on; when it ends."""
        begin, free = at, {2: at, 0: at}
        for place, (operator, name, core, blocks, cube) in enumerate(TASKS):
            connection = number * 100 + place
            self.slice(operator, PYTHON, MAIN, at, 12_000, "cpu_op")
            self.slice("Enqueue", PYTHON, MAIN, at + 2_000, 3_000, "enqueue", correlation_id=connection + 5000)
            late = at + 20_000
            self.slice(f"Dequeue@{operator}", PYTHON, QUEUE, late, 9_000, "dequeue", correlation_id=connection + 5000)
            self.slice("Node@launch", CANN, QUEUE, late + 1_000, 6_000, connection_id=connection)
            stream = 0 if core == "HCCL" else 2
            start, dur = max(late + 9_000, free[stream]), rng.randrange(10_000, 60_000)
            free[stream] = start + dur
            pid = LINKS if core == "HCCL" else HARDWARE
            self.arrow("torch_to_npu", "async_npu", STARTED + start, (PYTHON, MAIN, at), (pid, stream, start))
            if core == "HCCL":
                said = {"connection_id": connection, "data_type": "FP32", "count": 1 << 20}
                self.slice(f"{name}_{number}_1", LINKS, 0, start, dur, **said)
                self.slice("Reduce_Inline", LINKS, 1, start, dur // 2, **{"task type": "Reduce_Inline"})
                self.slice("SDMA", HARDWARE, 4, start, dur // 2, **{"Task Type": "SDMA", "connection_id": connection})
                self.links.append((start, start + dur))
                row = ("N/A", "N/A", f"{name}_{number}_1", "hcom_allReduce_", "HCCL")
            else:
                self.slice(name, HARDWARE, 2, start, dur, **{"Task Type": core, "connection_id": connection})
                row = (str(connection), "2", name, name.rpartition("_")[2], core)
            if core != "PCIE_DMA_SQE":
                if core != "HCCL":
                    self.compute.append((start, start + dur))
                cells = (str(number), "4294967295", *row, f"{us(start)}\t", f"{dur / 1000:.3f}", "0", str(blocks), "0")
                self.rows.append(",".join((*cells, f"{dur / 1000:.3f}", str(cube), str(100 * cube))))
            at += 15_000
        self.slice("EVENT_RECORD", HARDWARE, 2, free[2], 20, **{"Task Type": "EVENT_RECORD_SQE", "connection_id": 1})
        end = max(*free.values(), at) + 10_000
        self.slice(f"ProfilerStep#{number}", PYTHON, MAIN, begin, end - begin, "user_annotation")
        return end

    def exposed(self) -> int:
        """Time of collectives that no kernel covers, in ns."""
        covered = [time for start, end in self.compute for time in range(start, end)]
        return len({time for start, end in self.links for time in range(start, end)} - set(covered))


def main(folder: Path) -> None:
    """Write the folder of rank 1."""
    rng, run, at = random.Random(5), Run(), 50_000
    for number in (7, 8):
        at = run.step(number, at, rng)
    above = folder / "ascend" / "rank1_ascend_pt"
    inside = above / "ASCEND_PROFILER_OUTPUT"
    inside.mkdir(parents=True, exist_ok=True)
    (above / "profiler_info_1.json").write_text(json.dumps({"rank_id": 1}) + "\n")
    (inside / "trace_view.json").write_text("[" + ",\n".join(map(json.dumps, run.events)) + "]\n")
    (inside / "kernel_details.csv").write_text("\n".join(run.rows) + "\n")
    linked, exposed = sum(end - start for start, end in run.links), run.exposed()
    sums = [sum(end - start for start, end in run.compute), exposed, linked - exposed, linked]
    (inside / "step_trace_time.csv").write_text(
        "Step,Computing,Communication(Not Overlapped),Overlapped,Communication\n"
        + ",".join(["", *(str(ns / 1000) for ns in sums)]) + "\n"
    )
    memory = [f"PTA,{us(at + 1_000 * n)}\t,{100 + n}.5,{200 + n},{100 + n},1,NPU:0" for n in range(3)]
    (inside / "memory_record.csv").write_text(
        "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type\n"
        + "\n".join(memory) + "\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
