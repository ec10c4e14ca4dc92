"""Flow events (arrows) whose information is nowhere else in the file, from a second pass over its text.

Few files need it. On Ascend, operators enqueue work that another thread launches, so an operator has often ended when
its launch begins and only arrows link them: ``torch_to_npu`` leads from the operator to the activity, ``HostToDevice``
from the launching call to the activity. Both are matched by thread and time of their endpoints. A linked operator gets
a negative external id, and so do the calls that launched its activities. The profiler's source:
https://gitee.com/ascend/pytorch/tree/master/torch_npu/profiler.

Backward operators usually carry the sequence number of their forward operator, which makes ``fwdbwd`` arrows redundant
(true of all 9,201 device activities in seven recordings). Searching for arrows takes a third as long as reading the
trace, so it is done only if no operator has a sequence number; each pair is then given one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from .. import schema
from ..account.processes import LANE
from ..account.repeats import rewritten
from ..ingest.stream import Source
from ..loader import Job
from ..trace import Trace
from .columns import NULL, Number, integer, nanoseconds
from .dialect import BACKWARD_ARROW, number_in
from .document import decode

_BLOCK = 4 << 20
_LONGEST = 4096  # Bytes of a flow event's text.
_MOST = 50_000_000
_NESTED = 2  # Objects nested in a flow event after its name, such as its arguments.
_SIBLINGS = 64  # Earlier calls on the thread, ended before the arrow, that are skipped to find the enclosing one.
_CALLS = ("runtime", "driver")
_MANY_FLOWS, _SAMPLE, _SAME, _FIRST_ROWS = 20_000, 500, 0.99, 20_000
"""Flows from which on a sample is looked at first, and the share of its flows that repeat the correlation id of their
call, above which the others are not read: each costs 12 µs (606,655 of a 500 MB recording 7 s)."""


class Arrows(NamedTuple):
    """Arrows of one kind: id → (thread, time in ns) of the beginning, and of the end."""

    begins: dict[Any, tuple[int, int]]
    ends: dict[Any, tuple[int, int]]

    def frame(self) -> pl.DataFrame:
        """One row per arrow with both endpoints."""
        both = [(*begin, *self.ends[key]) for key, begin in self.begins.items() if key in self.ends]
        return pl.DataFrame(both, schema=dict.fromkeys(("tid", "from", "stream", "to"), pl.Int64), orient="row")


def read(path: Path, *words: str, per_process: bool = False) -> tuple[Arrows, ...]:
    """The arrows of each category or name; ``per_process``: ids are unique only within a process. Raises OSError."""
    arrows = {word: Arrows({}, {}) for word in words}
    for event in _events(path, [f'"{word}"'.encode() for word in words]):
        if sum(len(kind.begins) for kind in arrows.values()) > _MOST:
            break
        kind = arrows.get(str(event.get("cat"))) or arrows.get(str(event.get("name")))
        endpoint = integer(event.get("tid")), nanoseconds(event.get("ts"))
        key, phase = event.get("id"), event.get("ph")
        if kind is None or NULL in endpoint or not isinstance(key, (int, str)) or phase not in ("s", "f"):
            continue
        key = (integer(event.get("pid")), key) if per_process else key
        (kind.begins if phase == "s" else kind.ends).setdefault(key, endpoint)
    return tuple(arrows.values())


def arguments_with(path: Path, name: str) -> Iterator[dict[str, Any]]:
    """The ``args`` objects that contain the key ``name`` before any nested object."""
    for event in _events(path, [f'"{name}"'.encode()]):
        if name in event:
            yield event


def _events(path: Path, words: list[bytes]) -> Iterator[dict[str, Any]]:
    """Decoded innermost objects around each occurrence of a word; they may contain other objects after the word."""
    with Source(path) as source:
        rest = b""
        while block := source.read(_BLOCK):
            data = rest + block
            for word in words:
                at = data.find(word)
                while at >= 0:
                    begin, end = data.rfind(b"{", max(0, at - _LONGEST), at), at + 1
                    if begin >= 0 and (decoded := _object(data, begin, at)) is not None:
                        event, end = decoded  # which may hold the word twice, as category and as name
                        yield event
                    at = data.find(word, end)
            rest = data[-_LONGEST:]  # an arrow at a block border is seen twice, but ``setdefault`` keeps one


def _object(data: bytes, begin: int, end: int) -> tuple[dict[str, Any], int] | None:
    """The object from ``begin`` to one of the next few closing braces after ``end``, and its end; None if none of them
    parses."""
    for _ in range(_NESTED + 1):
        end = data.find(b"}", end, begin + _LONGEST) + 1
        if not end:
            break
        try:
            event, _ = decode(data[begin:end])
        except ValueError:
            continue
        return (event, end) if isinstance(event, dict) else None
    return None


def changed(name: str, table: pl.LazyFrame, rows: pl.DataFrame, job: Job) -> pl.LazyFrame:
    """The table with some columns of some rows replaced; rewritten in the workspace if the load is ``lasting``."""
    columns = [column for column in rows.columns if column != "row"]
    changes = rows.lazy().rename({column: f"{column}_new" for column in columns})
    merged = table.with_row_index("row").join(changes, on="row", how="left", maintain_order="left").with_columns(
        pl.coalesce(f"{column}_new", column).alias(column) for column in columns
    )
    return rewritten(name, schema.conform(name, merged.drop("row", *(f"{column}_new" for column in columns))), job)


def tie_launches(trace: Trace, job: Job, origin: int) -> Trace:
    """The trace with operators, calls and activities linked by arrows; ``origin`` is the absolute time of its zero."""
    requested, launched = (kind.frame() for kind in read(job.path, "torch_to_npu", "HostToDevice"))
    if requested.is_empty() and launched.is_empty():
        return trace
    requested, launched = (
        frame.with_columns(pl.col("from") - origin, pl.col("to") - origin) for frame in (requested, launched)
    )
    kernels = trace.kernels.select("start_ns", "stream", "correlation").with_row_index("row").collect()
    columns = ["op", *_CALLS]
    host = (
        trace.host.with_row_index("row").filter(pl.col("kind").cast(pl.String).is_in(columns))
        .select("row", "start_ns", "dur_ns", "tid", "correlation", calls=pl.col("kind").cast(pl.String) != "op")
        .collect()
    )
    calls = host.filter("calls")
    correlation = _launches(kernels, calls, launched)
    operator = (
        requested.join(host.filter(~pl.col("calls")).unique(["tid", "start_ns"], keep="first", maintain_order=True),
                   left_on=["tid", "from"], right_on=["tid", "start_ns"], how="inner")
        .select("stream", "to", op="row")
    )  # fmt: skip
    owner = kernels.join(operator, left_on=["start_ns", "stream"], right_on=["to", "stream"], how="inner").unique("row")
    owner = owner.select("row", op_id=-1 - pl.col("op").cast(pl.Int64))
    tied = kernels.select("row").join(correlation, on="row", how="left").join(owner, on="row", how="left")
    by_call = tied.drop_nulls(["correlation", "op_id"]).unique("correlation").select("correlation", id="op_id")
    external = pl.concat([
        calls.join(by_call, on="correlation", how="inner").select("row", "id"),
        owner.select(row=(-1 - pl.col("op_id")).cast(pl.UInt32), id="op_id").unique("row"),
    ])  # fmt: skip
    changes = {
        "kernels": tied.select("row", "correlation", "op_id"),
        "host": external.select("row", external_id="id").unique("row"),
    }
    return trace.with_tables(**{
        name: changed(name, trace.table(name), rows, job) for name, rows in changes.items()
    })  # fmt: skip


def _launches(kernels: pl.DataFrame, calls: pl.DataFrame, launched: pl.DataFrame) -> pl.DataFrame:
    """The correlation of each activity: its own if a call has it, else that of the call in which its arrow begins."""
    linked = kernels.join(calls.select("correlation").unique(), on="correlation", how="semi")
    linked = linked.select("row", "correlation")
    lost = kernels.join(linked, on="row", how="anti").join(
        launched, left_on=["start_ns", "stream"], right_on=["to", "stream"], how="inner"
    ).unique("row", maintain_order=True)
    launches = linked.clear()
    if lost.height and calls.height:
        around = _enclosing(calls.drop_nulls(["start_ns", "dur_ns", "correlation", "tid"]), lost)
        launches = lost.select("row").with_columns(correlation=around).drop_nulls()
    rest = kernels.select("row", "correlation").join(pl.concat([linked, launches]), on="row", how="anti")
    return pl.concat([linked, launches, rest])


def _enclosing(calls: pl.DataFrame, arrows: pl.DataFrame) -> pl.Series:
    """Correlation of the innermost call around the beginning of each arrow on its thread; null if there is none."""
    out = np.full(arrows.height, NULL, np.int64)
    tids, times = arrows["tid"].to_numpy(), arrows["from"].to_numpy()
    for (tid,), thread_calls in calls.sort("start_ns").group_by("tid"):
        start, correlation = thread_calls["start_ns"].to_numpy(), thread_calls["correlation"].to_numpy()
        end = start + thread_calls["dur_ns"].to_numpy()
        thread_rows = np.flatnonzero(tids == tid)
        at = np.searchsorted(start, times[thread_rows], side="right") - 1
        for _ in range(_SIBLINGS):
            over = (at >= 0) & (end[np.maximum(at, 0)] < times[thread_rows])
            at -= over
            if not over.any():
                break
        inside = (at >= 0) & (end[np.maximum(at, 0)] >= times[thread_rows])
        out[thread_rows[inside]] = correlation[at[inside]]
    return pl.Series(out).replace(NULL, None)


def tie_calls(trace: Trace, job: Job, origin: int, words: tuple[str, ...]) -> Trace:
    """The trace with the call at which a flow to each activity begins, where no one call has its correlation id. The
    text is read again for that; of many flows not where they only repeat the correlation ids of calls."""
    arrows = [f'"{word}"'.encode() for word in words]
    if int(trace.info.facts.get("flows") or 0) > _MANY_FLOWS and _repeat_ids(trace, job, origin, arrows):
        return trace
    calls = trace.host.with_row_index("row").filter(pl.col("kind").is_in(_CALLS)).select(
        pl.col("row").cast(pl.Int64), "pid", "tid", "start_ns", "dur_ns", "rank", "correlation",
    ).collect(engine="streaming")
    have = _one_launch(calls)
    work = trace.kernels.with_row_index("row").filter(pl.col("kind") != "sync").select(
        "row", "start_ns", "stream", "rank", "correlation", pid=LANE)
    lone = work.join(have.lazy(), on=["rank", "correlation"], how="anti", nulls_equal=False).drop_nulls(
        "start_ns").collect(engine="streaming")
    if have["rank"].null_count():
        linked = lone.join(have.filter(pl.col("rank").is_null()), on="correlation", how="semi")
        lone = lone.join(linked, on="row", how="anti")
    if lone.is_empty() or calls.is_empty():
        return trace
    at = {(pid, tid, start): row for row, start, tid, pid in lone.select("row", "start_ns", "stream", "pid").rows()}
    begins: dict[tuple[str, Any], set[tuple[int, int, int]]] = {}
    ends: dict[int, list[tuple[str, Any]]] = {}
    for event in _events(job.path, arrows):
        key, phase = event.get("id"), event.get("ph")
        if event.get("cat") not in words or phase not in ("s", "f") or not isinstance(key, (int, str)):
            continue
        place = _number(event.get("pid")), _number(event.get("tid")), nanoseconds(event.get("ts")) - origin
        if phase == "s":
            begins.setdefault((event["cat"], key), set()).add(place)
        elif (row := at.get(place)) is not None and (event["cat"], key) not in ends.setdefault(row, []):
            ends[row].append((event["cat"], key))
    by_place: dict[tuple[int, int, int], list[int]] = {}
    for row, pid, tid, start in calls.select("row", "pid", "tid", "start_ns").rows():
        by_place.setdefault((pid, tid, start), []).append(row)
    found = []
    for row, keys in sorted(ends.items()):
        for key in keys:
            rows = {one for place in begins.get(key, ()) for one in by_place.get(place, ())}
            if len(rows) == 1:
                found.append((row, rows.pop()))
                break
    if not found:
        return trace
    ties = pl.DataFrame(found, schema={"row": pl.UInt32, "flow": pl.Int64}, orient="row")
    return trace.with_tables(kernels=changed("kernels", trace.kernels, ties, job))


def _one_launch(calls: pl.DataFrame) -> pl.DataFrame:
    """The correlation ids (``rank correlation``) that name one call: of two that do not overlap neither is known."""
    some = calls.select("rank", "correlation", "start_ns", "dur_ns").filter(pl.col("correlation") != 0)
    ends = (pl.col("start_ns") + pl.col("dur_ns").fill_null(0)).sort_by("start_ns").first()
    return some.group_by("rank", "correlation").agg(apart=pl.col("start_ns").max() >= ends, count=pl.len()).filter(
        ~(pl.col("apart") & (pl.col("count") > 1))).select("rank", "correlation")


def _repeat_ids(trace: Trace, job: Job, origin: int, arrows: list[bytes]) -> bool:
    """Whether the first flows that begin at calls have these calls' correlation ids, so that flows tell nothing new."""
    begins = [
        (_number(event.get("tid")), nanoseconds(event.get("ts")) - origin, event.get("id"))
        for event in islice(_events(job.path, arrows), _SAMPLE)
        if event.get("ph") == "s" and isinstance(event.get("id"), int) and event.get("ts") is not None
    ]
    flows = pl.DataFrame(begins, schema={"tid": pl.Int64, "start_ns": pl.Int64, "id": pl.Int64}, orient="row")
    if flows.is_empty():
        return False
    same = (pl.col("correlation") == pl.col("id")).fill_null(False)
    for host in (trace.host.head(_FIRST_ROWS), trace.host):  # flows stand beside their calls in most files
        calls = host.filter(pl.col("kind").is_in(_CALLS), pl.col("start_ns").is_in(flows["start_ns"].implode()))
        met = calls.select("tid", "start_ns", "correlation").join(flows.lazy(), on=["tid", "start_ns"])
        share, rows = met.select(same.mean(), pl.len()).collect(engine="streaming").row(0)
        if rows >= flows.height // 2:
            break
    return share is not None and bool(share >= _SAME)


