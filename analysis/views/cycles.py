"""Cycles: iteration time, how busy the devices were, outliers, and the difference between two runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from ...loaders.trace import Trace
from ..contract.column import Column
from ..contract.options import SIDES, Options
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View, lettered, neither
from ..core import units
from ..core.distribution import histogram
from ..core.run_labels import device_labels
from ..core.text import display
from ..cycles.detection import Cycles, facts_of, find_cycles, view_cycles, why_none
from ..cycles.reduced import is_reduced
from ..cycles.scope import require_cycle
from ..cycles.statement import cycle_notes
from ..cycles.step_facts import kept
from ..cycles.whole import steps_of
from ..findings.spread import Spread
from ..work.roofline import mfu_by_cycle


def _build(runs: Runs, options: Options) -> Answer:
    wanted = [options.scope(side).cycle for side in SIDES]
    for run, cycle in zip(runs, wanted, strict=False):
        require_cycle(run, find_cycles(run, options), cycle)
    sides = tuple(view_cycles(run, options) for run in runs)
    rows = [
        cycles.frame if cycle is None else cycles.frame.filter(pl.col("cycle") == cycle)
        for cycles, cycle in zip(sides, wanted, strict=False)
    ]
    if len(runs) == 2 and any(cycles.frame.is_empty() for cycles in sides):
        raise CannotAnswer(_lacking(runs, sides))
    spans = tuple(cycles.frame["dur_ns"].cast(pl.Float64).to_numpy() for cycles in sides)
    rows = [_with_mfu(frame, run, cycles) for frame, run, cycles in zip(rows, runs, sides, strict=True)]
    notes = _notes(sides)
    shape = histogram(*spans)
    if len(sides) == 1:
        facts = facts_of(sides[0]) | {"histogram": shape}
        if sides[0].frame.is_empty():
            return Answer(rows[0].lazy(), facts, (why_none(runs[0], sides[0]),))
        summary = run_summary(sides[0], facts, _busy(runs[0], sides[0]))
        return Answer(rows[0].lazy(), facts | {"exact": exact_mean(facts)}, summary, notes)
    facts = {"a": facts_of(sides[0]), "b": facts_of(sides[1]), "histogram": shape}
    from ..diff.headline import pair_headline  # thirty modules that a single run does not need

    headline = pair_headline((runs[0], runs[1]), options)
    spoken, moved = (headline.with_subject, headline.moved) if headline is not None else ("", False)
    lines = pair_summary(facts, spoken, moved, any(one.frame["device_ns"].count() for one in sides))
    return Answer(_by_rank(rows[0], rows[1]), facts | {"exact": exact_mean(facts)}, lines, notes)


def _lacking(runs: Runs, sides: Sequence[Cycles]) -> str:
    """Why two runs cannot be compared by cycle, and what shows the cycles of the one that has some."""
    whys = [why_none(run, cycles) if cycles.frame.is_empty() else "" for run, cycles in zip(runs, sides, strict=True)]
    if all(whys):
        return neither([run.info.label for run in runs], whys)
    letter, cycles = next(one for one in zip("AB", sides, strict=True) if not one[1].frame.is_empty())
    count = units.counted(cycles.frame.height, "cycle", "cycles")
    return f"{''.join(whys)} --run {letter.lower()} shows the {count} of {letter}, x in the app."


def _with_mfu(frame: pl.DataFrame, run: Trace, cycles: Cycles) -> pl.DataFrame:
    """The rows with the column ``mfu``."""
    mfu = cycles.frame.select("cycle", "rank").with_columns(mfu_by_cycle(run, cycles)).unique(["cycle", "rank"])
    return frame.join(mfu, on=["cycle", "rank"], how="left", nulls_equal=True, maintain_order="left")


def _busy(run: Trace, cycles: Cycles) -> str:
    """Sentence on how busy each device is in the steps; '' where unknown."""
    steps = None if is_reduced(run) else steps_of(cycles)
    busy = {} if steps is None else steps.busy()
    labels = device_labels(busy)
    shares = Spread(tuple((labels[place] or "The device", share) for place, share in busy.items()))
    return f"{shares.who} busy {shares.text} of {units.each(cycles.noun)}" if shares.shares else ""


def _notes(sides: tuple[Cycles, ...]) -> tuple[str, ...]:
    """The notes on the cycles, with the run's letter where there are two."""
    notes = [cycle_notes(cycles) for cycles in sides]
    return tuple(dict.fromkeys(notes[0] if len(notes) == 1 else lettered(notes)))


