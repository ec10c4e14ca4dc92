"""The evidence the rules use besides the overview's own figures, from one run or a piece of it."""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec import Struct

from ....loaders.trace import Trace
from ...contract.options import Options
from ...cycles.completeness import like
from ...cycles.detection import counted_cycles, find_cycles, length
from ...cycles.whole import Steps, in_steps
from ...measured.rules import RecordedRules, recorded_of
from ...operators.tree import operators_of
from .below_peak import Below, Utilisation, below_peak_of, utilisation_of
from .copies import Blocking, Copies, blocking_of, copies_of
from .kernel_times import KernelTimes, kernel_times_of
from .outside import Outside, outside_of
from .samples import Samples, error_events, samples_of
from .waits import Waits, waits_of


def step_trace_of(run: Trace) -> dict[str, Any] | None:
    """The first row of Ascend's ``step_trace_time.csv``: µs as text by column; ``steps`` is the number of rows."""
    rows = run.info.facts.get("step_trace_time")
    return {**rows[0], "steps": len(rows)} if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None


def top_operator_of(run: Trace) -> dict[str, Any] | None:
    """The operator with most host self time: ``name calls host_self_ns share`` (of the self time of all operators)."""
    operators = operators_of(run)
    rows = None if operators is None else operators.frame.sort("host_self_ns", descending=True)
    if rows is None or not (total := rows["host_self_ns"].sum()):
        return None
    first = rows.select(pl.col("name").cast(pl.String), "calls", "host_self_ns").row(0, named=True)
    return first | {"share": first["host_self_ns"] / total}


class Excess(Struct, frozen=True):
    """Some cycles: their numbers, the longest of them with its time, and their total time above the median, ns."""

    cycles: tuple[int, ...]
    longest: int
    longest_ns: int
    above_ns: int


class CycleTimes(Struct, frozen=True):
    """All cycles: number, median in ns (of the most common kind), outliers and warm-up."""

    count: int
    median_ns: float
    slow: Excess | None
    warm_up: Excess | None


def cycle_times_of(run: Trace, options: Options) -> CycleTimes | None:
    """The times of the run's cycles; None if it has no cycles with timestamps."""
    frame = counted_cycles(run, options).frame
    if frame.is_empty() or frame["start_ns"].null_count():
        return None
    kind, frame = like(frame), frame.with_columns(dur_ns=length(frame))
    steady = frame.filter(~pl.col("warm_up"))
    medians = steady.group_by(kind).agg(median=pl.col("dur_ns").median(), each=pl.len())
    rows = frame.join(medians, on=kind, how="left", nulls_equal=True).with_columns(
        above=pl.col("dur_ns") - pl.col("median"))
    commonest = medians.sort("each", "median", descending=True)
    if commonest.is_empty():
        return None
    return CycleTimes(
        frame.height, float(commonest["median"][0]),
        _excess(rows.filter("outlier")),
        _excess(rows.filter("warm_up")),
    )


def _excess(rows: pl.DataFrame) -> Excess | None:
    if rows.is_empty():
        return None
    longest = rows.sort("dur_ns", descending=True)
    return Excess(
        tuple(longest["cycle"].to_list()), int(longest["cycle"][0]), int(longest["dur_ns"][0]),
        int(rows["above"].sum()),
    )


LEAST_LANES, UNEVEN, MOST_SLOW, LEAST_SHARE = 4, 1.3, 0.25, 0.01
"""Fewest like lanes that are compared; least ratio of a slow lane's sum to the lower median; the largest share of lanes
that are slow; and least share of all range time, below which a range is not worth a sentence."""


class SlowLane(Struct, frozen=True):
    """The lane that takes longest for a range: thread, process and rank, its sum and the lower median of ``lanes`` like
    lanes, ns, calls of both, and how much all slow lanes lose."""

    name: str
    rank: int | None
    pid: int | None
    tid: int | None
    ns: int
    usual_ns: int
    calls: int
    usual_calls: int
    lanes: int
    lost_ns: int


