"""Reads the tables of Ascend's database as one run: tasks, collectives, operators, CANN calls, marks and memory.

Texts are ids of ``STRING_IDS``; times are ns since 1970. The name of a task that ran on a core is in
``COMPUTE_TASK_INFO``. The tasks of a collective are left out: ``COMMUNICATION_OP`` has the collective as a whole.
``CONNECTION_IDS`` maps a task's connection to its operator; the connection itself links it to the call that launched
it. Columns and tables follow Huawei's reference of the database; ``META_DATA``, which contains environment variables,
is not read.
"""

from __future__ import annotations

import re

import polars as pl
from msgspec.structs import replace

from ..kineto.dialect import MEMORY_TOTALS
from ..loader import Job
from ..recording.database import Database, read_database
from ..recording.recording import Recording, one_axis
from ..trace import Device, Trace

_COPY, _WAIT = "MEMCPY|PCIE_DMA|SDMA", "WAIT"  # Parts of the types of non-compute tasks.
_NONE = 0xFFFFFFFF  # The connection id that means no connection.
_KINDS = {"op": "op", "queue": "runtime", "trace": "python", "mstx": "annotation"}
_FRAMEWORK = {50001: "op", 50002: "queue", 50003: "trace", 50004: "mstx"}
"""Kinds of ``PYTORCH_API`` for databases that do not define them in a table."""
_STEP = "ProfilerStep#"
_RANK = re.compile(r"_(\d{1,9})\.db\Z")
_ALLOCATOR = "PTA"
_TIMES = ["startNs", "endNs"]


def load(job: Job) -> tuple[Trace, ...]:
    """Read the database, which may be compressed. Raises Unreadable if SQLite cannot read it."""
    return read_database(job, "ascend-db", "Ascend profiler", "wall clock", _read)


def _read(database: Database, recording: Recording) -> Trace:
    strings = database.read("STRING_IDS", ["id"], ["value"]).drop("source").drop_nulls("id").unique("id", keep="first")
    for number, name in database.read("NPU_INFO", ["id"], ["name"]).select("id", "name").rows():
        if number is not None:
            recording.described[f"NPU {number}"] = Device(f"NPU {number}", name)
    ties = database.read("CONNECTION_IDS", ["id", "connectionId"]).select("connectionId", op_id="id")
    ties = ties.drop_nulls().unique("connectionId", keep="first", maintain_order=True)
    only = _tasks(database, recording, strings, ties)
    _collectives(database, recording, strings, ties, only)
    steps = _framework(database, recording, strings)
    _calls(database, recording, strings)
    _marks(database, recording, strings, steps)
    _memory(database, recording, strings)
    zero, hosts = recording.earliest, database.read("HOST_INFO", [], ["hostName"])["hostName"].drop_nulls()
    facts = {"host_name": hosts[0]} if hosts.len() else {}
    trace = recording.finish(facts=facts, epoch_ns=zero if zero is not None and zero > 10**18 else None)
    rank = _rank(database, recording)
    return trace if rank is None else replace(trace, info=replace(trace.info, ranks=(rank,)))


def _named(rows: pl.DataFrame, strings: pl.DataFrame, number: str, name: str) -> pl.DataFrame:
    """Add the column ``name``: the text whose string id is in the column ``number``."""
    return rows.join(strings.rename({"value": name}), left_on=number, right_on="id", how="left", maintain_order="left")


def _connected() -> pl.Expr:
    return pl.when(pl.col("connectionId").is_between(0, _NONE - 1)).then("connectionId")


def _tasks(
    database: Database, recording: Recording, strings: pl.DataFrame, ties: pl.DataFrame
) -> str | None:
    """Add kernels, copies and waits; returns their device if all are on one, else None."""
    kernels = database.read("COMPUTE_TASK_INFO", ["globalTaskId", "name", "blockDim", "opType", "taskType"])
    kernels = kernels.drop("source").drop_nulls("globalTaskId").unique("globalTaskId", keep="first")
    for number, text in (("name", "kernel"), ("opType", "op_type"), ("taskType", "core")):
        kernels = _named(kernels, strings, number, text)
    collectives = database.read("COMMUNICATION_TASK_INFO", ["globalTaskId"])["globalTaskId"].drop_nulls().unique()
    sizes = database.read("MEMCPY_INFO", ["globalTaskId", "size"]).select("globalTaskId", bytes="size")
    sizes = sizes.drop_nulls("globalTaskId").unique("globalTaskId", keep="first")
    devices: set[str] = set()
    columns = ["deviceId", "connectionId", "globalTaskId", "globalPid", "taskType", "streamId"]
    for block in database.blocks("TASK", [*_TIMES, *columns]):
        rows = _named(block, strings, "taskType", "type").join(
            kernels.select("globalTaskId", "kernel", "blockDim", "op_type", "core"), on="globalTaskId", how="left",
            maintain_order="left",
        ).join(ties, on="connectionId", how="left", maintain_order="left").select(
            "type", "op_id", "globalTaskId", "op_type", "core", start="startNs", end="endNs",
            device=pl.format("NPU {}", "deviceId"), stream="streamId", pid="globalPid", correlation=_connected(),
            name=pl.coalesce("kernel", "type"),
            computes=pl.col("globalTaskId").is_in(kernels["globalTaskId"].implode()),
            grid=pl.when(pl.col("blockDim") > 0).then(one_axis("blockDim")),
        )
        devices |= set(rows["device"].drop_nulls().unique())
        recording.activities(rows.filter("computes"), "tasks", "kernel")
        rest = rows.filter(~pl.col("computes") & ~pl.col("globalTaskId").is_in(collectives.implode()).fill_null(False))
        copies = rest.filter(pl.col("type").str.contains(_COPY)).join(
            sizes, on="globalTaskId", how="left", maintain_order="left"
        )
        recording.activities(copies, "tasks", "memcpy")
        waits = pl.col("type").str.contains(_WAIT) & ~pl.col("type").str.contains(_COPY)
        recording.activities(rest.filter(waits), "tasks", "sync")
    return devices.pop() if len(devices) == 1 else None


