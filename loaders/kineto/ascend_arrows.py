"""Ascend's arrows: which operator asked for a device activity, and which call launched it.

Operators put work into a queue that another thread empties, so an operator is often over when its launch begins, and
nothing but the recorded arrows says whose the launch is: ``torch_to_npu`` leads from the operator to the activity,
``HostToDevice`` from the launching call to it. Both are found by the places they begin and end at. An operator that an
arrow names gets a negative external id, and so do the calls that launched its activities: the id is right whenever the
call was made. The profiler: https://gitee.com/ascend/pytorch/tree/master/torch_npu/profiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import polars as pl

from .. import schema
from ..ingest.stream import Source
from ..loader import Job
from ..trace import Trace
from .columns import NULL, integer, nanoseconds

_BLOCK = 4 << 20
_LONGEST = 4096
"""Bytes of an arrow's text."""
_MOST = 50_000_000
_OPERATOR, _LAUNCH = b'"torch_to_npu"', b'"HostToDevice"'
_SIBLINGS = 64
"""Calls inside the one that is looked for, which were over before the arrow began."""
_CALLS = ("runtime", "driver")


class Arrows(NamedTuple):
    """Arrows of one kind by their id: (thread, time in ns) where each begins, and where it ends."""

    begins: dict[Any, tuple[int, int]]
    ends: dict[Any, tuple[int, int]]

    def frame(self) -> pl.DataFrame:
        """One row an arrow that has both."""
        both = [(*begin, *self.ends[key]) for key, begin in self.begins.items() if key in self.ends]
        return pl.DataFrame(both, schema=dict.fromkeys(("tid", "from", "stream", "to"), pl.Int64), orient="row")


def arrows(path: Path) -> tuple[Arrows, Arrows]:
    """The arrows from operators and those from launches. Raises OSError as ``open`` does."""
    found = Arrows({}, {}), Arrows({}, {})
    for text in _texts(path):
        try:
            event = orjson.loads(text)
        except ValueError:
            continue
        if not isinstance(event, dict) or len(found[0].begins) + len(found[1].begins) > _MOST:
            continue
        kind = found[0] if event.get("name") == "torch_to_npu" else found[1]
        place = integer(event.get("tid")), nanoseconds(event.get("ts"))
        key = event.get("id")
        if NULL not in place and isinstance(key, (int, str)) and event.get("ph") in ("s", "f"):
            (kind.begins if event["ph"] == "s" else kind.ends).setdefault(key, place)
    return found


def _texts(path: Path) -> Iterator[bytes]:
    """The texts of what may be arrows: flat objects around one of the words."""
    with Source(path) as source:
        rest = b""
        while block := source.read(_BLOCK):
            data = rest + block
            for word in (_OPERATOR, _LAUNCH):
                at = data.find(word)
                while at >= 0:
                    begin, end = data.rfind(b"{", max(0, at - _LONGEST), at), data.find(b"}", at, at + _LONGEST)
                    if begin >= 0 and end >= 0:
                        yield data[begin : end + 1]
                    at = data.find(word, at + 1)
            rest = data[-_LONGEST:]  # an arrow on the border is met twice, and counts once


def tie(trace: Trace, job: Job, origin: int) -> Trace:
    """The trace with operators, calls and activities tied; ``origin`` is the absolute time of its zero."""
    asked, launched = (kind.frame() for kind in arrows(job.path))
    if asked.is_empty() and launched.is_empty():
        return trace
    asked, launched = (
        frame.with_columns(pl.col("from") - origin, pl.col("to") - origin) for frame in (asked, launched)
    )
    kernels = trace.kernels.select("start_ns", "stream", "correlation").with_row_index("row").collect()
    wanted = ["op", *_CALLS]
    host = (
        trace.host.with_row_index("row").filter(pl.col("kind").cast(pl.String).is_in(wanted))
        .select("row", "start_ns", "dur_ns", "tid", "correlation", calls=pl.col("kind").cast(pl.String) != "op")
        .collect()
    )
    calls = host.filter("calls")
    correlation = _launches(kernels, calls, launched)
    operator = (
        asked.join(host.filter(~pl.col("calls")).unique(["tid", "start_ns"], keep="first", maintain_order=True),
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
        name: _changed(name, trace.table(name), rows, job) for name, rows in changes.items()
    })  # fmt: skip


def _launches(kernels: pl.DataFrame, calls: pl.DataFrame, launched: pl.DataFrame) -> pl.DataFrame:
    """The correlation of each activity: its own where a call has it, else that of the call its arrow begins in."""
    known = kernels.join(calls.select("correlation").unique(), on="correlation", how="semi")
    known = known.select("row", "correlation")
    lost = kernels.join(known, on="row", how="anti").join(
        launched, left_on=["start_ns", "stream"], right_on=["to", "stream"], how="inner"
    ).unique("row", maintain_order=True)
    found = known.clear()
    if lost.height and calls.height:
        around = _enclosing(calls.drop_nulls(["start_ns", "dur_ns", "correlation", "tid"]), lost)
        found = lost.select("row").with_columns(correlation=around).drop_nulls()
    rest = kernels.select("row", "correlation").join(pl.concat([known, found]), on="row", how="anti")
    return pl.concat([known, found, rest])


def _enclosing(calls: pl.DataFrame, arrows: pl.DataFrame) -> pl.Series:
    """Correlation of the innermost call that each arrow begins in on its thread, null for none."""
    out = np.full(arrows.height, NULL, np.int64)
    tids, times = arrows["tid"].to_numpy(), arrows["from"].to_numpy()
    for (tid,), own in calls.sort("start_ns").group_by("tid"):
        start, correlation = own["start_ns"].to_numpy(), own["correlation"].to_numpy()
        end = start + own["dur_ns"].to_numpy()
        mine = np.flatnonzero(tids == tid)
        at = np.searchsorted(start, times[mine], side="right") - 1
        for _ in range(_SIBLINGS):
            over = (at >= 0) & (end[np.maximum(at, 0)] < times[mine])
            at -= over
            if not over.any():
                break
        inside = (at >= 0) & (end[np.maximum(at, 0)] >= times[mine])
        out[mine[inside]] = correlation[at[inside]]
    return pl.Series(out).replace(NULL, None)


def _changed(name: str, table: pl.LazyFrame, rows: pl.DataFrame, job: Job) -> pl.LazyFrame:
    """The table with some columns of some rows replaced, in the files of the workspace where it must last."""
    columns = [column for column in rows.columns if column != "row"]
    found = rows.lazy().rename({column: f"{column}_new" for column in columns})
    made = table.with_row_index("row").join(found, on="row", how="left", maintain_order="left").with_columns(
        pl.coalesce(f"{column}_new", column).alias(column) for column in columns
    )
    made = schema.conform(name, made.drop("row", *(f"{column}_new" for column in columns)))
    if not job.lasting:
        return made.collect().lazy()
    part, path = job.workspace / f".{name}.arrow", job.workspace / f"{name}.arrow"
    made.sink_ipc(part, compression="lz4", maintain_order=True)
    for old in (*job.workspace.glob(f"{name}.arrow"), *job.workspace.glob(f"{name}-*.arrow")):
        old.unlink()
    part.rename(path)
    return schema.conform(name, pl.scan_ipc(path))
