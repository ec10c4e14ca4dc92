"""Builds one Trace from the CSV files of one rocprofv3 run.

Kernels carry the correlation id of the call that launched them, but no process id: theirs is that of the API calls, if
all calls are of one process. In files merged from several processes (``rocpd2csv`` adds a column ``Guid``), correlation
ids are made unique per ``Guid``. Agents are named as recorded ('Agent 4'), or 'GPU n' if the list of agents is in the
same folder; a copy belongs to the agent that is not the host.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
from msgspec.structs import replace

from .. import csv_table, schema
from ..collective_names import kernel_kind
from ..errors import Unreadable
from ..ingest import stream
from ..loader import Job
from ..recording.database import tables_of
from ..recording.faults import Faults
from ..recording.recording import Recording, one_axis, size
from ..recording.values import columns, numbers
from ..trace import RECORDINGS, Device, Info, Trace
from .csv_files import files_beside, files_of_run, frames, pass_of, rows_of, run_of, table_of
from .values import apart, first_passes, fraction, kind_of_domain, kinds

_FAR = 3_600 * 10**9  # ns; files whose events are further apart are not of one run, whatever their names.
_LOOK = 1 << 16  # Bytes read at each end of a file to find its time span.
_WIDTH = 1 << 40
_GRID = ("grid_size_x", "grid_size_y", "grid_size_z")
_BLOCK = ("workgroup_size_x", "workgroup_size_y", "workgroup_size_z")
_TIMES = ("start_timestamp", "end_timestamp", "correlation_id")
_KERNEL = (
    "queue_id", "stream_id", "thread_id", "lds_block_size", "group_segment_size", "vgpr_count", *_GRID, *_BLOCK,
)
_TEXTS = (
    "agent_id", "kernel_name", "domain", "function", "direction", "operation", "kind", "source_agent_id",
    "destination_agent_id", "counter_name", "counter_value",
)
_IDENTITY = ["run", "device", "dispatch_id"]
_DISPATCH = ("run", "dispatch_id", "start")
_FRACTIONS = {"MfmaUtil": "tensor", "OccupancyPercent": "occupancy"}
"""Percentage of time the matrix cores were busy, and of wave slots in use (counters of rocprofiler-sdk). ``dram`` stays
null: a byte counter is no fraction of peak without the device's bandwidth."""
_API_NAME = re.compile(r"_*(?:hip|hsa|roc|rocDec|rocJpeg|roctx|[nr]ccl(?!Dev|Kernel))(?:_[a-z]|[A-Z])\w*\Z")
"""Names of API calls, for reports that name no domain. ``ncclDevKernel…`` is a kernel."""
_ORDER = ("agents", "calls", "kernels", "copies", "memory", "counters")


def load(job: Job) -> tuple[Trace, ...]:
    """Read the file and the others of its run. Raises Unreadable if nothing has a time."""
    every = (job.path, *files_of_run(job.path))
    if (number := pass_of(job.path)) is not None:  # the first pass gives the times
        every = tuple(sorted(every, key=lambda path: (pass_of(path) or number, path.name)))
    tables = {path: table_of(stream.head(path, 4096)) for path in every}
    label = run_of(job.path) or job.path.name.split(".")[0]
    if tables[job.path] == "statistics":
        return (_statistics(job, label),)
    files = [path for table in _ORDER for path in tables if tables[path] == table]
    info = Info(
        source=str(job.path), label=label, format="rocprofv3-csv", tool="rocprofv3",
        bytes=sum(path.stat().st_size for path in files), clock="since boot, ns",
    )
    guids = _recordings_in(job.path)
    traces = []
    for number, guid in enumerate(guids or [None]):
        # the workspace belongs to the first trace: the others write to folders of their own
        own = job if not number else replace(job, workspace=_sister(job, number), first_rows=None)
        about = replace(info, label=f"{label} [{number}]", facts={RECORDINGS: len(guids)}) if guids else info
        with ThreadPoolExecutor(1) as writer:
            reader = _Reader(own, Recording(own, about, writer), {path: str(tables[path]) for path in files}, guid)
            traces.append(reader.read())
    return tuple(traces)


