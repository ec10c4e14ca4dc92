"""rocmProfileData: device operations, API calls, the links between them, and samples of the system monitor.

Times are nanoseconds since boot and clocks MHz, despite its documentation: as microseconds, a recording of half a
second would have lasted eight minutes. ``KernelExecution`` is a kernel, and so is ``Task``, a kernel replayed by a HIP
graph: tasks have kernel names, run one after another on the queue, and are linked to their ``hipGraphLaunch`` (in
ROCm's runtime ``AccumulateCommand``; Triton's Proton counts this kind of activity, 0x11F1, as kernels of a graph
launch). Ids are unique within a database, so an API call's id is the correlation id.
"""

from __future__ import annotations

import polars as pl

from ..loader import Job
from ..recording.database import Database, read_database
from ..recording.recording import Recording, size
from ..recording.values import columns
from ..trace import Trace

KERNEL_TYPES = ("KernelExecution", "Task")
"""Operation types that are kernels; ``Task`` is HIP's name for a kernel inside a graph."""
_WAITS = "Barrier|Marker|Signal|Wait"
_SETS = "Fill|Memset"
_GRAPH_LAUNCH = "hipGraphLaunch"
_RANGE = "UserMarker"
_OVERHEAD = r"::writeRows$|^rpdflush$|_activity_callback$"
"""Calls of the profiler itself: writing its tables, flushing its buffers."""
_UNITS = {"sclk": "MHz", "mclk": "MHz", "fclk": "MHz", "socclk": "MHz", "temp": "C", "power": "W", "use": "%"}


def load(job: Job) -> tuple[Trace, ...]:
    """Read the database, which may be compressed. Raises Unreadable if SQLite cannot read it."""
    return read_database(job, "rpd", "rocmProfileData", "since boot, ns", _read)


def _read(database: Database, recording: Recording) -> Trace:
    strings = database.read("rocpd_string", ["id"], ["string"]).drop("source").unique("id", keep="first")
    ties = database.read("rocpd_api_ops", ["api_id", "op_id"]).drop("source").drop_nulls()
    ties = ties.unique("op_id", keep="first", maintain_order=True)
    launches = _launches(database, strings)
    for block in database.blocks("rocpd_op", ["id", "gpuId", "queueId", "start", "end", "description_id", "opType_id"]):
        _operations(recording, block, strings, ties, launches)
    operators = _operators(database, strings)
    calls = ["id", "pid", "tid", "start", "end", "apiName_id", "args_id"]
    for block in database.blocks("rocpd_api", calls):
        _calls(recording, block, strings, operators)
    samples = database.read("rocpd_monitor", ["deviceId", "start", "end"], ["deviceType", "monitorType", "value"])
    _monitor(recording, samples)
    return recording.finish()


def _launches(database: Database, strings: pl.DataFrame) -> pl.DataFrame:
    """Per API call its process, and its graph, launch sizes or bytes copied if it launched any; keyed ``api_id``."""
    calls = _named(database.read("rocpd_api", ["id", "pid", "apiName_id"]), strings, "apiName_id", "name")
    graph = pl.when(pl.col("name") == _GRAPH_LAUNCH).then("id").alias("graph")
    calls = calls.select(pl.col("id").alias("api_id"), "pid", graph).unique("api_id", keep="first")
    wide = ["gridX", "gridY", "gridZ", "workgroupX", "workgroupY", "workgroupZ", "groupSegmentSize"]
    kernels = _by_call(database, "rocpd_kernelapi", wide).select(
        "api_id", grid=size("gridX", "gridY", "gridZ"), block=size("workgroupX", "workgroupY", "workgroupZ"),
        shared_bytes="groupSegmentSize",
    )
    copies = _by_call(database, "rocpd_copyapi", ["size"]).select("api_id", bytes="size")
    return calls.join(kernels, on="api_id", how="left").join(copies, on="api_id", how="left")


def _by_call(database: Database, table: str, columns: list[str]) -> pl.DataFrame:
    """A table of call arguments, keyed by the call's ``api_id``, whichever of two names that column has."""
    rows = database.read(table, ["api_ptr_id", "api_id", *columns])
    return rows.with_columns(api_id=pl.coalesce("api_ptr_id", "api_id")).drop_nulls("api_id").unique(
        "api_id", keep="first"
    )


