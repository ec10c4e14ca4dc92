"""The collectives that devices ran, one row per activity: kind, group, bytes, and participant.

A member is a participant in a collective: a device of a rank. Activities without a start or a duration are left out.
The kind follows from the recorded name of the collective, else from the name of its kernel. Bytes are counted as in
nccl-tests: what a rank sends or receives, whichever is more, so an all-gather counts the gathered buffer and a
reduce-scatter the whole buffer. The bus bandwidth factors are those of nccl-tests' PERFORMANCE page.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl
from msgspec import Struct

from ...loaders.trace import REDUCED, Trace
from ..core.call_tree import nearest, slices_of
from ..core.callers import call_rows

ALLREDUCE, ALLGATHER, REDUCE_SCATTER, ALL_TO_ALL = "allreduce", "allgather", "reducescatter", "alltoall"
BROADCAST, REDUCE, GATHER, SCATTER, BARRIER = "broadcast", "reduce", "gather", "scatter", "barrier"
SEND, RECEIVE, SEND_RECEIVE, UNKNOWN = "send", "recv", "sendrecv", "collective"
DISPATCH, COMBINE = "dispatch", "combine"
"""The two halves of expert parallelism: tokens to their experts, and back."""
MESSAGE = "send→recv"
"""Kind of a send and a receive that are the two ends of one message (``messages``)."""
_NAMES = (
    (DISPATCH, r"(?:deep_?ep|dpsk::ep|expert|moe|all_?to_?all|^ep_?).*(?<!notify_)dispatch(?!_layout)|^dispatch$"),
    (COMBINE, r"(?:deep_?ep|dpsk::ep|expert|moe|all_?to_?all|^ep_?).*combine|^combine$"),
    (REDUCE_SCATTER, r"reduce_?scatter"), (ALLREDUCE, r"all_?reduce|cross_device_reduce|multimem_(?:one|two)_shot"),
    (ALLGATHER, r"all_?gather"), (ALL_TO_ALL, r"all_?to_?all|deep_?ep|dpsk::ep"), (SEND_RECEIVE, r"send_?recv"),
    (BROADCAST, r"broadcast"), (BARRIER, r"barrier"), (GATHER, r"gather"), (SCATTER, r"scatter"), (REDUCE, r"reduce"),
    (SEND, r"send"), (RECEIVE, r"recv"),
)
ENDS_TOGETHER = (ALLREDUCE, ALLGATHER, REDUCE_SCATTER, ALL_TO_ALL, DISPATCH, COMBINE, BARRIER, MESSAGE, UNKNOWN)
"""Kinds in which no rank finishes before all have arrived, unlike a broadcast, whose sender may leave early."""
ONE_SIZE = (ALLREDUCE, ALLGATHER, REDUCE_SCATTER, BROADCAST, REDUCE)  # Kinds with the same size on all ranks.
PAIRED = (SEND, RECEIVE, SEND_RECEIVE, MESSAGE)
"""Kinds between two ranks of a group that may be larger: their order within the group cannot match them."""
_ELEMENT_BYTES = {
    "double": 8, "long": 8, "int64": 8, "uint64": 8, "complexfloat": 8, "float": 4, "float32": 4, "int": 4, "int32": 4,
    "uint32": 4, "half": 2, "float16": 2, "bfloat16": 2, "short": 2, "uint16": 2, "complexhalf": 4, "byte": 1,
    "char": 1, "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "complexdouble": 16, "float64": 8,
}


def kind_of(name: str | None) -> str:
    """The kind that the name of a collective or its kernel indicates; ``collective`` where it indicates none."""
    text = (name or "").lower().split("(", 1)[0]
    return next((kind for kind, pattern in _NAMES if re.search(pattern, text)), UNKNOWN)


def element_bytes(dtype: str | None) -> int | None:
    """Bytes of one element of a recorded type; None for unknown types."""
    return _ELEMENT_BYTES.get((dtype or "").lower().removeprefix("c10::"))


def bus_factor(kind: pl.Expr, ranks: pl.Expr) -> pl.Expr:
    """Bus bandwidth / algorithm bandwidth; null for groups of one and where the group size is unknown."""
    n = ranks.cast(pl.Float64)
    factor = (
        pl.when(kind == ALLREDUCE).then(2 * (n - 1) / n)
        .when(kind.is_in([ALLGATHER, REDUCE_SCATTER, ALL_TO_ALL, DISPATCH, COMBINE, GATHER, SCATTER])).then((n - 1) / n)
        .when(kind.is_in([BROADCAST, REDUCE, SEND, RECEIVE, SEND_RECEIVE, MESSAGE])).then(1.0)
    )
    return pl.when(n > 1).then(factor)


RECORDED = ("by", "collective", "process_group", "group_ranks", "dtype")
BEFORE = ("before_ns", "work_ns", "copies_ns", "loading_ns", "unlaunched_ns")
"""Columns for what a member did between its previous collective and this one."""
BETWEEN = ("to_start_ns", "to_end_ns")
"""Columns for what it computed between starts and ends of collectives."""
PREPARED = ("cycle", "exposed_ns", *BEFORE, *BETWEEN)
"""Columns that only a reduced dataset has for each collective; null for a recording."""


class Member(NamedTuple):
    """A device of a rank; either is None where it is not recorded. ``place``: the rank's in a layout ('PP1 TP0')."""

    rank: int | None
    device: str | None
    place: str | None = None

    @property
    def text(self) -> str:
        """Its display name: the rank, where it has one."""
        if self.rank is None:
            return self.device or "the device"
        return f"rank {self.rank}" + (f" ({self.place})" if self.place else "")


