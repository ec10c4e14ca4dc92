"""Do the cycles of two runs do the same work? Told by the operators that launched it, which every device has alike.

The kernels of an operator are no measure: another device, library or algorithm has others. Only operators that
launched device work count, as often as they did per whole cycle, and the more the longer their work takes. What ran
on the host alone (a loader in the process of the training, or beside it) is not the work of a cycle.
"""

from __future__ import annotations

import polars as pl

from ....loaders.trace import Trace
from ...contract.options import SIDES, Options, Side
from ...core.callers import callers_of
from ...cycles.account import find_cycles
from ...cycles.assignment import in_cycles
from ...cycles.whole import whole_cycles

LEAST_CLAIMED = 0.9
"""Share of the device time in whole cycles that must have an operator; with less, operators do not tell the work."""


def operator_likeness(runs: tuple[Trace, Trace], options: Options) -> float | None:
    """How far the calls of operators per cycle agree, 0-1; None where a run does not say what launched its work."""
    sides = [_calls(run, options, side) for run, side in zip(runs, SIDES, strict=True)]
    a, b = sides
    if a is None or b is None:
        return None
    both = a.join(b, on="op", how="full", suffix="_b", coalesce=True).with_columns(
        pl.col("calls", "calls_b").fill_null(0.0), weight=pl.coalesce("ns", "ns_b"),
    )
    least, most = both.select(
        (which("calls", "calls_b") * pl.col("weight")).sum().alias(name)
        for name, which in (("least", pl.min_horizontal), ("most", pl.max_horizontal))
    ).row(0)
    return least / most if most else None


def _calls(run: Trace, options: Options, side: Side) -> pl.DataFrame | None:
    """``op calls ns``: operators that launched device work, their calls per whole cycle and the time of one, ns."""
    cycles = whole_cycles(run, options, side)
    callers = callers_of(run) if cycles else None
    if callers is None:
        return None
    account, some = find_cycles(run, options), cycles[0].some
    for other in cycles[1:]:
        some = some | other.some
    launched_by = run.kernels.select("index").collect(engine="streaming").with_columns(
        callers.frame["op"], call=pl.Series(callers.operator))
    work = in_cycles(run, account.frame, account.device_time, some).filter(
        pl.col("kind").is_in(["kernel", "memcpy", "memset"])).select("index", "dur_ns")
    rows = work.join(launched_by.lazy(), on="index", how="left").collect(engine="streaming")
    claimed = rows.drop_nulls("op")
    time, total = (int(frame["dur_ns"].sum()) for frame in (claimed, rows))
    if not total or time < LEAST_CLAIMED * total:
        return None
    count = sum(one.frame.height for one in cycles)
    return claimed.group_by(pl.col("op").cast(pl.String)).agg(
        calls=pl.col("call").n_unique() / count, ns=pl.col("dur_ns").sum() / pl.col("call").n_unique(),
    )