def _number(value: Any) -> int:
    return number_in(value) if isinstance(value, str) and not isinstance(value, Number) else integer(value)


def tie_backward(trace: Trace, job: Job, origin: int) -> Trace:
    """The trace with a sequence number for both operators of each arrow; ``origin`` is its absolute zero in ns."""
    begins, ends = read(job.path, BACKWARD_ARROW, per_process=True)[0]
    both = [(key[0], *begin, *ends[key]) for key, begin in begins.items() if key in ends]
    if not both:
        return trace
    columns = dict.fromkeys(("pid", "tid", "from", "backward_tid", "to"), pl.Int64)
    pairs = pl.DataFrame(both, schema=columns, orient="row").with_columns(
        pl.col("from") - origin, pl.col("to") - origin, sequence=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    where = ["pid", "tid", "start_ns"]
    operators = (
        trace.host.with_row_index("row").filter(pl.col("kind").cast(pl.String) == "op")
        .select("row", *where).collect().unique(where, keep="last", maintain_order=True)
    )  # fmt: skip
    forward = operators.rename({"row": "forward"})
    tied = pairs.join(forward, left_on=["pid", "tid", "from"], right_on=where, how="inner").join(
        operators, left_on=["pid", "backward_tid", "to"], right_on=where, how="inner"
    )
    rows = pl.concat([
        tied.select("row", "sequence", forward_tid="tid"),
        tied.select(row="forward", sequence="sequence", forward_tid=pl.lit(None, pl.Int64)),
    ]).unique("row", keep="first", maintain_order=True)  # fmt: skip
    return trace.with_tables(host=changed("host", trace.host, rows, job))