class Collectives(Struct, frozen=True):
    """``frame`` has one row per activity, sorted by member and start, with the columns ``index member start_ns dur_ns
    end_ns name kind by group group_ranks dtype bytes ranks seq src_rank dst_rank stream step`` and
    ``PREPARED``; ``step`` is the recorded step it was launched in, ``member`` is an
    index into ``members``, ``ranks`` the recorded group size, ``bytes`` null where size or type was not recorded."""

    frame: pl.DataFrame
    members: tuple[Member, ...]


def recorded(run: Trace) -> pl.LazyFrame:
    """The activities of collectives, from the kernels table or from a reduced dataset."""
    if REDUCED in run.info.facts:
        return run.collectives
    return run.kernels.filter(pl.col("kind") == "collective").with_columns(
        pl.lit(None, pl.Int64).alias(name) for name in PREPARED
    )


_ALL_TO_ALL = re.compile(r"all_?to_?all", re.IGNORECASE)


def _in_all_to_alls(run: Trace, frame: pl.DataFrame) -> pl.Series:
    """The kinds, ``ALL_TO_ALL`` for sends and receives launched in an operator or range of that name: NCCL makes one of
    them, and such a kernel is that collective and no message."""
    some = frame.with_row_index("at").filter(pl.col("kind").is_in(PAIRED))
    if some.is_empty() or not run.has("host") or REDUCED in run.info.facts:
        return frame["kind"]
    slices = slices_of(run)
    rows = run.kernels.select("index").collect(engine="streaming").with_row_index("row").join(
        some.select("index", "at"), on="index", maintain_order="left")
    call = call_rows(run)[rows["row"].to_numpy()]
    kinds = slices.of_kind("op", "annotation")
    around = nearest(slices.parent, call, slices.named(_ALL_TO_ALL.search, kinds))
    return frame["kind"].scatter(rows["at"].filter(pl.Series(around >= 0)), ALL_TO_ALL)


def _steps(run: Trace, frame: pl.DataFrame) -> pl.Series:
    """The number of the recorded step in which each collective was launched, null outside all."""
    none = pl.Series("step", [None] * frame.height, dtype=pl.Int64)
    if REDUCED in run.info.facts or frame.is_empty():
        return frame["cycle"] if frame.height else none
    marks = run.cycles.filter(pl.col("source") == "recorded").select(
        "rank", "start_ns", step="cycle", end=pl.col("start_ns") + pl.col("dur_ns")).drop_nulls("start_ns").sort(
        "start_ns").collect(engine="streaming")
    if marks.is_empty():
        return none
    launched = run.kernels.select("index").collect(engine="streaming").with_columns(
        run.account().activities["launch_ns"])
    at = frame.select("index", "rank", "start_ns").with_row_index("at").join(launched, on="index", how="left")
    at = at.select("at", "rank", start_ns="launch_ns").sort("start_ns", nulls_last=True)
    if marks["rank"].null_count():
        marks, at = marks.with_columns(rank=pl.lit(0)), at.with_columns(rank=pl.lit(0))
    inside = at.drop_nulls("start_ns").join_asof(marks, on="start_ns", by="rank", check_sortedness=False)
    inside = at.select("at").join(inside, on="at", how="left", maintain_order="left")
    return inside.select("at", step=pl.when(pl.col("start_ns") < pl.col("end")).then("step")).sort("at")["step"]