def _by_rank(a: pl.DataFrame, b: pl.DataFrame) -> pl.LazyFrame:
    """Cycles paired by descending duration: slowest of A, slowest of B, and so on; surplus cycles stay unpaired."""

    def ranked(frame: pl.DataFrame, side: str) -> pl.LazyFrame:
        return (
            frame.lazy().sort("dur_ns", "start_ns", descending=[True, False])
            .select(
                pl.int_range(1, pl.len() + 1).cast(pl.Int64).alias("time_rank"),
                pl.col("dur_ns").alias(f"{side}_ns"), pl.col("cycle").alias(f"cycle_{side}"),
                pl.col("complete").alias(f"complete_{side}"), pl.col("busy_ns").alias(f"busy_{side}_ns"),
                pl.col("rank").alias(f"rank_{side}"), pl.col("outlier").alias(f"outlier_{side}"),
                pl.col("mfu").alias(f"mfu_{side}"),
            )
        )

    joined = ranked(a, "a").join(ranked(b, "b"), on="time_rank", how="full", coalesce=True).sort("time_rank")
    return joined.with_columns((pl.col("b_ns") - pl.col("a_ns")).alias("delta_ns")).with_columns(
        pl.when(pl.col("a_ns") > 0).then(pl.col("delta_ns") / pl.col("a_ns") * 100).alias("delta_pct")
    )


