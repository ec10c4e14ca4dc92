"""Make ``ascend/`` and ``ascend_pytorch_profiler_1.db``: what Ascend's PyTorch profiler writes for one rank.

Synthetic and small: two steps of a toy training loop. Operators enqueue tasks, another thread launches them, a
collective overlaps with a kernel. Tables, trace and database agree with each other. Run it again after changing it:
``python samples/make_ascend.py [FOLDER]``.
"""

from __future__ import annotations

import json
import random
import sqlite3
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
    """A time in µs as the profiler writes it."""
    return f"{(STARTED + time_ns) // 1000}.{(STARTED + time_ns) % 1000:03d}"


class Run:
    """The events of the trace, the rows of the tables, and the busy intervals for the summary table."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.rows = [HEADER]
        self.compute: list[tuple[int, int]] = []
        self.links: list[tuple[int, int]] = []
        self.database = Database()
        names = {PYTHON: "Python", CANN: "CANN", HARDWARE: "Ascend Hardware", LINKS: "HCCL"} | {
            OVERLAP: "Overlap Analysis"
        }
        for pid, name in names.items():
            self.events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
        for tid, name in ((0, "Group 0 Communication"), (1, "Plane 0")):
            self.events.append({"ph": "M", "name": "thread_name", "pid": LINKS, "tid": tid, "args": {"name": name}})

    def slice(self, name: str, pid: int, tid: int, start: int, dur: int, cat: str = "", **args: Any) -> None:
        """Add a slice; times in ns."""
        event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": us(start), "dur": dur / 1000, "args": args}
        self.events.append({**event, "cat": cat} if cat else event)

    def arrow(self, name: str, cat: str, number: object, begin: Place, end: Place) -> None:
        """Add a flow arrow between two (process, thread, time) places."""
        for phase, (pid, tid, time) in (("s", begin), ("f", end)):
            self.events.append(
                {"ph": phase, "bp": "e", "name": name, "id": number, "pid": pid, "tid": tid, "ts": us(time), "cat": cat}
            )

    def step(self, number: int, at: int, rng: random.Random) -> int:
        """Add one step that starts at ``at``; returns its end."""
        begin, free = at, {2: at, 0: at}
        for place, (operator, name, core, blocks, cube) in enumerate(TASKS):
            connection = number * 100 + place
            self.database.operator(operator, connection, at)
            self.slice(operator, PYTHON, MAIN, at, 12_000, "cpu_op")
            self.slice("Enqueue", PYTHON, MAIN, at + 2_000, 3_000, "enqueue", correlation_id=connection + 5000)
            late = at + 20_000
            self.slice(f"Dequeue@{operator}", PYTHON, QUEUE, late, 9_000, "dequeue", correlation_id=connection + 5000)
            self.slice("Node@launch", CANN, QUEUE, late + 1_000, 6_000, connection_id=connection)
            stream = 0 if core == "HCCL" else 2
            start, dur = max(late + 9_000, free[stream]), rng.randrange(10_000, 60_000)
            free[stream] = start + dur
            pid = LINKS if core == "HCCL" else HARDWARE
            self.database.launch(connection, late + 1_000)
            if core == "HCCL":
                self.database.collective(f"{name}_{number}_1", connection, start, dur)
            else:
                self.database.task(name, core, blocks, connection, start, dur)
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
        self.database.task("EVENT_RECORD", "EVENT_RECORD_SQE", 0, 1, free[2], 20)
        self.slice("EVENT_RECORD", HARDWARE, 2, free[2], 20, **{"Task Type": "EVENT_RECORD_SQE", "connection_id": 1})
        end = max(*free.values(), at) + 10_000
        self.slice(f"ProfilerStep#{number}", PYTHON, MAIN, begin, end - begin, "user_annotation")
        self.database.rows("STEP_TIME", (number, STARTED + begin, STARTED + end))
        return end

    def exposed(self) -> int:
        """Collective time not overlapped by kernels, ns."""
        covered = [time for start, end in self.compute for time in range(start, end)]
        return len({time for start, end in self.links for time in range(start, end)} - set(covered))


TABLES = {
    "STRING_IDS": "id integer, value text", "NPU_INFO": "id integer, name text",
    "HOST_INFO": "hostUid text, hostName text",
    "RANK_DEVICE_MAP": "rankId integer, deviceId integer", "ENUM_API_TYPE": "id integer, name text",
    "ENUM_HCCL_DATA_TYPE": "id integer, name text", "META_DATA": "name text, value text",
    "TASK": "startNs integer, endNs integer, deviceId integer, connectionId integer, globalTaskId integer, "
            "globalPid integer, taskType integer, contextId integer, streamId integer, taskId integer, modelId integer",
    "COMPUTE_TASK_INFO": "name integer, globalTaskId integer, blockDim integer, mixBlockDim integer, taskType integer",
    "COMMUNICATION_TASK_INFO": "name integer, globalTaskId integer, opId integer",
    "COMMUNICATION_OP": "opName integer, startNs integer, endNs integer, connectionId integer, groupName integer, "
                        "opId integer, dataType integer, count integer",
    "MEMCPY_INFO": "globalTaskId integer, size integer, memcpyOperation integer",
    "CANN_API": "startNs integer, endNs integer, type integer, globalTid integer, connectionId integer, name integer",
    "PYTORCH_API": "startNs integer, endNs integer, globalTid integer, connectionId integer, name integer, "
                   "sequenceNumber integer, fwdThreadId integer, type integer",
    "CONNECTION_IDS": "id integer, connectionId integer", "STEP_TIME": "id integer, startNs integer, endNs integer",
    "MSTX_EVENTS": "startNs integer, endNs integer, eventType integer, message integer, globalTid integer",
    "MEMORY_RECORD": "component integer, timestamp integer, totalAllocated integer, totalReserved integer, "
                     "deviceId integer",
}


class Database:
    """The rows of the database's tables; texts are stored as ids."""

    def __init__(self) -> None:
        self.tables: dict[str, list[tuple[object, ...]]] = {name: [] for name in TABLES}
        self._texts: dict[str, int] = {}
        self.rows("NPU_INFO", (0, "Made-up NPU"))
        self.rows("HOST_INFO", ("0", "made-up-host"))
        self.rows("RANK_DEVICE_MAP", (1, 0))
        self.rows("ENUM_API_TYPE", (50001, "op"), (50002, "queue"), (10000, "node"))
        self.rows("ENUM_HCCL_DATA_TYPE", (4, "FP32"))
        self.rows("META_DATA", ("ENV_VARIABLES", '{"API_TOKEN": "hunter2"}'))

    def rows(self, table: str, *rows: tuple[object, ...]) -> None:
        """Add rows to a table."""
        self.tables[table] += rows

    def text(self, text: str) -> int:
        """The id of a text."""
        return self._texts.setdefault(text, len(self._texts))

    def operator(self, name: str, connection: int, at: int) -> None:
        """Add an operator and its enqueue call; CONNECTION_IDS maps the operator's id to the task's connection."""
        thread = PYTHON << 32 | MAIN
        for what, number, kind, start, end in (
            (name, connection + 7, 50001, at, at + 12_000),
            ("Enqueue", connection + 5000, 50002, at + 2_000, at + 5_000),
        ):
            times = STARTED + start, STARTED + end
            self.rows("PYTORCH_API", (*times, thread, number, self.text(what), None, None, kind))
        self.rows("CONNECTION_IDS", (connection + 7, connection))

    def launch(self, connection: int, at: int) -> None:
        """Add a launch call nested in another call with the same connection."""
        thread = PYTHON << 32 | QUEUE
        for name, start, dur in (("node@launch", at, 6_000), ("rtKernelLaunch", at + 1_000, 3_000)):
            begin = STARTED + start
            self.rows("CANN_API", (begin, begin + dur, 10000, thread, connection, self.text(name)))

    def task(self, name: str, kind: str, blocks: int, connection: int, start: int, dur: int) -> None:
        """Add a device task; compute tasks get their name, copies their size."""
        number, begin = len(self.tables["TASK"]), STARTED + start
        self.rows("TASK", (begin, begin + dur, 0, connection, number, PYTHON, self.text(kind), 0, 2, number, 0))
        if blocks:
            self.rows("COMPUTE_TASK_INFO", (self.text(name), number, blocks, 0, self.text(kind)))
        elif kind == "PCIE_DMA_SQE":
            self.rows("MEMCPY_INFO", (number, 1 << 20, 1))

    def collective(self, name: str, connection: int, start: int, dur: int) -> None:
        """Add a collective and one of its tasks."""
        begin, op = STARTED + start, len(self.tables["COMMUNICATION_OP"])
        group = self.text("group 0")
        self.rows("COMMUNICATION_OP", (self.text(name), begin, begin + dur, connection, group, op, 4, 1 << 20))
        self.rows("COMMUNICATION_TASK_INFO", (self.text(name), len(self.tables["TASK"]), op))
        self.task("SDMA", "SDMA", 0, connection, start, dur // 2)

    def write(self, path: Path) -> None:
        """Write the SQLite file."""
        path.unlink(missing_ok=True)
        database = sqlite3.connect(path)
        database.execute("pragma page_size = 1024")
        self.tables["STRING_IDS"] = [(number, text) for text, number in self._texts.items()]
        for name, columns in TABLES.items():
            database.execute(f"create table {name} ({columns})")
            marks = ", ".join("?" * (columns.count(",") + 1))
            database.executemany(f"insert into {name} values ({marks})", self.tables[name])
        database.commit()
        database.execute("vacuum")
        database.close()


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
    framework = run.database.text("PTA")
    run.database.rows("MEMORY_RECORD", *(
        (framework, STARTED + at + 1_000 * n, int((100.5 + n) * (1 << 20)), (200 + n) << 20, 0) for n in range(3)
    ))
    run.database.write(folder / "ascend_pytorch_profiler_1.db")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
