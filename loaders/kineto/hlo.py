"""XLA traces as JSON (``trace.json.gz`` of ``jax.profiler``): the HLO op of each launch, from the events' arguments.

The runtime records each op it launches as a slice named after the op, inside a slice of the module, on the launching
thread; these slices become operators, as in an XPlane profile (see ``xla``). Calls and activities name their op in the
argument ``hlo_op``, for which the file is read again: a call belongs to the slice of that name open when it began.
"""

from __future__ import annotations

import polars as pl

from ..loader import Job
from ..schema import NAME
from ..trace import Trace
from .columns import NULL, integer
from .flows import arguments_with, changed

_MODULE = ":XLA GPU module"
_CALLS = ("runtime", "driver")


def tie_hlo(trace: Trace, job: Job) -> Trace:
    """The trace with HLO ops and modules as operators, linked to their runtime calls and device activities."""
    ops: dict[int, str] = {}
    for arguments in arguments_with(job.path, "hlo_op"):
        correlation, op = integer(arguments.get("correlation_id")), arguments.get("hlo_op")
        if correlation != NULL and isinstance(op, str):
            ops.setdefault(correlation, op)
    if not ops:
        return trace
    texts = pl.col("name", "kind").cast(pl.String)
    host = trace.host.select("start_ns", "dur_ns", "correlation", texts).with_row_index("row").collect()
    names = pl.Series(sorted(set(ops.values())))
    is_op = (pl.col("kind") == "annotation") & (pl.col("name").is_in(names.implode()) | pl.col("name").str.ends_with(
        _MODULE))
    slices = host.filter(is_op).select("row", "name", "start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns"))
    named = pl.DataFrame({"correlation": list(ops), "op": list(ops.values())})
    calls = host.filter(pl.col("kind").is_in(_CALLS)).join(named, on="correlation", maintain_order="left")
    around = calls.sort("start_ns").join_asof(
        slices.sort("start_ns"), on="start_ns", by_left="op", by_right="name", check_sortedness=False,
    ).filter(pl.col("end_ns") >= pl.col("start_ns"))
    ids = pl.concat([
        slices.select("row", external_id=-1 - pl.col("row").cast(pl.Int64), kind=pl.lit("op").cast(NAME)),
        around.select("row", external_id=-1 - pl.col("row_right").cast(pl.Int64), kind=pl.lit(None, NAME)),
    ])
    tied = around.select("correlation", op_id=-1 - pl.col("row_right").cast(pl.Int64)).unique("correlation")
    kernels = trace.kernels.select("correlation").with_row_index("row").collect().join(tied, on="correlation")
    return trace.with_tables(
        host=changed("host", trace.host, ids, job),
        kernels=changed("kernels", trace.kernels, kernels.select("row", "op_id"), job),
    )