COLUMNS = (
    Column("cycle", "cycle", "number", "number of the cycle as recorded, else counted from 1", 6, order=0, pinned=True,
           role="order"),
    Column("label", "label", "text", "name of what marks the cycle", 24, order=2, elastic=True, role="label"),
    Column("start_ns", "start", "ns", "start, from the start of the trace; empty without timestamps", 10, order=3,
           role="moment"),
    Column("dur_ns", "host", "ns", "host time: the duration of its mark", 10, order=1, role="time"),
    Column("step_ns", "step", "ns", "step time: lead + device + tail, on the device with most work", 10, order=0),
    Column("rank", "rank", "number", "rank of the job", 5, order=9, role="where"),
    Column("source", "source", "text", "how it was found: recorded, annotation, anchor, execution or pattern", 10,
           order=8, role="where"),
    Column("complete", "whole", "bool", "false: only partly recorded, so device times are unknown", 6, order=4),
    Column("kind", "kind", "text", "step, prefill or decode", 8, order=5, role="where"),
    Column("warm_up", "warm-up", "bool", "one of the first cycles, clearly slower than the rest", 8, order=7),
    Column("device_ns", "device", "ns", "device time: from the first start of its own work, or the end of the work of "
           "the step before, to the last end of its own work", 10, order=2),
    Column("lead_ns", "lead", "ns", "part of the step before its device time: the device waits for the host", 8,
           order=5),
    Column("tail_ns", "tail", "ns", "part of the step after its device time, while the host is still in its mark", 8,
           order=6),
    Column("busy_ns", "busy", "ns", "time in its device time in which its own work ran", 10, order=1),
    Column("other_ns", "other", "ns", "time of the step in which only work of other steps, or of none, ran", 8,
           order=7),
    Column("idle_ns", "idle", "ns", "time of the step in which the device ran nothing", 10, order=2),
    Column("comm_ns", "comm", "ns", "time in which its own collectives ran", 8, order=6),
    Column("exposed_ns", "exposed", "ns", "its communication while nothing is computed on the device", 8, order=6),
    Column("period_ns", "period", "ns", "from the end of the device time of the step before to the end of its own", 10,
           order=None),
    Column("host_ns", "host", "ns", "host time: the duration of its mark; empty where it is marked on the device", 10,
           order=None),
    Column("mfu", "MFU", "fraction", "time its FLOPs take at device peak / its window (HFU if recomputation is "
           "counted)", 6, order=5, of="of peak FLOP/s"),
    Column("outlier", "outlier", "bool", "above the upper quartile + 1.5 IQR, and 5% above the median", 8, order=3),
    Column("records", "records", "count", "device activities that belong to it", 8, order=6),
    Column("from_ns", "from", "ns", "begin of its device time", 10, order=None),
    Column("to_ns", "to", "ns", "end of its device time", 10, order=None),
    Column("window_start_ns", "window", "ns", "start of its window: its own start, or the end of the previous window",
           10, order=None),
    Column("window_end_ns", "window end", "ns", "end of its window: its own end, or that of the last activity launched "
           "in it", 10, order=None),
    Column("first_index", "first launch", "number", "index of its first launch, where cycles are runs of launches", 12,
           order=None),
    Column("last_index", "last launch", "number", "index of its last launch", 12, order=None),
)
PAIR_COLUMNS = (
    Column("time_rank", "#", "number", "rank by time in each run; 1 is the slowest", 5, order=0, pinned=True,
           role="place"),
    Column("a_ns", "A", "ns", "cycle time in run A", 12, order=0),
    Column("b_ns", "B", "ns", "cycle time in run B", 12, order=0),
    Column("delta_ns", "Δ", "ns", "B − A", 12, order=0, signed=True),
    Column("delta_pct", "Δ%", "percent", "B − A in percent of A", 8, order=1, signed=True),
    Column("cycle_a", "cycle A", "number", "number of the cycle in run A", 8, order=2, role="order", side="a"),
    Column("cycle_b", "cycle B", "number", "number of the cycle in run B", 8, order=2, role="order", side="b"),
    Column("rank_a", "rank A", "number", "rank of the job in run A", 6, order=3, role="where", side="a"),
    Column("rank_b", "rank B", "number", "rank of the job in run B", 6, order=3, role="where", side="b"),
    Column("busy_a_ns", "busy A", "ns", "busy time in A: kernels, collectives or copies running", 10, order=3),
    Column("busy_b_ns", "busy B", "ns", "busy time in B: kernels, collectives or copies running", 10, order=3),
    Column("mfu_a", "MFU A", "fraction", "time its FLOPs take at device peak / its window, in A", 6, order=4,
           of="of peak FLOP/s"),
    Column("mfu_b", "MFU B", "fraction", "time its FLOPs take at device peak / its window, in B", 6, order=4,
           of="of peak FLOP/s"),
    Column("complete_a", "whole A", "bool", "whether the whole cycle was recorded", 8, order=4, side="a"),
    Column("complete_b", "whole B", "bool", "whether the whole cycle was recorded", 8, order=4, side="b"),
    Column("outlier_a", "outlier A", "bool", "whether it is an outlier in run A", 8, order=None, side="a"),
    Column("outlier_b", "outlier B", "bool", "whether it is an outlier in run B", 8, order=None, side="b"),
)


def _anchor(facts: dict[str, Any]) -> str:
    if facts["guessed"]:
        what = "the calls of a host function" if facts["anchor"] is None else display(str(facts["anchor"]), 48)
        return f"guessed: {what} {'repeat' if facts['source'] == 'pattern' else 'repeats'}"
    return f"anchor {display(str(facts['anchor']), 48)}, {facts['source']}" if facts["anchor"] else facts["source"]


def _time(microseconds: float) -> str:
    return units.duration(1e3 * microseconds)


def _change(was: float, now: float, moved: bool) -> str:
    """Two times in µs as ``a → b``; with the change in percent only if ``moved``: the change is significant."""
    text = f"{_time(was)} → {_time(now)}"
    return f"{text} ({units.percent(100 * (now - was) / was, signed=True, places=2)})" if moved and was else text


def _are_not_whole(source: str | None) -> str:
    """What repetitions that are not whole lack: records of marked steps; guessed ones may launch something else."""
    return "are not whole" if source == "pattern" else "lack GPU records"


