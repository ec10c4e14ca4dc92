"""Host activities as rows of ``host``: CUDA calls, NVTX ranges, library and system calls, thread scheduling."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ..loader import Job
from ..schema import NAME
from ..trace import Trace
from . import lookups
from .database import NsysDatabase

_OVERHEADS = (
    "Unknown", "Driver compiler", "Buffer flush", "Instrumentation", "Resource", "Runtime-triggered module loading",
    "Lazy function loading", "Command buffer full", "Activity buffer request", "UVM activity init",
)
_RANGES = (59, 60, 70, 71)
"""Event types of NVTX ranges: push/pop and start/end, from the C library and from NVTXT files. Other types are marks,
names and domains."""
_CATEGORY, _DOMAIN = 33, 75
"""Event types that name a category of a domain, and a domain."""
_NAMELESS = "(no name)"
_TORCH_OP = r"^(.+?)(?:, seq = -?\d+)?(?:, op_id = \d+)?(?:, (?:sizes|input_op_ids) = .*)?$"
"""The name of a range pushed by ``torch.autograd.profiler.emit_nvtx``: the operator (group 1) and what is appended."""
_IS_TORCH_OP = r", (?:op_id|seq) = -?\d+"
_OPERATOR = r"::|Backward\d*$"
_IO = (
    r"^(f|p|l)?(read|write|open|close|stat|sync|seek|send|recv|accept|connect|mmap|msync|copy_file|splice|sendfile)"
    r"|^(fopen|fread|fwrite|fclose|fflush|fgets|fputs|getline|ftruncate|truncate|fallocate|unlink|rename|mkdir|readdir)"
)
SCHEDULED_ROWS = 1_000_000  # Approximate number of scheduler rows sorted at once.
_MPI = ("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS")


class Host:
    """Reads the host tables of one export into frames in the columns of ``host``, times as recorded."""

    def __init__(self, database: NsysDatabase, strings: pl.DataFrame) -> None:
        self._database, self._strings = database, strings
        self.open_ranges = 0
        self._machines = lookups.machines(database)

    def blocks(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Pairs of table and block of its rows, one kind of record after another."""
        io = pl.col("text").str.contains(_IO)
        named = {
            "CUPTI_ACTIVITY_KIND_RUNTIME": _call_kind(), "CUDNN_EVENTS": pl.lit("op"), "CUBLAS_EVENTS": pl.lit("op"),
            "OSRT_API": pl.when(io).then(pl.lit("io")).otherwise(pl.lit("sched")),
        }
        for table, kind in named.items():
            yield from ((table, rows) for rows in self._named(table, kind))
        for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
            yield from ((table, rows) for rows in self._overhead(table))
        for table in _MPI:
            yield from ((table, rows) for rows in self._named(table, pl.lit("annotation"), "textId"))
        for ranges in self._ranges():
            closed = ranges.drop_nulls("end")
            self.open_ranges += ranges.height - closed.height
            yield "NVTX_EVENTS", closed
        yield from (("SCHED_EVENTS", rows) for rows in self._scheduled())

    def _named(self, table: str, kind: pl.Expr, name: str = "nameId") -> Iterator[pl.DataFrame]:
        """Events whose name is a string id; ``kind`` is an expression over its ``text``."""
        texts = self._strings.select(
            "id", pl.col("text").cast(NAME).alias("name"), kind.cast(pl.String).cast(NAME).alias("kind")
        )

        def build(rows: pl.DataFrame) -> pl.DataFrame:
            rows = rows.join(texts, left_on=name, right_on="id", how="left", maintain_order="left")
            tied = pl.when(pl.col("correlationId") > 0).then("correlationId").alias("correlation")
            return rows.drop_nulls("name").select(*_slice(self._machines), "name", "kind", tied)

        return self._database.blocks(table, ("start", "end", "globalTid", name, "correlationId"), build=build)

    def _overhead(self, table: str) -> Iterator[pl.DataFrame]:
        def build(rows: pl.DataFrame) -> pl.DataFrame:
            rows = rows.join(self._strings, left_on="nameId", right_on="id", how="left", maintain_order="left")
            listed = lookups.listed("overheadType", _OVERHEADS)
            name = pl.when(pl.col("overheadType").is_null()).then(lookups.word("Profiler overhead")).otherwise(listed)
            return rows.select(
                *_slice(self._machines), pl.coalesce(pl.col("text").cast(NAME), name).alias("name"),
                lookups.word("overhead").alias("kind"), pl.lit(None, dtype=pl.Int64).alias("correlation"),
            )

        return self._database.blocks(table, ("start", "end", "globalTid", "nameId", "overheadType"), build=build)

    def _ranges(self) -> Iterator[pl.DataFrame]:
        """NVTX ranges: the text is in the row, or registered once and referenced by id. PyTorch operators become ops.

        Ranges that were not closed have no end. Domains and categories are rows of the same table.
        """
        domains, categories = self._nvtx_names()

        def build(rows: pl.DataFrame) -> pl.DataFrame:
            rows = rows.filter(pl.col("eventType").is_in(_RANGES) | pl.col("eventType").is_null())
            rows = rows.join(self._strings, left_on="textId", right_on="id", how="left", maintain_order="left")
            own_text = pl.when(pl.col("text") != "").then("text")
            rows = rows.with_columns(label=pl.coalesce(own_text, "text_right", "text"))
            rows = rows.with_columns(pl.col("label").fill_null(_NAMELESS), pl.col("domainId").fill_null(0))
            rows = rows.join(_labels(rows["label"]), on="label", how="left", maintain_order="left")
            rows = rows.join(domains, on="domainId", how="left", maintain_order="left")
            rows = rows.join(categories, on=["domainId", "category"], how="left", maintain_order="left")
            return rows.select(
                *_slice(self._machines), "name", "kind", pl.lit(None, dtype=pl.Int64).alias("correlation"),
                "domain", category="category_name",
            )

        columns = ("start", "end", "eventType", "globalTid", "textId", "domainId", "category")
        return self._database.blocks("NVTX_EVENTS", columns, ("text",), build=build)

    def _nvtx_names(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The names of the domains, and of the categories of each domain."""
        names = list[tuple[object, ...]]()
        columns = ("eventType", "domainId", "category", "textId")

        def build(rows: pl.DataFrame) -> pl.DataFrame:
            rows = rows.filter(pl.col("eventType").is_in([_DOMAIN, _CATEGORY]))
            rows = rows.join(self._strings, left_on="textId", right_on="id", how="left", maintain_order="left")
            return rows.select("eventType", pl.col("domainId").fill_null(0), "category",
                               label=pl.coalesce("text", "text_right"))

        if self._database.has("NVTX_EVENTS", "domainId", "eventType"):
            for block in self._database.blocks("NVTX_EVENTS", columns, ("text",), build=build):
                names += block.rows()
        domains = {number: text for kind, number, _, text in names if kind == _DOMAIN}
        categories = {(domain, number): text for kind, domain, number, text in names if kind == _CATEGORY}
        return (
            pl.DataFrame(list(domains.items()), schema={"domainId": pl.Int64, "domain": NAME}, orient="row"),
            pl.DataFrame([(*key, text) for key, text in categories.items()], orient="row",
                         schema={"domainId": pl.Int64, "category": pl.Int64, "category_name": NAME}),
        )

    def _scheduled(self) -> Iterator[pl.DataFrame]:
        """Intervals in which a thread ran on a CPU: from one schedule-in event to the schedule-out event after it.

        A long recording is read a group of threads at a time, so that its rows are never all in memory.
        """
        windows = 1 + self._database.count("SCHED_EVENTS") // SCHEDULED_ROWS
        for window in range(windows):

            def build(rows: pl.DataFrame, window: int = window) -> pl.DataFrame:
                return rows.drop_nulls().filter(lookups.tid("globalTid") % windows == window)

            rows = self._database.read("SCHED_EVENTS", ("start", "isSchedIn", "globalTid"), build=build)
            if rows is not None:
                yield _on_processor(rows, self._machines)


_CALL_OF_NCCL = r"^nccl[A-Z]\w*$"
_OPERATIONS = r"^nccl((?:All|Broad|Reduce|Gather|Scatter|Send|Recv)\w*)$"


def communicating(trace: Trace, job: Job) -> Trace:
    """The trace with the kernels launched within a call of NCCL, which its NVTX domain records, as collectives by
    record; of the operation that the innermost of these ranges names."""
    host = trace.host.with_columns(pl.col("name", "domain", "kind").cast(pl.String))
    talks = (pl.col("domain") == "NCCL").fill_null(False) | pl.col("name").str.contains(_CALL_OF_NCCL)
    ranges = host.filter(talks & (pl.col("kind") == "annotation")).select(
        "pid", "tid", "start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns"), called="name").drop_nulls(
        ["start_ns", "end_ns", "tid"]).sort("start_ns").collect(engine="streaming")
    if ranges.is_empty():
        return trace
    ranges = ranges.with_columns(pl.col("pid").fill_null(-1), until=pl.col("end_ns").cum_max().over("pid", "tid"))
    calls = host.filter(pl.col("correlation").is_not_null()).select(
        pl.col("pid").fill_null(-1), "tid", "start_ns", "correlation").drop_nulls().sort("start_ns").collect(
        engine="streaming").join_asof(ranges, on="start_ns", by=["pid", "tid"], check_sortedness=False)
    inside = calls.filter(pl.col("start_ns") < pl.col("until")).select(
        "correlation", collective=pl.when(pl.col("start_ns") < pl.col("end_ns")).then(
            pl.col("called").str.extract(_OPERATIONS))).unique("correlation")
    rows = trace.kernels.select(pl.col("index").cast(pl.UInt32).alias("row"), "correlation", "kind").filter(
        pl.col("kind").cast(pl.String).is_in(["kernel", "collective"])).select("row", "correlation").collect(
        engine="streaming").join(inside, on="correlation", how="inner", maintain_order="left")
    if rows.is_empty():
        return trace
    from ..kineto.flows import changed

    return trace.with_tables(kernels=changed("kernels", trace.kernels, rows.select(
        "row", pl.col("collective").cast(NAME), kind=pl.lit("collective").cast(NAME), by=pl.lit("record").cast(NAME)),
        job))


def _labels(labels: pl.Series) -> pl.DataFrame:
    """Each distinct label, with the ``name`` and ``kind`` of its range."""
    torch = pl.col("label").str.contains(_IS_TORCH_OP)
    name = pl.when(torch).then(pl.col("label").str.extract(_TORCH_OP)).otherwise("label")
    operator = torch & pl.col("name").str.contains(_OPERATOR)
    return pl.DataFrame({"label": labels.unique().drop_nulls()}).with_columns(name=name).select(
        "label", pl.col("name").cast(NAME),
        kind=pl.when(operator).then(pl.lit("op")).otherwise(pl.lit("annotation")).cast(NAME),
    )


def _on_processor(rows: pl.DataFrame, machines: list[int]) -> pl.DataFrame:
    """Slices from scheduling events; ``rows`` has all events of each of its threads."""
    rows = rows.sort("globalTid", "start", maintain_order=True).with_columns(
        end=pl.col("start").shift(-1).over("globalTid"), then=pl.col("isSchedIn").shift(-1).over("globalTid")
    )
    return rows.filter(pl.col("isSchedIn") != 0, pl.col("then") == 0).select(
        *_slice(machines), lookups.word("on CPU").alias("name"), lookups.word("sched").alias("kind"),
        pl.lit(None, dtype=pl.Int64).alias("correlation"),
    )


def _slice(machines: list[int]) -> tuple[str | pl.Expr, ...]:
    return (
        "start", "end",
        lookups.process("globalTid", machines).alias("pid"), lookups.tid("globalTid").alias("tid"),
    )


def _call_kind() -> pl.Expr:
    """Driver calls begin with 'cu' and a capital letter, all others are runtime calls; older exports record no kind."""
    driver = pl.col("text").str.contains("^cu[A-Z]")
    return pl.when(driver).then(pl.lit("driver")).otherwise(pl.lit("runtime"))
