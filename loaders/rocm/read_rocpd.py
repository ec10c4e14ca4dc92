"""rocpd: the database rocprofv3 writes, in both layouts labelled schema version 3.

Tables either have a suffix per recorded process (``rocpd_string_<uuid>``), with views under the plain names that
combine them, or just the plain names. Ids restart in every process: rows are joined within the table they come from
(``source``), and correlation ids are combined with it if there are several. A call is linked to its work by the event's
``stack_id``; ``correlation_id`` is set by the application.

``rocpd_info_process`` has the command line and environment of the recorded process. Neither is ever read.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import orjson
import polars as pl

from ..errors import Unreadable
from ..loader import Job
from ..recording.database import Database, read_database
from ..recording.faults import Faults
from ..recording.recording import Recording, size
from ..recording.values import Clock
from ..trace import Device, Trace
from .values import apart, first_passes, kind_of_domain

_WIDTH = 1 << 40  # Offset of correlation ids between processes; no recording has more ids.
_SIZES = ("grid_size_x", "grid_size_y", "grid_size_z", "workgroup_size_x", "workgroup_size_y", "workgroup_size_z")
_DISPATCH = (
    "pid", "agent_id", "kernel_id", "queue_id", "stream_id", "start", "end", "group_segment_size", "event_id",
    "graph_exec_id", *_SIZES,
)

_COPY = (
    "pid", "start", "end", "name_id", "dst_agent_id", "src_agent_id", "size", "queue_id", "stream_id", "event_id",
)


def load(job: Job) -> tuple[Trace, ...]:
    """Read the database, which may be compressed. Raises Unreadable if SQLite cannot read it."""
    return read_database(job, "rocpd", "rocprofv3", "since boot, ns", _read, _recordings)


def _recordings(database: Database) -> list[str]:
    """The endings of the tables of each recording, of a database with several made one after another."""
    name, spans = "rocpd_kernel_dispatch", []
    tables = database.sources(name)
    for table in tables if len(tables) > 1 and name not in tables else ():
        if (span := database.span(table, "start", "end")) is not None:
            spans.append((table.removeprefix(name), *span))
    return apart(spans)


def _read(database: Database, recording: Recording) -> Trace:
    if any("start_id" in database.tables[table] for table in database.sources("rocpd_kernel_dispatch")):
        raise Unreadable(
            recording.path, "is a rocpd database of schema version 4, which is not read",
            "Convert it with `rocpd convert -i FILE --output-format csv` and open the result.",
        )
    tables = _Tables(database, recording)
    passes = _passes(database, recording)
    for block in database.blocks("rocpd_kernel_dispatch", _DISPATCH):
        if passes is not None:  # a dispatch repeated for other counters is one launch
            block = block.join(passes.filter(pl.col("first")), on=["source", "event_id"], how="semi")
        _dispatches(recording, tables, block)
    for block in database.blocks("rocpd_memory_copy", _COPY):
        _copies(recording, tables, block)
    for block in database.blocks("rocpd_region", ("pid", "tid", "start", "end", "name_id", "event_id")):
        _regions(recording, tables, block)
    _allocations(recording, tables)
    _counters(recording, tables, passes)
    version = database.read("rocpd_metadata", (), ("tag", "value")).filter(pl.col("tag") == "schema_version")["value"]
    return recording.finish(facts={"schema": version[0]} if version.len() else {})


class _Tables:
    """The small tables that other tables refer to, keyed by (source, id)."""

    def __init__(self, database: Database, recording: Recording) -> None:
        self.database = database
        self.several = len(database.sources("rocpd_kernel_dispatch")) > 1 or len(database.sources("rocpd_region")) > 1
        self.strings = _by_id(database.read("rocpd_string", ("id",), ("string",)))
        self.pids = _by_id(database.read("rocpd_info_process", ("id", "pid"))).rename({"pid": "process"})
        self.threads = _by_id(database.read("rocpd_info_thread", ("id", "tid"))).rename({"tid": "thread"})
        symbols = database.read(
            "rocpd_info_kernel_symbol", ("id", "arch_vgpr_count"), ("display_name", "kernel_name")
        )
        name = pl.coalesce(pl.when(pl.col("display_name") != "").then("display_name"), "kernel_name")
        symbols = _by_id(symbols.with_columns(name=name))
        self.symbols = symbols.select("source", "id", "name", registers="arch_vgpr_count")
        agents = database.read(
            "rocpd_info_agent", ("id", "nid", "absolute_index", "type_index"), ("type", "name", "product_name")
        )
        number = pl.coalesce("type_index", "absolute_index")
        own = pl.format("GPU {}", number)
        if agents["nid"].drop_nulls().n_unique() > 1:  # GPU 0 of two machines is two GPUs
            own = pl.format("node {} GPU {}", pl.col("nid").rank("dense") - 1, number)
        label = pl.when(pl.col("type") == "GPU").then(own).otherwise(pl.lit("Host"))
        self.agents = _by_id(agents.with_columns(device=label)).select("source", "id", "device", "name", "product_name")
        for device, chip, product in self.agents.select("device", "name", "product_name").iter_rows():
            if device not in (None, "Host"):
                recording.described[device] = Device(device, product or chip, {"chip": chip} if chip else {})
        events = database.read("rocpd_event", ("id", "category_id", "stack_id"))
        self.events = _by_id(events).rename({"stack_id": "correlation"})

    @cached_property
    def messages(self) -> pl.DataFrame:
        """The text of each marker, by event: ``message`` in the event's extra data."""
        rows = self.database.read("rocpd_event", ("id",), ("extdata",))
        rows = rows.filter(pl.col("extdata").str.contains('"message"', literal=True))
        message_of = {text: _message(text) for text in rows["extdata"].unique().drop_nulls()}
        message = pl.col("extdata").replace_strict(message_of, default=None, return_dtype=pl.String)
        return _by_id(rows.with_columns(message=message)).select("source", "message", event_id="id")

    def named(self, rows: pl.DataFrame, table: pl.DataFrame, key: str, **renamed: str) -> pl.DataFrame:
        """The rows joined with the rows of ``table`` that ``key`` refers to; ``renamed`` maps columns to new names."""
        texts = table.rename({theirs: ours for theirs, ours in renamed.items() if theirs in table.columns})
        return rows.join(texts, left_on=["source", key], right_on=["source", "id"], how="left", maintain_order="left")

    def placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add the process id as ``pid``, the event's ``category_id``, and its ``correlation``, unique per process."""
        rows = self.named(self.named(rows, self.pids, "pid"), self.events, "event_id")
        good = (pl.col("correlation") > 0) & (pl.col("correlation") < _WIDTH)
        wide = pl.col("correlation") + (pl.col("source") * _WIDTH if self.several else 0)
        return rows.with_columns(pid=pl.col("process"), correlation=pl.when(good).then(wide))