_LAYOUT = re.compile(r"(?<![a-z])(TP|DP|PP|EP|CP|rank|worker|node|gpu)[-_]?(\d+)", re.IGNORECASE)
_ONE_GROUP = ("TP", "RANK", "WORKER", "GPU")


def places_of(run: Trace) -> dict[int | None, str]:
    """The place of each rank in the layout that the names of files or processes carry: 'PP1 TP0'."""
    processes: dict[str, str] = run.info.facts.get("processes") or {}
    return {int(rank): place for rank, place in processes.items() if _LAYOUT.search(place)}


def _blocks(run: Trace, frame: pl.DataFrame) -> pl.Series:
    """Where no group is recorded: the part of a rank's place in the layout that ranks of one group share, null where no
    place is known. Only ranks that differ in TP alone, or in nothing but their number, may be one group."""
    parts = {rank: sorted((word.upper(), int(number)) for word, number in _LAYOUT.findall(place)
                          if word.upper() not in _ONE_GROUP) for rank, place in places_of(run).items()}
    names = {rank: " ".join(f"{word}{number}" for word, number in some) or None for rank, some in parts.items()}
    if len(set(names.values())) < 2:
        return pl.Series("group", [None] * frame.height, dtype=pl.String)
    return frame["rank"].replace_strict(names, default=None, return_dtype=pl.String)


def collectives_of(run: Trace) -> Collectives:
    """Every collective of the run's devices."""
    rows = (
        recorded(run)
        .select(
            "index", "start_ns", "dur_ns", "rank", "seq", "src_rank", "dst_rank", "group_size", "stream",
            *PREPARED,
            pl.max_horizontal("in_elements", "out_elements").alias("elements"),
            *(pl.col(name).cast(pl.String) for name in (*RECORDED, "name", "device")),
        )
        .drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    )
    order = {name: pl.col(name) for name in ("rank", "device")}
    members = rows.select("rank", "device").unique().sort(
        "rank", order["device"].str.len_chars(), "device", nulls_last=True
    ).with_row_index("member")
    rows = rows.join(members, on=["rank", "device"], how="left", nulls_equal=True)
    by_record = pl.col("collective").map_elements(kind_of, pl.String, skip_nulls=False)
    by_kernel = pl.col("name").map_elements(kind_of, pl.String, skip_nulls=False)
    words = rows.select("collective", "name").unique().with_columns(
        kind=pl.when(pl.col("collective").is_null()).then(by_kernel).otherwise(by_record)
    )
    sizes = rows.select("dtype").unique().with_columns(
        each=pl.col("dtype").map_elements(element_bytes, pl.Int64, skip_nulls=False)
    )
    frame = rows.join(words, on=["collective", "name"], how="left", nulls_equal=True).join(
        sizes, on="dtype", how="left", nulls_equal=True
    ).with_columns(
        pl.col("member").cast(pl.Int64), pl.col("dur_ns").clip(lower_bound=0),
        (pl.col("elements") * pl.col("each")).alias("bytes"), group=pl.col("process_group"), ranks=pl.col("group_size"),
    ).with_columns(end_ns=pl.col("start_ns") + pl.col("dur_ns")).sort("member", "start_ns", "index")
    frame = frame.with_columns(kind=_in_all_to_alls(run, frame), step=_steps(run, frame))
    bare = pl.col("group").is_null() & pl.col("group_ranks").is_null()
    frame = frame.with_columns(group=pl.when(bare).then(_blocks(run, frame)).otherwise("group"))
    places = places_of(run)
    return Collectives(
        frame.select(
            "index", "member", "start_ns", "dur_ns", "end_ns", "name", "kind", "by", "group", "group_ranks", "dtype",
            "bytes", "ranks", "seq", "src_rank", "dst_rank", "stream", "step",
            *PREPARED,
        ),
        tuple(Member(rank, device, places.get(rank)) for rank, device in members.select("rank", "device").rows()),
    )

