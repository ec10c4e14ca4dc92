"""Operations of a pipeline job: a Parquet table as ByteDance's StragglerAnalysis publishes it, which opens as a job.

One row is one operation of one worker in one step: ``dp_rank stage step optype seq_id mb_id start_ts duration``, times
in seconds from the begin of the step (https://github.com/ByteDance-Seed/StragglerAnalysis, ``data/``). Steps are laid
one after the other on one clock, in order of appearance. A worker's operations are one stream: it does one thing after
the other. Who meets whom: a send the receive of the same number on the next stage (forward) or the one before
(backward); all-gather and reduce-scatter the data-parallel ranks of a stage; the all-reduce of embeddings and the
gradient clip the stages of a data-parallel rank.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import Unreadable
from .loader import FormatLoader, Job
from .trace import OPERATIONS, Device, Info, Trace

COLUMNS = ("dp_rank", "stage", "step", "optype", "seq_id", "mb_id", "start_ts", "duration")
_TAIL = 1 << 16  # Bytes at the end of a file that hold the names of its columns.
_OVER_RANKS = {"params-all-gather": "allgather", "grads-reduce-scatter": "reduce_scatter"}
_OVER_STAGES = {"embedding-grads-all-reduce": "allreduce", "optimizer-clip-main-grad": "allreduce"}
_ALONE = {"layernorm-grads-all-reduce": "allreduce"}
_MESSAGES = {"forward-send": 1, "backward-recv": 1, "forward-recv": -1, "backward-send": -1}
"""The stage at the other end, less the own."""
_GAP_NS = 1_000_000  # Between two steps.
_NUMBERS = 1 << 32  # Sequence numbers count from 0 in each step.


class Operations(FormatLoader):
    """The loader of such tables."""

    name = "operations"
    title = "Operations of a pipeline job by worker and step: Parquet, as ByteDance's StragglerAnalysis publishes it"
    suffixes = (".parquet", ".parquet.gz", ".parquet.zst", ".parquet.xz")
    version = 3
    fills = ("kernels", "cycles")

    def sniff(self, head: bytes) -> bool:
        """Never: the names of a Parquet file's columns are at its end."""
        return False

    def recognises(self, path: Path) -> bool:
        """Whether it is a Parquet file with these columns."""
        if ".parquet" not in path.suffixes[-2:]:
            return False
        from .ingest import stream

        tail = b""
        with stream.Source(path) as source:
            if not source.compressed:
                source.skip(max(0, source.size - _TAIL))
            for block in source:
                tail = (tail + block)[-_TAIL:]
        return tail.endswith(b"PAR1") and all(name.encode() in tail for name in COLUMNS)

    def load(self, job: Job) -> tuple[Trace, ...]:
        """The job as one run of several ranks. Raises Unreadable."""
        import polars as pl

        from . import parquet_check, schema
        from .ingest import stream
        from .recording.faults import Faults
        from .recording.values import numbers
        from .schema_limits import LONGEST_NS

        path, fault = stream.plain_file(job.path, job.workspace, job.progress)
        try:
            parquet_check.check(path)  # before polars allocates the sizes it declares
            rows = pl.read_parquet(path, columns=list(COLUMNS))
        except (OSError, parquet_check.Implausible, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            why = str(error).partition("\n")[0]
            raise Unreadable(job.path, f"is damaged ({fault or why})", "Copy it again.") from None
        finally:
            if path != job.path:
                path.unlink()
        faults = Faults()
        whole = rows.with_columns(
            pl.col("optype").cast(pl.String),
            *(numbers(rows[name], "id", faults, job.path.name) for name in ("dp_rank", "stage", "step", "seq_id")),
            *(numbers(rows[name], "ns", faults, job.path.name, factor=1e9) for name in ("start_ts", "duration")),
        ).filter(
            pl.col("start_ts").abs() < LONGEST_NS * 10, pl.col("duration").is_between(0, LONGEST_NS * 10),
            pl.col("dp_rank").is_between(0, 1 << 20), pl.col("stage").is_between(0, 1 << 20),
        ).drop_nulls(["step", "optype"])
        if whole.is_empty():
            raise Unreadable(job.path, "holds no operation with times", f"Its columns are {', '.join(COLUMNS)}.")
        kernels, cycles, ranks = _tables(whole)
        lost = rows.height - whole.height
        info = Info(
            str(job.path), job.path.stem, self.name, tool="StragglerAnalysis", bytes=job.path.stat().st_size,
            devices=(Device("GPU 0"),), ranks=ranks, facts={OPERATIONS: True},
            warnings=(*faults.warnings(), *((f"{lost:,} of {rows.height:,} rows hold no operation with times: "
                                             "left out.",) if lost else ())),
        )
        return (Trace(info, schema.conform("kernels", kernels.lazy()), cycles=schema.conform("cycles", cycles.lazy())),)


def _tables(rows: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """The tables ``kernels`` and ``cycles``, and the ranks: stage × data-parallel size + data-parallel rank."""
    import polars as pl

    data, deepest = int(rows["dp_rank"].max()) + 1, int(rows["stage"].max())
    rows = rows.with_columns(rank=pl.col("stage") * data + pl.col("dp_rank")).rename(
        {"start_ts": "start_ns", "duration": "dur_ns"})
    end = (pl.col("start_ns") + pl.col("dur_ns")).max()
    steps = rows.group_by("step", maintain_order=True).agg(first=pl.col("start_ns").min(), last=end).with_columns(
        begin=((pl.col("last") - pl.col("first") + _GAP_NS).cum_sum().shift(1, fill_value=0) - pl.col("first")),
    ).with_row_index("number")
    rows = rows.join(steps.select("step", "begin", "number"), on="step", how="left", maintain_order="left")
    rows = rows.with_columns(pl.col("start_ns") + pl.col("begin"))
    kind, step = pl.col("optype"), pl.col("optype").replace_strict(_MESSAGES, default=None, return_dtype=pl.Int64)
    other = pl.col("stage") + step
    by_stage = {stage: ",".join(str(stage * data + dp) for dp in range(data)) for stage in range(deepest + 1)}
    by_data = {dp: ",".join(str(stage * data + dp) for stage in range(deepest + 1)) for dp in range(data)}
    outer = {dp: ",".join(str(stage * data + dp) for stage in sorted({0, deepest})) for dp in range(data)}
    over_ranks, over_stages = kind.is_in(list(_OVER_RANKS)), kind.is_in(list(_OVER_STAGES))
    embedding = kind == "embedding-grads-all-reduce"
    members = (
        pl.when(over_ranks).then(pl.col("stage").replace_strict(by_stage, return_dtype=pl.String))
        .when(embedding).then(pl.col("dp_rank").replace_strict(outer, return_dtype=pl.String))
        .when(over_stages | step.is_not_null()).then(pl.col("dp_rank").replace_strict(by_data, return_dtype=pl.String))
        .when(kind.is_in(list(_ALONE))).then(pl.col("rank").cast(pl.String))
    )
    group = (
        pl.when(over_ranks).then(pl.format("dp of stage {}", "stage"))
        .when(embedding).then(pl.format("embedding of dp {}", "dp_rank"))
        .when(over_stages).then(pl.format("clip of dp {}", "dp_rank"))
        .when(step.is_not_null()).then(pl.format("pp of dp {}", "dp_rank"))
        .when(kind.is_in(list(_ALONE))).then(pl.format("rank {}", "rank"))
    )
    words = {**_OVER_RANKS, **_OVER_STAGES, **_ALONE, **{one: one.rpartition("-")[2] for one in _MESSAGES}}
    sends = kind.str.ends_with("send")
    rows = rows.with_columns(
        collective=kind.replace_strict(words, default=None, return_dtype=pl.String), process_group=group,
        group_ranks=members,
        src_rank=pl.when(step.is_not_null()).then(pl.when(sends).then("stage").otherwise(other)),
        dst_rank=pl.when(step.is_not_null()).then(pl.when(sends).then(other).otherwise("stage")),
        seq=pl.when(step.is_not_null()).then(pl.col("number").cast(pl.Int64) * _NUMBERS + pl.col("seq_id")),
    ).with_columns(group_size=pl.col("group_ranks").str.count_matches(",").cast(pl.Int64) + 1)
    rows = rows.sort("start_ns", "rank", "optype", maintain_order=True).with_row_index("index")
    kernels = rows.select(
        pl.col("index").cast(pl.Int64), "start_ns", "dur_ns", "rank", "collective", "process_group", "group_ranks",
        "group_size", "src_rank", "dst_rank", "seq", name="optype", device=pl.lit("GPU 0"),
        stream=pl.lit(0, pl.Int64), kind=pl.when(pl.col("collective").is_null()).then(pl.lit("kernel")).otherwise(
            pl.lit("collective")))
    cycles = rows.group_by("rank", "step").agg(
        pl.col("start_ns").min(), dur_ns=end - pl.col("start_ns").min(), first_index=pl.col("index").min(),
        last_index=pl.col("index").max()).sort("start_ns", "rank").with_columns(
        cycle="step", label=pl.format("step {}", "step"), kind=pl.lit("step"), source=pl.lit("recorded"),
        complete=pl.lit(True))
    return kernels, cycles, tuple(rows["rank"].unique().sort().to_list())


LOADER = Operations()