def _by_id(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.drop_nulls("id").unique(["source", "id"], keep="first", maintain_order=True)


def _dispatches(recording: Recording, tables: _Tables, rows: pl.DataFrame) -> None:
    rows = tables.named(tables.placed(rows), tables.symbols, "kernel_id")
    rows = tables.named(rows, tables.agents.select("source", "id", "device"), "agent_id")
    unknown = pl.format("[kernel {}]", "kernel_id")
    recording.activities(rows.with_columns(
        name=pl.coalesce("name", unknown), stream=_stream(recording, rows), shared_bytes="group_segment_size",
        grid=size(*_SIZES[:3]), block=size(*_SIZES[3:]),
        graph=pl.when(pl.col("graph_exec_id") > 0).then("graph_exec_id"),
    ), "rocpd_kernel_dispatch")


def _stream(recording: Recording, rows: pl.DataFrame) -> str:
    return "stream_id" if recording.by_stream(rows["stream_id"]) else "queue_id"


def _copies(recording: Recording, tables: _Tables, rows: pl.DataFrame) -> None:
    rows = tables.named(tables.placed(rows), tables.strings, "name_id", string="name")
    agents = tables.agents.select("source", "id", "device")
    rows = tables.named(tables.named(rows, agents, "dst_agent_id", device="to"), agents, "src_agent_id", device="from")
    gpu = pl.coalesce(*(pl.when(pl.col(side) != "Host").then(side) for side in ("to", "from")))
    recording.activities(
        rows.with_columns(device=gpu, stream=_stream(recording, rows), bytes="size"), "rocpd_memory_copy", "memcpy"
    )


def _regions(recording: Recording, tables: _Tables, rows: pl.DataFrame) -> None:
    rows = tables.named(tables.placed(rows), tables.strings, "name_id", string="name")
    rows = tables.named(rows, tables.strings, "category_id", string="category")
    rows = tables.named(rows, tables.threads, "tid").with_columns(tid="thread")
    domains = rows["category"].unique().drop_nulls()
    kinds = {name: kind_of_domain(name) for name in domains}
    rows = rows.with_columns(
        kind=pl.col("category").replace_strict(kinds, default="annotation", return_dtype=pl.String)
    )
    marks = rows["kind"] == "annotation"
    if marks.any():
        rows = rows.join(tables.messages, on=["source", "event_id"], how="left", maintain_order="left")
        rows = rows.with_columns(name=pl.coalesce("message", "name"))
    recording.calls(rows, "rocpd_region")


def _message(text: str) -> str | None:
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    message = value.get("message") if isinstance(value, dict) else None
    return message if isinstance(message, str) and message else None


def _allocations(recording: Recording, tables: _Tables) -> None:
    columns, blocks = ("pid", "agent_id", "start", "end", "address", "size", "event_id", "tid"), []
    for rows in tables.database.blocks("rocpd_memory_allocate", columns, ("type", "level")):
        rows = tables.named(tables.placed(rows), tables.agents.select("source", "id", "device"), "agent_id")
        rows = tables.named(rows, tables.threads, "tid").with_columns(tid="thread")
        name = pl.format("{} {}", pl.col("level").fill_null("MEMORY"), pl.col("type").fill_null("OPERATION"))
        recording.calls(rows.with_columns(name=name), "rocpd_memory_allocate", "driver")
        blocks.append(rows.filter(pl.col("level") == "REAL").select(
            "device", "size", at="end", key=pl.format("{}:{}", "source", "address"),
            free=(pl.col("type") == "FREE").fill_null(False),
        ))
    recording.allocations(blocks)


def _passes(database: Database, recording: Recording) -> pl.DataFrame | None:
    """``source event_id first start`` of every dispatch, if each was repeated for other counters: whether it is the
    first of its dispatch id, and the start of that one. None for an ordinary recording."""
    rows = database.read("rocpd_kernel_dispatch", ("pid", "agent_id", "dispatch_id", "start", "event_id"))
    rows = rows.drop_nulls("event_id")
    if not rows["event_id"].is_unique().all():
        return None
    passes = first_passes(rows, ["source", "pid", "agent_id", "dispatch_id"], recording.faults)
    return None if passes is None else passes.select("source", "event_id", "first", "start")


def _counters(recording: Recording, tables: _Tables, passes: pl.DataFrame | None) -> None:
    """Add the counters of dispatches, as samples at their start; those of later passes at the start of the first."""
    described = tables.database.read("rocpd_info_pmc", ("id",), ("name", "symbol", "units"))
    label = pl.coalesce(pl.when(pl.col("name") != "").then("name"), "symbol")
    described = _by_id(described.with_columns(metric=label)).select("source", "id", "metric", unit="units")
    events = tables.database.read("rocpd_pmc_event", ("event_id", "pmc_id"), (), ("value",))
    if events.is_empty():
        return
    dispatches = tables.database.read("rocpd_kernel_dispatch", ("event_id", "start", "end", "agent_id"))
    dispatches = Clock(Faults()).timed(dispatches, "").drop("start").rename({"start_ns": "start"})
    dispatches = dispatches.drop_nulls("event_id").unique(["source", "event_id"], keep="first")
    if passes is not None:
        dispatches = dispatches.drop("start").join(passes.drop("first"), on=["source", "event_id"], how="left")
    rows = tables.named(events.drop_nulls("value"), described, "pmc_id")
    rows = rows.join(dispatches, on=["source", "event_id"], how="inner", maintain_order="left")
    rows = tables.named(rows, tables.agents.select("source", "id", "device"), "agent_id")
    summed = rows.group_by("source", "event_id", "metric", maintain_order=True).agg(
        pl.col("value").sum(), pl.col("start", "device", "unit").first()
    )
    if passes is not None:  # the same counter of several passes was measured once in each
        launch = ["source", "start", "device", "metric"]
        summed = summed.group_by(launch, maintain_order=True).agg(pl.col("value").mean(), pl.col("unit").first())
    recording.counters(summed.with_columns(ts_ns="start", unit=pl.col("unit").fill_null("")), "counters")