def _collectives(
    database: Database, recording: Recording, strings: pl.DataFrame, ties: pl.DataFrame, only: str | None
) -> None:
    types = database.read("ENUM_HCCL_DATA_TYPE", ["id"], ["name"]).select(dataType="id", dtype="name").drop_nulls()
    columns = ["opName", "connectionId", "dataType", "count", "groupName", "deviceId"]
    for block in database.blocks("COMMUNICATION_OP", [*_TIMES, *columns]):
        rows = _named(_named(block, strings, "opName", "op"), strings, "groupName", "process_group")
        rows = rows.join(ties, on="connectionId", how="left", maintain_order="left").join(
            types.unique("dataType", keep="first"), on="dataType", how="left", maintain_order="left"
        )
        device = pl.coalesce(pl.format("NPU {}", "deviceId"), pl.lit(only, pl.String))
        recording.activities(rows.select(
            "op_id", "process_group", "dtype", name="op", start="startNs", end="endNs", device=device,
            in_elements="count", correlation=_connected(),
        ), "collectives", "collective")


def _framework(database: Database, recording: Recording, strings: pl.DataFrame) -> bool:
    """Add operators, task queue calls, Python functions and marks; returns whether steps are among them."""
    api_names = database.read("ENUM_API_TYPE", ["id"], ["name"]).select("id", "name").drop_nulls().rows()
    kinds = {number: _KINDS[name] for number, name in (*_FRAMEWORK.items(), *api_names) if name in _KINDS}
    columns = ["globalTid", "connectionId", "name", "sequenceNumber", "fwdThreadId", "type"]
    steps = False
    for block in database.blocks("PYTORCH_API", [*_TIMES, *columns]):
        rows = _named(block.rename({"name": "number"}), strings, "number", "name")
        step = pl.col("name").str.starts_with(_STEP).fill_null(False)
        steps = steps or bool(rows.select(step.any()).item())
        kind = pl.col("type").replace_strict(kinds, default="op", return_dtype=pl.String)
        recording.calls(rows.select(
            "name", start="startNs", end="endNs", kind=pl.when(step).then(pl.lit("annotation")).otherwise(kind),
            external_id="connectionId", sequence="sequenceNumber", forward_tid="fwdThreadId", **_thread(),
        ), "operators")
    return steps


def _thread() -> dict[str, pl.Expr]:
    """The process and thread id, both encoded in ``globalTid``."""
    return {"pid": pl.col("globalTid") // (1 << 32), "tid": pl.col("globalTid") % (1 << 32)}


def _calls(database: Database, recording: Recording, strings: pl.DataFrame) -> None:
    """Add CANN calls. Nested calls share a connection: only the innermost, which launched the task, keeps it."""
    rows = database.read("CANN_API", [*_TIMES, "globalTid", "connectionId", "name"]).rename({"name": "number"})
    last = pl.col("startNs") == pl.col("startNs").max().over("connectionId")
    rows = _named(rows.with_columns(last=last), strings, "number", "name")
    recording.calls(rows.select(
        "name", start="startNs", end="endNs", correlation=pl.when("last").then(_connected()), **_thread(),
    ), "calls", "runtime")


def _marks(database: Database, recording: Recording, strings: pl.DataFrame, steps: bool) -> None:
    for block in database.blocks("MSTX_EVENTS", [*_TIMES, "globalTid", "message"]):
        rows = _named(block, strings, "message", "name").drop_nulls("name")
        recording.calls(rows.select("name", start="startNs", end="endNs", **_thread()), "marks", "annotation")
    if not steps:
        rows = database.read("STEP_TIME", ["id", *_TIMES])
        name = pl.format(f"{_STEP}{{}}", "id")
        recording.calls(rows.select(name=name, start="startNs", end="endNs"), "steps", "annotation")


def _memory(database: Database, recording: Recording, strings: pl.DataFrame) -> None:
    """Add the totals of the framework's allocator as samples."""
    totals = ("totalAllocated", "totalReserved")
    for block in database.blocks("MEMORY_RECORD", ["component", "timestamp", "deviceId", *totals]):
        rows = _named(block, strings, "component", "of").filter(pl.col("of") == _ALLOCATOR)
        for (metric, _), column in zip(MEMORY_TOTALS, totals, strict=True):
            recording.samples(rows.drop_nulls(column).select(
                ts_ns="timestamp", metric=pl.lit(metric), device=pl.format("NPU {}", "deviceId"), value=column,
                unit=pl.lit("B"),
            ), "memory")


def _rank(database: Database, recording: Recording) -> int | None:
    """The rank in the database if there is exactly one, else the one in the file name; None if unknown."""
    ranks = database.read("RANK_DEVICE_MAP", ["rankId"])["rankId"].drop_nulls().unique()
    if ranks.len() == 1 and 0 <= ranks[0] < 1 << 31:
        return int(ranks[0])
    match = _RANK.search(recording.path.name) if recording.path.name.startswith("ascend_pytorch") else None
    return int(match[1]) if match else None
