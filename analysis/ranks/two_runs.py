"""The ranks of two runs: who waits for whom per cycle, and why a rank is later than it was.

Sums per cycle are over whole cycles (``cycles.paired``); the host calls and the idle time that make a rank late are
those of the diff. Both are read when a row is looked at, not for the list.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from ...loaders.trace import REDUCED, Trace
from ..communication.arrivals import Arrivals, arrivals_of
from ..contract.options import SIDES, Options
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs
from ..core import units
from ..details.listed import Row, in_run, kernel, row_section, text
from ..idle.cause_meanings import CAUSE_LETTERS, LABELS

HOST_CALLS, LEAST_SHARE = 6, 0.005
"""Host calls that are listed, and the share of the longer cycle below which waiting has no sentence."""


def wait_sentences(runs: Runs, rows: pl.DataFrame) -> tuple[str, ...]:
    """Who waits for whom per cycle in A and B, and what the transfer takes; none where waiting is immaterial."""
    sums = ["per_cycle_ns_a", "per_cycle_ns_b"]
    known = rows.drop_nulls(sums).filter(pl.max_horizontal(sums) > 0)
    if known.is_empty():
        return ()
    change = (pl.col(sums[1]) - pl.col(sums[0])).abs()
    row = known.sort(change, pl.max_horizontal(sums), descending=True).row(0, named=True)
    length = max(row["cycle_ns_a"] or 0, row["cycle_ns_b"] or 0)
    if max(row[name] for name in sums) < LEAST_SHARE * length:
        return ()
    others = [name_of(one) for one in rows.to_dicts() if name_of(one) != name_of(row)]
    who = f"{others[0]} waits" if len(others) == 1 else "The others wait"
    waits = units.amount(*(row[f"per_cycle_ns_{side}"] / 1e6 for side in SIDES))
    known = row["cycle_ns_a"] and row["cycle_ns_b"]
    of = f" of {units.amount(row['cycle_ns_a'] / 1e6, row['cycle_ns_b'] / 1e6)}" if known else ""
    first = f"{who} {waits} a cycle{of} for {name_of(row)} (mean)."
    took = [_transfer(arrivals_of(run)) for run in runs]
    if None in took:
        return (first,)
    return first, f"The transfer takes {units.amount(*(one / 1e6 for one in took if one is not None))} a call (median)."


def name_of(row: Row) -> str:
    """How a row is named in a sentence: its device, with the rank where the device does not tell them apart."""
    rank, device = row.get("rank"), row.get("device")
    return str(device or "the device") if rank is None else f"rank {rank}" + (f" ({device})" if device else "")


def _transfer(arrivals: Arrivals) -> float | None:
    """Median over the matched collectives of the shortest time in each, ns."""
    shortest = arrivals.met.group_by("instance").agg(pl.col("dur_ns").min())["dur_ns"].median()
    return float(shortest) if isinstance(shortest, int | float) else None


Compare = Callable[[Runs, Options], Answer]
"""The diff of two runs; raises CannotAnswer."""


def sections(row: Row, runs: Runs, options: Options, compare: Compare) -> list[Section]:
    """Of the rank of a row: what its host does longer, why its device idles, the longest wait of B, and its
    collectives in both runs."""
    if any(REDUCED in run.info.facts for run in runs):
        return []
    return [*_host_calls(row, runs, options, compare), *_idle(row, runs, options), *_longest(runs[1]),
            *_kinds(row, runs)]


def _host_calls(row: Row, runs: Runs, options: Options, compare: Compare) -> list[Section]:
    """The host calls whose time per cycle grew most, largest first."""
    try:
        rows = compare(runs, options).frame
    except CannotAnswer:
        return []
    sure = pl.col("sure_ms")  # what chance does not explain; calls that wait vary too much to have any
    device = in_run(row, runs, 0).get("device")
    pids = runs[0].kernels.filter(pl.col("device").cast(pl.String).eq_missing(pl.lit(device, pl.String))).group_by(
        pl.col("pid").cast(pl.String)).len().drop_nulls().sort("len", "pid", descending=True).collect()["pid"]
    here = pl.lit(True) if row.get("rank") is None else pl.col("rank").is_null() | (pl.col("rank") == row["rank"])
    if len(pids):  # the process that launches most of its work
        here &= pl.col("pid_a").cast(pl.String) == pids[0]
    host = rows.filter(pl.col("category").cast(pl.String) == "host", sure > 0, pl.col("delta_ms") > 0, here,
                       ~pl.col("kind").cast(pl.String).is_in(["idle", "oncpu"])).sort(sure, descending=True).select(
        pl.col("function").cast(pl.String), "launches_b", "a_ms", "b_ms", "delta_ms").collect()
    texts = tuple((kernel(name), units.MISSING if calls is None else units.number(calls), units.amount(a, b),
                   units.figure(delta, signed=True)) for name, calls, a, b, delta in host.head(HOST_CALLS).rows())
    if not texts:
        return []
    of = f", {HOST_CALLS} of {units.count(host.height)}" if host.height > HOST_CALLS else ""
    return [Section(f"What its host does longer per cycle{of}", texts, ("call", "calls", "A → B", "Δ"))]


def _idle(row: Row, runs: Runs, options: Options) -> list[Section]:
    """Idle time of the device by cause per cycle, largest change first."""
    from ..diff.prepare.idle_time import mean_idle_time

    sides = []
    for number, run in enumerate(runs):
        device = in_run(row, runs, number).get("device")
        spent = {cause: ms for (name, cause), ms in mean_idle_time(run, options).items() if name == device}
        sides.append(spent)
    if not all(sides):
        return []
    a, b = sides
    causes = sorted({*a, *b}, key=lambda cause: -abs(b.get(cause, 0.0) - a.get(cause, 0.0)))
    texts = tuple(
        (f"{CAUSE_LETTERS.get(cause, 'O')} {LABELS.get(cause, cause)}",
         units.amount(a.get(cause, 0.0), b.get(cause, 0.0)),
         units.figure(b.get(cause, 0.0) - a.get(cause, 0.0), signed=True)) for cause in causes[:HOST_CALLS])
    return [Section(f"{name_of(row)} idles per cycle", texts, ("cause", "A → B", "Δ"))]


def _longest(run: Trace) -> list[Section]:
    """The collective of B at which the others waited longest, as a small timeline."""
    from ..communication.row_details import longest_wait

    return longest_wait(run, " in B")


def _kinds(row: Row, runs: Runs) -> list[Section]:
    """The rank's collectives by kind in both runs: calls, where it came last, and both waits over the recordings."""
    frames = []
    for number, run in enumerate(runs):
        arrivals, here = arrivals_of(run), in_run(row, runs, number)
        alone = len({one.rank for one in arrivals.members}) == 1
        own = [at for at, one in enumerate(arrivals.members)
               if one.device == here.get("device") and (alone or one.rank == here.get("rank"))]
        frames.append(arrivals.met.filter(pl.col("member").is_in(own)).group_by("kind").agg(
            pl.len(), pl.col("caused_ns").sum()))
    joined = frames[0].join(frames[1], on="kind", how="full", coalesce=True, suffix="_b").sort(
        pl.max_horizontal("caused_ns", "caused_ns_b"), "kind", descending=[True, False], nulls_last=True)
    both = joined.select("kind", *(pl.concat_list(name, f"{name}_b") for name in ("len", "caused_ns")))

    def arrow(show: Callable[[float], str]) -> Callable[[list[float | None]], str]:
        return lambda pair: " → ".join(units.MISSING if one is None else show(one) for one in pair)

    return row_section("Its collectives in all", both, (
        text, arrow(units.count), arrow(units.duration)), ("kind", "calls", "caused wait"))