def slow_lanes_of(run: Trace) -> tuple[SlowLane, ...]:
    """Of a recording of ranges without device work, one lane per worker: the ranges that take far longer on few lanes
    than on the others, most lost time first. Lanes are alike if they hold the same range names up to numbers."""
    lane = ["rank", "pid", "tid"]
    name = pl.col("name").cast(pl.String).str.replace_all(r"\d+", "#").alias("name")
    if run.has("kernels") or not (run.has("host.kind=annotation") or run.has("host_stats.rank")):
        return ()
    if run.has("host"):
        sums = run.host.filter(pl.col("kind") == "annotation", pl.col("dur_ns").is_not_null()).group_by(
            name, *lane).agg(pl.col("dur_ns").sum(), calls=pl.len()).collect(engine="streaming")
    else:
        nothing = pl.lit(None, pl.Int64)
        sums = run.host_stats.filter(pl.col("rank").is_not_null(), pl.col("total_ns").is_not_null()).select(
            name, "rank", pid=nothing, tid=nothing, dur_ns="total_ns", calls=pl.col("count")).collect()
    if sums.is_empty():
        return ()
    kinds = sums.group_by(lane).agg(pl.col("name").sort().str.join("\0").alias("like"))
    total, usual = int(sums["dur_ns"].sum() or 0), pl.col("dur_ns").quantile(0.5, "lower").cast(pl.Int64)
    slow = pl.col("dur_ns") >= UNEVEN * usual
    sums = sums.join(kinds, on=lane, nulls_equal=True).sort("dur_ns", *lane, descending=[True, False, False, False])
    ranges = sums.group_by("like", "name", maintain_order=True).agg(
        pl.len().alias("lanes"), pl.col(*lane).first(), ns=pl.col("dur_ns").first(), usual_ns=usual,
        calls=pl.col("calls").first(), usual_calls=pl.col("calls").quantile(0.5, "lower").cast(pl.Int64),
        slow=slow.sum(), sum=pl.col("dur_ns").sum(), lost_ns=(pl.col("dur_ns") - usual).filter(slow).sum(),
    ).filter(
        pl.col("lanes") >= LEAST_LANES, pl.col("usual_ns") > 0, pl.col("slow") > 0,
        pl.col("slow") <= MOST_SLOW * pl.col("lanes"), pl.col("sum") >= LEAST_SHARE * total,
    ).sort("lost_ns", "name", descending=[True, False])
    return tuple(SlowLane(*row) for row in ranges.select(SlowLane.__struct_fields__).rows())


class Late(Struct, frozen=True):
    """The straggler of a job of several ``ranks``: ``who`` with its device, ``name`` alone, at how many of its
    ``matched`` collectives it came last, how long the others waited for it in all, and how much of that because it
    begins its cycles late, ns."""

    who: str
    name: str
    ranks: int
    times: int
    matched: int
    caused_ns: int
    begin_ns: int


def late_of(run: Trace, options: Options) -> Late | None:
    """The straggler that the view of the ranks names; None where it names none, and for one rank."""
    if len(run.info.ranks) < 2 or not run.has("kernels"):
        return None
    from ...communication.arrivals import arrivals_of  # twenty modules that only jobs need
    from ...ranks.beginnings import beginnings_of, straggler_of

    arrivals = arrivals_of(run)
    late = straggler_of(run, arrivals, beginnings_of(run, arrivals, options))
    if late is None:
        return None
    return Late(late.who, late.member.text, len(run.info.ranks), late.times, late.matched, late.caused_ns,
                late.begin_ns)


class Measured(Struct, frozen=True):
    """The evidence by subject; None where nothing was recorded."""

    waits: Waits | None = None
    copies: Copies | None = None
    kernels: KernelTimes | None = None
    cycles: CycleTimes | None = None
    samples: Samples | None = None
    outside: Outside | None = None
    below_peak: dict[str, Below] | None = None
    utilisation: Utilisation | None = None
    blocking: Blocking | None = None
    step_trace: dict[str, Any] | None = None
    recorded: RecordedRules | None = None
    operator: dict[str, Any] | None = None
    notices: tuple[dict[str, Any], ...] = ()
    slow_lanes: tuple[SlowLane, ...] = ()
    no_cycles: str = "no cycles with times"
    straggler: Late | None = None


def notices_of(run: Trace) -> tuple[dict[str, Any], ...]:
    """What the recording itself says is wrong: ``rule sentence view``."""
    events = [{"rule": "device error", "sentence": one, "view": "metrics"} for one in error_events(run)]
    return (*(run.info.facts.get("notices") or ()), *events)


def measured(
    run: Trace, piece: Trace, options: Options, steps: Steps | None = None, cycle: int | None = None
) -> Measured:
    """The evidence in the steps of a piece of a run; with ``cycle``, without what needs the run's other cycles."""
    within = in_steps(piece, steps)
    below, use = (below_peak_of(run, piece, options, steps), utilisation_of(run, options)) if cycle is None else (
        None, None)
    operator = None if run.has("kernels") else top_operator_of(within)
    cycles = find_cycles(run, options)
    reason = cycles.why_guessed if cycles.ignored is not None else None
    return Measured(
        waits_of(run, piece, steps, within), copies_of(within), kernel_times_of(within),
        cycle_times_of(run, options) if cycle is None else None, samples_of(run, within),
        outside_of(run, steps, cycles.frame["label"].cast(pl.String)) if cycle is None else None,
        below, use, blocking_of(run, within), step_trace_of(run), recorded_of(within), operator,
        notices_of(run), slow_lanes_of(run) if cycle is None else (),
        reason.removesuffix(".") if reason else "no cycles with times",
        late_of(run, options) if cycle is None else None,
    )
