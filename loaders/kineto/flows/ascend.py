"""Ascend's arrows: which operator asked for a device activity, and which call launched it.

Operators put work into a queue that another thread empties, so an operator is often over when its launch begins, and
nothing but the recorded arrows says whose the launch is: ``torch_to_npu`` leads from the operator to the activity,
``HostToDevice`` from the launching call to it. Both are found by the places they begin and end at. An operator that an
arrow names gets a negative external id, and so do the calls that launched its activities: the id is right whenever the
call was made. The profiler: https://gitee.com/ascend/pytorch/tree/master/torch_npu/profiler.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ...loader import Job
from ...trace import Trace
from ..columns import NULL
from . import changed, read

_SIBLINGS = 64
"""Calls inside the one that is looked for, which were over before the arrow began."""
_CALLS = ("runtime", "driver")


def tie(trace: Trace, job: Job, origin: int) -> Trace:
    """The trace with operators, calls and activities tied; ``origin`` is the absolute time of its zero."""
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
    """The correlation of each activity: its own where a call has it, else that of the call its arrow begins in."""
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
    """Correlation of the innermost call that each arrow begins in on its thread, null for none."""
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
