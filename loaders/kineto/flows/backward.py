"""Which forward operator a backward one belongs to, by the profiler's ``fwdbwd`` arrows.

Both usually carry one sequence number, and then the arrows say the same once more: in seven recordings all 9,201 device
activities that arrows lead to have the same forward operator by its number. So they are read only where no operator
has a number and some event is such an arrow, for looking for them takes a third as long as reading the trace; each
pair then gets one.
"""

from __future__ import annotations

import polars as pl

from ...loader import Job
from ...trace import Trace
from ..dialect import BACKWARD_ARROW
from . import changed, read


def tie(trace: Trace, job: Job, origin: int) -> Trace:
    """The trace with a sequence number on both operators of each arrow; ``origin`` is the absolute time of its zero."""
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