def _named(rows: pl.DataFrame, strings: pl.DataFrame, key: str, name: str) -> pl.DataFrame:
    return rows.join(strings.rename({"string": name}), left_on=key, right_on="id", how="left", maintain_order="left")


def _operations(
    recording: Recording, rows: pl.DataFrame, strings: pl.DataFrame, ties: pl.DataFrame, launches: pl.DataFrame
) -> None:
    rows = _named(_named(rows, strings, "opType_id", "type"), strings, "description_id", "description")
    rows = rows.join(ties, left_on="id", right_on="op_id", how="left", maintain_order="left")
    rows = rows.join(launches, on="api_id", how="left", maintain_order="left")
    kernel = pl.col("type").is_in(KERNEL_TYPES)
    copy, fill = pl.col("type").str.starts_with("Copy"), pl.col("type").str.contains(_SETS)
    rows = rows.with_columns(
        name=pl.coalesce(pl.when(pl.col("description") != "").then("description"), "type"),
        device=pl.format("GPU {}", "gpuId"), stream="queueId", correlation="api_id",
    )
    recording.activities(rows.filter(kernel).drop("bytes"), "rocpd_op")
    others = rows.filter(~kernel.fill_null(False)).drop("grid", "block", "shared_bytes")
    recording.activities(others.filter(copy), "rocpd_op", "memcpy")
    recording.activities(others.filter(fill & ~copy), "rocpd_op", "memset")
    rest = others.filter(~(copy | fill).fill_null(False)).drop("bytes")
    waits = pl.col("type").str.contains(_WAITS).fill_null(False)
    recording.activities(rest.filter(waits), "rocpd_op", "sync")
    unknown = rest.filter(~waits)
    if unknown.height:
        kinds = ", ".join(sorted({str(kind)[:40] for kind in unknown["type"].unique()})[:4])
        warning = f"{unknown.height:,} operations of unknown type are taken as kernels ({kinds})"
        recording.faults.sentences.append(warning)
        recording.activities(unknown, "rocpd_op")


def _operators(database: Database, strings: pl.DataFrame) -> pl.DataFrame:
    """The PyTorch operator of each API call that is an operator's range, from ``ext_autogradapi``."""
    rows = database.read("ext_autogradapi", ["api_ptr_id", "autogradName_id"])
    rows_with_names = _named(rows, strings, "autogradName_id", "operator")
    return rows_with_names.select("api_ptr_id", "operator").drop_nulls().unique("api_ptr_id", keep="first")


def _calls(recording: Recording, rows: pl.DataFrame, strings: pl.DataFrame, operators: pl.DataFrame) -> None:
    rows = _named(_named(rows, strings, "apiName_id", "api"), strings, "args_id", "args")
    rows = rows.join(operators, left_on="id", right_on="api_ptr_id", how="left", maintain_order="left")
    label = pl.when((pl.col("api") == _RANGE) & (pl.col("args") != "")).then("args")
    kind = (
        pl.when(pl.col("operator").is_not_null()).then(pl.lit("op"))
        .when(pl.col("api").str.contains(_OVERHEAD)).then(pl.lit("overhead"))
        .when(pl.col("api").str.contains("^_*(?:hip|roc|nccl|rccl|mi)[A-Z]")).then(pl.lit("runtime"))
        .when(pl.col("api").str.starts_with("hsa_")).then(pl.lit("driver"))
        .otherwise(pl.lit("annotation"))
    )
    recording.calls(
        rows.with_columns(name=pl.coalesce("operator", label, "api"), kind=kind, correlation="id"), "rocpd_api"
    )


def _monitor(recording: Recording, rows: pl.DataFrame) -> None:
    """Add each monitor value at the start of its interval, for which it holds."""
    rows = columns(rows, "rocpd_monitor", recording.faults, {"value": "real"})
    device = pl.when(pl.col("deviceType").str.to_lowercase() == "gpu").then(pl.format("GPU {}", "deviceId"))
    rows = rows.drop_nulls("value").with_columns(
        device=device.otherwise(pl.lit("Host")), metric="monitorType",
        unit=pl.col("monitorType").replace_strict(_UNITS, default="", return_dtype=pl.String),
    )
    timed = recording.clock.timed(rows, "rocpd_monitor")
    recording.samples(timed.with_columns(ts_ns="start_ns"), "rocpd_monitor")