def run_summary(cycles: Cycles, facts: dict[str, Any], busy: str = "") -> tuple[str, ...]:
    """Lines for one run: number and source of the cycles, warm-up, outliers, incomplete cycles, mean, median and p99.
    ``busy`` is the sentence on device utilisation that all views share."""
    frame, count = cycles.frame, facts["n"]
    ranks = frame["rank"].drop_nulls().n_unique()
    of = f" of {units.count(ranks)} ranks" if ranks > 1 else ""
    first = f"{units.counted(count, cycles.noun, f'{cycles.noun}s')}{of} · {_anchor(facts)}"
    if facts["warm_up"]:
        first += f" · {facts['warm_up']} warm-up"
    if facts["outliers"]:
        first += f" · {units.counted(facts['outliers'], 'outlier', 'outliers')}"
    if facts["incomplete"]:
        first += f" · {facts['incomplete']} of {count} {_are_not_whole(facts['source'])}"
    step = kept(frame)["step_ns"].mean() if frame["device_ns"].count() else None
    second = _time(facts["mean_us"]) if count == 1 else (
        f"mean {_time(facts['mean_us'])}, median {_time(facts['median_us'])}, p99 {_time(facts['p99_us'])}")
    if step is not None:
        second = f"step time {units.duration(float(step))}, host time {second}"  # type: ignore[arg-type]
    if busy:
        second += f"; {busy}"
    lines = [first, second]
    if len(facts["kinds"]) > 1:
        lines.append(" · ".join(
            f"{kind} {own['n']:,} of {_time(own['mean_us'])}" for kind, own in facts["kinds"].items()
        ))
    return tuple(lines)


def pair_summary(facts: dict[str, Any], headline: str, moved: bool, on_host: bool) -> tuple[str, ...]:
    """Lines for two runs: number of cycles, the pair's headline, means and medians. ``moved``: whether the headline
    says that the cycle time changed, ``on_host``: there are step times beside the lengths of the marks."""
    left, right = facts["a"], facts["b"]
    first = f"{units.counted(left['n'], 'cycle', 'cycles')} in A, {right['n']:,} in B · {_anchor(left)}"
    if (left["anchor"], left["source"]) != (right["anchor"], right["source"]):
        first += f" (B: {_anchor(right)})"
    lacking = left["incomplete"] + right["incomplete"]
    if lacking:
        first += f" · {lacking} of {left['n'] + right['n']} {_are_not_whole(left['source'])}"
    median_given = "(median " in headline and not moved  # else the change follows
    shown = (("mean", "mean_us"),) if median_given else (("mean", "mean_us"), ("median", "median_us"))
    changes = [f"{what} {_change(left[key], right[key], moved)}" for what, key in shown]
    means = f"{'host time of ' if on_host else ''}all cycles: {', '.join(changes)}"
    lines = (first, headline, means, *_by_kind(left["kinds"], right["kinds"], moved))
    return tuple(line for line in lines if line)


def exact_mean(facts: dict[str, Any]) -> str:
    """The mean of one run or two in µs with two decimals, to compare with other tools; '' if a mean is missing.
    The difference is plain arithmetic and may come from one slow cycle; significance is judged in the headline."""
    sides = [facts[side] for side in ("a", "b")] if "a" in facts else [facts]
    means = [side.get("mean_us") for side in sides]
    if any(mean is None for mean in means):
        return ""
    text = "mean in µs: " + " → ".join(f"{mean:,.2f}" for mean in means)
    if len(means) == 2 and means[0]:
        text += f", {units.percent(100 * (means[1] / means[0] - 1), signed=True, places=2)} (not a significance test)"
    return text


def _by_kind(left: dict[str, Any], right: dict[str, Any], moved: bool) -> list[str]:
    """One line with the mean of every kind that both runs have; empty where neither has several kinds."""
    both = [kind for kind in left if kind in right]
    if max(len(left), len(right)) < 2 or not both:
        return []
    means = [(kind, left[kind]["mean_us"], right[kind]["mean_us"]) for kind in both]
    return ["mean per kind: " + " · ".join(f"{kind} {_change(was, now, moved)}" for kind, was, now in means)]


def _details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    from ..details.row_details import cycle_sections  # needed only when a row is opened

    return cycle_sections(row, runs, options)


def _glance(runs: Runs, options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    from ..details.cycle_differences import glance  # needed only in the app

    return glance(runs, options)


VIEW = View(
    "cycles", COLUMNS, _build, PAIR_COLUMNS, alternates=("dur_ns", "cycle_a"), scopes_itself=True, noun="cycles",
    row_id=("cycle", "rank"), details=_details, glance=_glance, lists_cycles=True,
)