def _sister(job: Job, number: int) -> Path:
    path = job.workspace.parent / str(number)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _recordings_in(path: Path) -> list[str] | None:
    """The ``Guid`` of each recording in a file that holds several made one after another; None for other files."""
    with stream.Source(path) as source:
        blocks = [block.select("guid", *_TIMES[:2]) for block in frames(source)
                  if {"guid", *_TIMES[:2]} <= set(block.columns)]
    if not blocks:
        return None
    rows = columns(pl.concat(blocks), path.name, Faults(), dict.fromkeys(_TIMES[:2], "ns")).filter(
        pl.col(_TIMES[0]) > 0)
    spans = rows.drop_nulls().group_by("guid").agg(
        pl.col(_TIMES[0]).min().alias("first"), pl.col(_TIMES[1]).max().alias("last")).rows()
    return apart([(str(guid), first, last) for guid, first, last in spans]) or None


class _Reader:
    """Reads the files of one run; files recorded at another time than the opened one are skipped."""

    def __init__(self, job: Job, recording: Recording, files: dict[Path, str], guid: str | None = None) -> None:
        self._job, self._recording, self._files, self._guid = job, recording, files, guid
        self._agents: dict[str, str] = {}
        self._guids: dict[str, int] = {}
        self._pids: dict[int, set[int]] = {}
        self._counts: list[pl.DataFrame] = []
        self._dispatched: list[pl.DataFrame] = []
        self._allocated: list[pl.DataFrame] = []
        self._pass: int | None = None
        self._total, self._done = sum(path.stat().st_size for path in files), 0

    def read(self) -> Trace:
        """Read all files and finish the Trace."""
        readers: dict[str, Callable[[pl.DataFrame, str], None]] = {
            "agents": self._list_agents, "calls": self._calls, "kernels": self._kernels, "copies": self._copies,
            "memory": self._memory, "counters": self._count,
        }
        when = self._span(self._job.path)
        unread: list[str] = []
        rows: Counter[str] = Counter()
        for path, table in self._files.items():
            other = self._span(path) if when is not None and table != "agents" and path != self._job.path else None
            if when and other and (other[0] > when[1] + _FAR or other[1] < when[0] - _FAR):
                unread.append(path.name)
                continue
            with stream.Source(path) as source:
                self._pass = pass_of(path)
                for frame in frames(source, faults=self._recording.faults, table=path.name):
                    if self._guid is not None and "guid" in frame.columns:
                        frame = frame.filter(pl.col("guid") == self._guid)
                    readers[table](frame, path.name)
                    rows[path.name] += frame.height if table != "agents" else 0
                    self._job.progress(self._done + source.position, self._total, self._recording.rows)
                if source.fault:
                    self._recording.faults.sentences.append(f"{path.name}: {source.fault}")
                self._done += source.size
        if unread:
            self._recording.faults.sentences.append(
                f"left out, because their times are of another run: {', '.join(sorted(unread))}"
            )
        self._recording.allocations(self._allocated)
        if self._dispatched:
            self._add_kernels(pl.concat(self._dispatched))
        if self._counts:
            self._add_counters(pl.concat(self._counts, how="diagonal"))
        others = [path for path in self._files if path.name in unread]
        if self._pass is None:
            others += files_beside(self._job.path, self._files)
        trace = self._recording.finish()
        trace.info.facts["tables"] = tables_of(rows, {
            path.name: count for path in others if (count := rows_of(path))})
        return trace

    def _span(self, path: Path) -> tuple[int, int] | None:
        """The first and last start time of a file (ns), from the rows at both ends; None if compressed or unknown."""
        with stream.Source(path) as source:
            if source.compressed:
                return None
            first = next(frames(source, _LOOK), None)
            if first is None or "start_timestamp" not in first.columns:
                return None
            starts = [first["start_timestamp"]]
            if source.size > source.position:
                source.skip(max(source.size - source.position - _LOOK, 0))
                lines = source.read(2 * _LOOK).partition(b"\n")[2]
                starts.append(csv_table.read(lines, first.columns)["start_timestamp"])
        times = numbers(pl.concat(starts), "ns", Faults(), path.name)
        times = times.filter(times > 0)
        low, high = times.min(), times.max()
        return (low, high) if isinstance(low, int) and isinstance(high, int) else None

    def _list_agents(self, rows: pl.DataFrame, name: str) -> None:
        rows = columns(
            rows, name, self._recording.faults, kinds(["node_id", "logical_node_type_id"]),
            ["agent_type", "product_name", "name"],
        )
        rows = rows.drop_nulls("node_id").sort("node_id")
        gpus = 0
        for row in rows.iter_rows(named=True):
            gpu = str(row["agent_type"]).strip().upper() == "GPU"
            number = gpus if row["logical_node_type_id"] is None else row["logical_node_type_id"]
            gpus += gpu
            device = f"GPU {number}" if gpu else "Host"
            self._agents[f"Agent {row['node_id']}"] = device
            if gpu:
                product, chip = row["product_name"], row["name"]
                described = Device(device, product or chip or None, {"chip": chip} if chip else {})
                self._recording.described[device] = described

    def _device(self, column: str) -> pl.Expr:
        """The device of an agent, 'GPU n', 'Host' or as recorded; a bare number is an agent number."""
        text = pl.col(column).str.strip_chars().str.replace(r"^(\d+)\.0+$", "$1")  # as data frames write numbers
        agent = pl.when(text.str.contains(r"^\d+$")).then(pl.format("Agent {}", text)).otherwise(text)
        agent = agent.str.replace(r"^Agent-(\d+)$", "Agent $1").str.replace(r"^(GPU|CPU)-(\d+)$", "$1 $2")
        device = agent.replace(self._agents) if self._agents else agent
        return pl.when(device.str.starts_with("CPU")).then(pl.lit("Host")).when(device != "").then(device)

    def _timed(self, rows: pl.DataFrame, table: str, ints: tuple[str, ...]) -> pl.DataFrame:
        """The rows with numeric columns, ``start``, ``end``, and a ``correlation`` that is unique across processes."""
        rows = columns(rows, table, self._recording.faults, kinds((*_TIMES, *ints)), _TEXTS)
        rows = rows.with_columns(start="start_timestamp", end="end_timestamp")
        good = (pl.col("correlation_id") > 0) & (pl.col("correlation_id") < _WIDTH)
        number: pl.Expr = pl.lit(0, pl.Int64)
        if "guid" in rows.columns:
            for guid in rows["guid"].unique(maintain_order=True).drop_nulls():
                self._guids.setdefault(guid, len(self._guids))
            number = pl.col("guid").replace_strict(self._guids, default=0, return_dtype=pl.Int64)
        rows = rows.with_columns(run=number)
        return rows.with_columns(correlation=pl.when(good).then(pl.col("correlation_id") + pl.col("run") * _WIDTH))

    def _process(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add ``pid`` to records without one: the process of their run's calls, if all are of one process."""
        pid_of_run = {run: next(iter(pids)) for run, pids in self._pids.items() if len(pids) == 1}
        return rows.with_columns(pid=pl.col("run").replace_strict(pid_of_run, default=None, return_dtype=pl.Int64))

    def _calls(self, rows: pl.DataFrame, table: str) -> None:
        rows = self._timed(rows, table, ("process_id", "thread_id"))
        for run, pid in rows.select("run", "process_id").unique().drop_nulls().iter_rows():
            self._pids.setdefault(run, set()).add(pid)
        kind_of = {domain: kind_of_domain(domain) for domain in rows["domain"].unique().drop_nulls()}
        kind = pl.col("domain").replace_strict(kind_of, default="annotation", return_dtype=pl.String)
        self._recording.calls(rows.select(
            "start", "end", "correlation", name="function", kind=kind, pid="process_id", tid="thread_id"
        ), table)

    def _of_kind(self, rows: pl.DataFrame, kind: str, table: str) -> pl.DataFrame:
        """The rows recorded as this kind; other rows of the file are counted as left out."""
        valid = rows.filter(pl.col("kind").str.strip_chars() == kind) if "kind" in rows.columns else rows.clear()
        if lost := rows.height - valid.height:
            self._recording.faults.left_out[table] += lost
        return valid

    def _kernels(self, rows: pl.DataFrame, table: str) -> None:
        rows = self._process(self._timed(
            self._of_kind(rows, "KERNEL_DISPATCH", table), table, (*_KERNEL, "dispatch_id")))
        rows = rows.select(
            "start", "end", "pid", "correlation", "run", "dispatch_id", name="kernel_name",
            device=self._device("agent_id"),
            stream="stream_id" if self._recording.by_stream(rows["stream_id"]) else "queue_id",
            grid=size(*_GRID), block=size(*_BLOCK), registers="vgpr_count",
            shared_bytes=pl.coalesce("lds_block_size", "group_segment_size"), table=pl.lit(table),
        )
        if "counters" in self._files.values():  # dispatches may be replayed for them
            self._dispatched.append(rows)
        else:
            self._recording.activities(rows, table)

    def _add_kernels(self, rows: pl.DataFrame) -> None:
        passes = first_passes(rows, _IDENTITY, self._recording.faults)
        for (table,), part in (rows if passes is None else passes.filter("first")).partition_by(
                "table", maintain_order=True, as_dict=True).items():
            self._recording.activities(part, str(table))

    def _copies(self, rows: pl.DataFrame, table: str) -> None:
        rows = self._of_kind(rows, "MEMORY_COPY", table)
        rows = self._process(self._timed(rows, table, ("stream_id", "size", "bytes", "copy_bytes"))).with_columns(
            to=self._device("destination_agent_id"), origin=self._device("source_agent_id")
        )
        both = pl.col("direction").str
        device = pl.when(both.contains("DEVICE_TO_HOST")).then("origin").when(both.contains("TO_DEVICE")).then("to")
        self._recording.activities(rows.select(
            "start", "end", "pid", "correlation", name="direction", device=device, stream="stream_id",
            bytes=pl.coalesce("bytes", "size", "copy_bytes"),
        ), table, "memcpy")

    def _memory(self, rows: pl.DataFrame, table: str) -> None:
        rows = self._process(self._timed(rows, table, ("thread_id", "allocation_size")))
        rows = rows.with_columns(device=self._device("agent_id"))
        self._recording.calls(
            rows.select("start", "end", "pid", "correlation", name="operation", tid="thread_id"), table, "driver"
        )
        if "address" in rows.columns:
            free = pl.col("operation").str.contains("FREE").fill_null(False)
            self._allocated.append(rows.filter(pl.col("kind") == "MEMORY_ALLOCATION").select(
                "device", at="end", key="address", free=free, size="allocation_size"
            ))

    def _count(self, rows: pl.DataFrame, table: str) -> None:
        rows = self._process(self._timed(rows, table, (*_KERNEL, "dispatch_id", "grid_size", "workgroup_size")))
        rows = columns(rows, table, self._recording.faults, {"counter_value": "real"})
        self._counts.append(rows.select(
            "start", "end", "run", "pid", "correlation", "dispatch_id", "grid_size", "workgroup_size",
            pl.coalesce("lds_block_size", "group_segment_size").alias("shared_bytes"), name="kernel_name",
            stream="queue_id", registers="vgpr_count", device=self._device("agent_id"),
            metric="counter_name", value="counter_value", number=pl.lit(self._pass, pl.Int64),
        ))

    def _of_first_pass(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The counters of every pass (``number``) at the dispatches of the first, if all ran the same sequence."""
        numbers_of = rows["number"].unique().drop_nulls().sort().to_list()
        if len(numbers_of) < 2:
            return rows.drop("number")
        launches = rows.unique(["number", "dispatch_id"], keep="first", maintain_order=True).sort("dispatch_id")
        names = {number: launches.filter(pl.col("number") == number)["name"].to_list() for number in numbers_of}
        first = launches.filter(pl.col("number") == numbers_of[0])
        if any(names[number] != names[numbers_of[0]] for number in numbers_of):
            sentence = "the passes ran different kernels: only the first one is read"
            self._recording.faults.sentences.append(sentence)
            return rows.filter(pl.col("number") == numbers_of[0]).drop("number")
        self._recording.faults.sentences.append(
            f"{len(numbers_of)} passes of one program: launches are counted once, with the times of the first pass")
        places = first.select("dispatch_id", "start", "end", "run", "pid", "correlation")
        return rows.drop("number", "start", "end", "run", "pid", "correlation").join(
            places, on="dispatch_id", how="left", maintain_order="left")

    def _add_counters(self, rows: pl.DataFrame) -> None:
        """Add counters as samples at the start of their dispatch, so that the metrics view shows their mean per kernel.

        Without a kernel trace, their dispatches are added as kernels.
        """
        rows = rows.with_columns(pl.col("name", "metric", "device").cast(pl.String))
        rows = self._of_first_pass(rows)
        timed = pl.col("start") > 0  # another row of the dispatch may say when it ran
        own = rows.filter(timed).group_by(_IDENTITY).agg(pl.col("start", "end").first().name.suffix("_other"),
                                                         several=pl.col("start").n_unique() > 1)
        rows = rows.join(own.filter(~pl.col("several")), on=_IDENTITY, how="left", maintain_order="left")
        rows = rows.with_columns(pl.when(timed | pl.col("start_other").is_null()).then(name).otherwise(f"{name}_other")
                                 .alias(name) for name in ("start", "end")).drop("start_other", "end_other", "several")
        passes = first_passes(rows.select(*_IDENTITY, "start").unique(maintain_order=True), _IDENTITY,
                              self._recording.faults)
        summed = rows.drop_nulls(["metric", "value"]).group_by(*_DISPATCH, "metric", maintain_order=True).agg(
            pl.col("value").sum(), pl.col("device", "pid").first()
        )
        if passes is not None:  # the same counter of several passes was measured once in each
            first = passes.filter("first").select(*_IDENTITY, "start")
            rows = rows.join(first, on=[*_IDENTITY, "start"], how="semi", nulls_equal=True)
            summed = summed.drop("start").join(first, on=_IDENTITY, how="left", maintain_order="left").group_by(
                *_DISPATCH, "metric", maintain_order=True).agg(pl.col("value").mean(), pl.col("device", "pid").first())
        if "kernels" not in self._files.values():
            launches = rows.group_by(*_DISPATCH, maintain_order=True).agg(pl.all().first()).drop("metric", "value")
            for counter, column in _FRACTIONS.items():
                share = fraction(pl.col("value") / 100, column)
                of_launch = summed.filter(pl.col("metric") == counter).select(*_DISPATCH, share)
                launches = launches.join(of_launch, on=_DISPATCH, how="left", nulls_equal=True, maintain_order="left")
            grid, block = one_axis("grid_size"), one_axis("workgroup_size")
            self._recording.activities(launches.with_columns(grid=grid, block=block), "counters")
        self._recording.counters(summed.with_columns(ts_ns="start", unit=pl.lit("")), "counters")


def _statistics(job: Job, label: str) -> Trace:
    """The Trace of a summary: kernels and copies as ``kernel_stats``, API calls as ``host_stats``."""
    with stream.Source(job.path) as source:
        faults = Faults()
        blocks = list(frames(source, faults=faults, table=job.path.name))
        warnings = [source.fault] if source.fault else []
    if not blocks:
        raise Unreadable(job.path, "is a summary without rows", "Check that the recording has any.")
    rows = pl.concat(blocks)
    rows = columns(
        rows, job.path.name, faults, kinds(["calls", "totaldurationns", "minns", "maxns"], ["averagens"]), ["name"]
    ).drop_nulls(["name", "calls"])
    names = rows["name"].to_list()
    if names and all(name.isupper() and "_" in name and not name.startswith("MEMORY_COPY_") for name in names):
        raise Unreadable(
            job.path, "is a summary by domain: it names no kernels or calls",
            "Open kernel_trace.csv or kernel_stats.csv of the same run.",
        )
    api_calls = rows.filter(pl.Series([bool(_API_NAME.match(name)) for name in names], dtype=pl.Boolean))
    work = rows.join(api_calls.select("name"), on="name", how="anti", maintain_order="left")
    kind_of = {
        name: "memcpy" if name.startswith("MEMORY_COPY") else kernel_kind(name) for name in work["name"].unique()
    }
    if rows.is_empty():
        raise Unreadable(job.path, "is a summary without readable rows", "Write or copy it again.")
    info = Info(
        source=str(job.path), label=label, format="rocprofv3-csv", tool="rocprof", bytes=job.path.stat().st_size,
        warnings=(*warnings, *faults.warnings()),
    )
    return Trace(
        info,
        kernel_stats=schema.conform("kernel_stats", work.lazy().select(
            "name", kind=pl.col("name").replace_strict(kind_of, default="kernel", return_dtype=pl.String),
            count="calls", total_ns="totaldurationns", mean_ns="averagens", min_ns="minns", max_ns="maxns",
        )),
        host_stats=schema.conform("host_stats", api_calls.lazy().select(
            "name", kind=pl.lit("runtime"), count="calls", total_ns="totaldurationns", mean_ns="averagens",
            min_ns="minns", max_ns="maxns",
        )),
    )
