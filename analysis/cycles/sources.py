"""The sources of a recording's cycles, most trusted first.

A profiler's own step marks are right by definition; annotations that name a step nearly always are; executions of a
compiled program come next; a host function that runs repeatedly and fills the time is what a person would pick; and
where only launches were recorded, their names repeat. Each source is one function from a Trace to what it may have
found, best first: small frames in the schema of the table ``cycles``. What must stay true: no source invents a cycle
where nothing repeats, and the result does not depend on the order of the rows.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import polars as pl
from msgspec.structs import replace

from ...loaders import schema
from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.view import CannotAnswer
from ..core import units
from ..core.intervals import Ints
from .assignment import launched, row_at
from .launch_runs import in_capture, launch_runs, launches_by_rank
from .sourced_cycles import GUESSED, SourcedCycles, usual_counts
from .sourced_cycles import SOURCES as GUESSES

STEP = re.compile(
    r"^(profilerstep\b|step\s*[\[#:_ ]|(train|training|eval|validation|inference|decode|prefill|model)_?step\b"
    r"|iter(ation)?\b|batch\b|([\w.]*[._])?(run|train|process|execute)(_one)?_batch\b|execute_.*context_.*generation_)",
    re.IGNORECASE,
)
"""Annotations that name a step; each is a cycle, even if there is only one."""
_NO_STEP = re.compile(
    r"nccl:|gloo:|mpi:|Optimizer\.|enumerate\(DataLoader\)|CompiledFxGraph|^\[?(pytorch|cuda|gpu) ", re.IGNORECASE
)
_WAITS = re.compile(
    r"block_until_ready|synchroni[sz]e|(event|stream)query"
    r"|(^|[.:_ ])(wait|sleep|poll|select|join|acquire)(_\w*)?( |\(|$)",
    re.IGNORECASE,
)
"""Functions that only wait: as regular as the work they wait for, but not that work."""
_NUMBER = re.compile(r"(\d+)\D*$")
LEAST_MARKED, LEAST_CALLED = 2, 3
"""Repetitions needed for cycles: of an annotation, which is deliberate, and of a function, which may be chance."""
LEAST_COVER = 0.75
"""A cycle's function (or the several annotations of a round) fills at least this share of the time from one start to
the next; both are medians, so that one huge call does not make a rhythm..."""
LEAST_EXTENT = 0.15  # ...and this share of the time from its first call to its last one, which is cheap to test.
MOST_TRIED = 4
"""Functions that are tried, each at another time of the recording than those before."""


def recorded(run: Trace) -> list[SourcedCycles]:
    """The cycles the recorder itself marked (``ProfilerStep#N``, an anchor of a finished profile or comparison)."""
    frame = run.cycles.collect()
    if frame.is_empty() and run.has("profile"):
        same = {"cycle": "cycle", "cycle_start_ns": "start_ns", "cycle_ns": "dur_ns", "anchor": "label"}
        rows = run.profile.drop_nulls("cycle").group_by("cycle", "cycle_start_ns").agg(
            pl.col("cycle_ns").first(), pl.col("anchor").first()
        ).rename(same).sort("start_ns", "cycle", nulls_last=True)
        marked = rows.with_columns(pl.lit("step").alias("kind"), pl.lit("recorded").alias("source"))
        frame = schema.conform("cycles", marked).collect()
    if frame.is_empty():
        return []
    anchor = _common(frame["label"].cast(pl.String).drop_nulls().to_list())
    sources = frame["source"].cast(pl.String).drop_nulls().unique().to_list()
    source = sources[0] if len(sources) == 1 else "recorded"
    device_time = source == "pattern" or frame["first_index"].null_count() == 0
    guessed = bool(run.info.facts.get(GUESSED, source in GUESSES))
    frame, notes, inside = frame.with_columns(pl.col("complete").fill_null(True)), tuple[str, ...](), dict[int, int]()
    if not device_time and not frame["start_ns"].null_count():
        every = frame
        frame, notes = apart(frame)
        inside = _outer(every, frame) if frame.height < every.height else inside
    return [SourcedCycles(frame, source, anchor, device_time=device_time, guessed=guessed, notes=notes, inside=inside)]


def _outer(marks: pl.DataFrame, kept: pl.DataFrame) -> dict[int, int]:
    """The number of each mark that is not ``kept``, and that of the kept one in which it begins."""
    lost = marks.filter(~pl.col("cycle").is_in(kept["cycle"].implode())).unique("cycle", maintain_order=True)
    at = row_at(lost["start_ns"], lost["rank"], kept, ("start_ns", "dur_ns"))
    return dict(zip(lost.filter(pl.Series(at >= 0))["cycle"].to_list(), kept["cycle"].gather(at[at >= 0]).to_list(),
                    strict=True))


ROUNDED_NS = 1_000
"""Marks that overlap by no more than this do not overlap: recorders round."""


def apart(marks: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The marks of each rank (``start_ns dur_ns rank``) that overlap no other: of two that do, the outer one counts, of
    equal ones the earlier. Marks of no length do not count. A note says how many were left out."""
    real = marks.filter(pl.col("dur_ns") > 0) if (marks["dur_ns"] > 0).any() else marks
    ordered = real.sort("rank", "start_ns", "dur_ns", descending=[False, False, True], maintain_order=True)
    end = pl.col("start_ns") + pl.col("dur_ns")
    over = ordered.select((end.cum_max().shift(1).over("rank") > pl.col("start_ns") + ROUNDED_NS).fill_null(False))
    lacking = marks.height - real.height
    if over.to_series().any():
        last: dict[int | None, int] = {}
        kept = []
        for rank, start, span in ordered.select("rank", "start_ns", "dur_ns").iter_rows():
            kept.append(start >= last.get(rank, start) - ROUNDED_NS)
            if kept[-1]:
                last[rank] = start + span
        ordered = ordered.filter(pl.Series(kept))
    notes = []
    if inside := real.height - ordered.height:
        overlap = "step mark overlaps" if inside == 1 else "step marks overlap"
        notes.append(f"{inside:,} {overlap} another one of the same rank and {'is' if inside == 1 else 'are'} no step.")
    if real["dur_ns"].max() == 0:
        notes.append("No step mark has a length: how long a step took is unknown.")
    elif lacking:
        notes.append(f"{lacking:,} step mark{'s have' if lacking > 1 else ' has'} no length and "
                     f"{'are' if lacking > 1 else 'is'} no step.")
    return ordered, tuple(notes)


OPTIMISER = "Optimizer.step"
ALIKE = 0.1
"""The first step that ends with an optimiser's mark counts if at most this share of its launches differs from the
others'; else it is start-up."""


def optimised(run: Trace) -> list[SourcedCycles]:
    """Steps that end with an optimiser's mark: each goes from the first launch call or DataLoader slice after the end
    of the mark before to the end of its own. None where marks of steps hold these marks."""
    marked = _slices(run, pl.col("kind").is_in(["annotation", "op", "python"])
                     & pl.col("name").cast(pl.String).str.starts_with(OPTIMISER))
    if marked is None:
        return []
    ends = marked.with_columns(end=pl.col("start_ns") + pl.col("dur_ns"))
    if any(_all_hold(inner.frame, marked) for inner in named(run)):
        return []
    pieces = [frame for (rank,), own in ends.group_by("rank", maintain_order=True)
              if (frame := _to_optimiser(run, rank, own)) is not None]
    if not pieces:
        return []
    return [SourcedCycles(pl.concat(pieces), "recorded", _common(marked["name"].to_list()))]


def _all_hold(steps: pl.DataFrame, marks: pl.DataFrame) -> bool:
    """Whether each of the steps holds the begin of one of the marks."""
    held = row_at(marks["start_ns"], marks["rank"], steps, ("start_ns", "dur_ns"))
    return len(set(held[held >= 0].tolist())) == steps.height


def _to_optimiser(run: Trace, rank: object, marks: pl.DataFrame) -> pl.DataFrame | None:
    """The steps of one rank from the marks of its optimisers: of several the one with fewest marks, of equals the one
    that ends last."""
    one = marks.group_by("name").agg(pl.len(), last=pl.col("end").max()).sort(
        "len", "last", "name", descending=[False, True, False])["name"][0]
    ends = marks.filter(pl.col("name") == one)["end"].sort().to_numpy()
    of_rank = pl.lit(True) if rank is None else pl.col("rank").is_null() | (pl.col("rank") == rank)
    work = launched(run).filter(of_rank, is_work(), pl.col("launch_ns").is_not_null()).select(
        "launch_ns", "name").collect(engine="streaming").sort("launch_ns")
    loads = run.host.filter(of_rank, pl.col("name").cast(pl.String).str.contains("DataLoader", literal=True),
                            pl.col("kind").is_in(["op", "annotation", "dataloader", "python"]))
    loaded = loads.select("start_ns").drop_nulls().collect(engine="streaming")["start_ns"]
    begins = np.sort(np.concatenate((work["launch_ns"].to_numpy(), loaded.to_numpy())))
    before = np.append(-1, ends[:-1])
    at = np.searchsorted(begins, before, side="left")
    first = np.append(begins, np.iinfo(np.int64).max)[at]
    starts = np.where(first < ends, first, before)
    if not len(begins) or first[0] >= ends[0] or not _like_others(work, ends):
        starts, ends = starts[1:], ends[1:]
    if not len(ends):
        return None
    number = np.arange(1, len(ends) + 1)
    frame = pl.DataFrame({
        "cycle": number, "start_ns": starts, "dur_ns": ends - starts, "label": [f"step {at}" for at in number.tolist()],
        "rank": pl.Series([rank] * len(ends), dtype=pl.Int64)})
    return schema.conform("cycles", frame.with_columns(
        kind=pl.lit("step"), source=pl.lit("recorded"), complete=True).lazy()).collect()


def _like_others(work: pl.DataFrame, ends: Ints) -> bool:
    """Whether what was launched up to the first end is what was launched up to each of the others, within ``ALIKE``."""
    step = pl.Series(np.searchsorted(ends, work["launch_ns"].to_numpy(), side="left"))
    within = work.select("name").with_columns(step=step).filter(pl.col("step") < len(ends))
    counts = within.group_by("step", "name").len()
    others, first = len(ends) - 1, counts.filter(pl.col("step") == 0).select("name", first="len")
    usual = usual_counts(counts.filter(pl.col("step") > 0), [], pl.DataFrame({"segments": [others]}))
    both = usual.join(first, on="name", how="full", coalesce=True).fill_null(0)
    total = int(both["usual"].sum())
    apart = int((both["usual"].cast(pl.Int64) - both["first"].cast(pl.Int64)).abs().sum())
    return total > 0 and apart <= ALIKE * total


def named(run: Trace) -> list[SourcedCycles]:
    """User annotations or NVTX ranges that name a step. Of several series the one that no other encloses, of those the
    one that covers the most time; kinds of steps (prefill, decode) are one series."""
    rows = _slices(run, pl.col("kind") == "annotation")
    if rows is None:
        return []
    steps = [name for name in rows["name"].unique() if STEP.match(name)]
    if not steps:
        return []
    series = pl.DataFrame({"name": steps, "series": [_series(name) for name in steps]})
    marks = rows.join(series, on="name")
    notes: tuple[str, ...] = ()
    if (several := series["series"].unique().sort().to_list())[1:]:
        one = _outermost([marks.filter(pl.col("series") == name).drop("series") for name in several])
    else:
        one = marks
    one, notes = apart(one.drop("series", strict=False))
    return [replace(_from_slices(one, "annotation"), notes=notes)]


def _series(name: str) -> str:
    """What the names of one series of marks share: all but their numbers, and what kind of step each is."""
    return _stem(re.sub(_KINDS, "", name.split("[")[0].lower()))


def _outermost(series: list[pl.DataFrame]) -> pl.DataFrame:
    """Of several series of marks the one that none of the others encloses, of those the one that covers most time."""
    def within(inner: pl.DataFrame, outer: pl.DataFrame) -> bool:
        held = row_at(inner["start_ns"] + inner["dur_ns"] // 2, inner["rank"], outer, ("start_ns", "dur_ns"))
        return bool(2 * (held >= 0).sum() > inner.height) and int(inner["dur_ns"].sum()) < int(outer["dur_ns"].sum())

    free = [one for one in series if not any(within(one, other) for other in series if other is not one)]
    return max(free, key=lambda one: int(one["dur_ns"].sum()))


def annotated(run: Trace) -> list[SourcedCycles]:
    """Annotations that name no step, but repeat and fill the time from one start to the next: a guess."""
    rows = _slices(run, pl.col("kind") == "annotation")
    if rows is None:
        return []
    names = rows["name"].unique()
    rows = rows.filter(~pl.col("name").is_in([name for name in names if _NO_STEP.search(name) or _WAITS.search(name)]))
    return _most_regular(run, rows, "annotation") or _rounds(rows)


def anchored(run: Trace) -> list[SourcedCycles]:
    """The outermost host functions that repeat and fill the time from one start to the next."""
    condition = pl.col("kind").is_in(["op", "python"])
    # most functions are ruled out by their count or time, so that millions of frames are never collected
    end = pl.col("start_ns") + pl.col("dur_ns")
    sums = run.host.filter(condition).group_by("name", "pid", "tid").agg(
        pl.len().alias("n"), pl.col("dur_ns").sum(), extent=end.max() - pl.col("start_ns").min())
    enough = sums.filter(pl.col("n") >= LEAST_CALLED, pl.col("dur_ns") >= LEAST_EXTENT * pl.col("extent"))
    names = enough.select(pl.col("name").unique()).collect(engine="streaming")["name"]
    waits = [bool(_WAITS.search(name or "")) for name in names.cast(pl.String)]
    names = names.filter(~pl.Series(waits, dtype=pl.Boolean))
    rows = _slices(run, condition & pl.col("name").is_in(names.implode()))
    return [] if rows is None else _most_regular(run, rows, "anchor")


def overridden(run: Trace, pattern: str) -> SourcedCycles | None:
    """Every host slice whose name matches the expression; else every matching device activity, each beginning a cycle.
    Raises CannotAnswer for an invalid regular expression."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise CannotAnswer(f"The cycle anchor {pattern!r} is not a regular expression: {error}.") from error
    names = run.host.select(pl.col("name").unique().cast(pl.String)).collect()["name"].drop_nulls()
    wanted = [name for name in names if expression.search(name)]
    if wanted:
        rows = _slices(run, pl.col("name").cast(pl.String).is_in(wanted))
        return None if rows is None else _from_slices(apart(rows)[0], "anchor", anchor=pattern)
    return _between_launches(run, expression)


def _between_launches(run: Trace, expression: re.Pattern[str]) -> SourcedCycles | None:
    names = run.kernels.select(pl.col("name").unique().cast(pl.String)).collect()["name"].drop_nulls()
    wanted = [name for name in names if expression.search(name)]
    if not wanted:
        return None
    pieces = []
    for rank, table in launches_by_rank(run):
        marks = table["name"].cast(pl.String).is_in(wanted).arg_true().to_list()
        if not marks:
            continue
        bounds = list(zip(marks, [*marks[1:], table.height], strict=True))
        pieces.append(launch_runs(table, bounds, [expression.pattern] * len(bounds), "anchor", rank))
    return SourcedCycles(pl.concat(pieces), "anchor", expression.pattern, device_time=True) if pieces else None


def _slices(run: Trace, condition: pl.Expr) -> pl.DataFrame | None:
    rows = (
        run.host.filter(condition, pl.col("dur_ns") > 0)
        .select(pl.col("name").cast(pl.String), "start_ns", "dur_ns", "pid", "tid", "rank")
        .drop_nulls(["name", "start_ns"]).collect(engine="streaming")
    )
    return None if rows.is_empty() else rows


def _stem(name: str) -> str:
    return re.sub(r"\d+", "N", name)


def _most_regular(run: Trace, rows: pl.DataFrame, source: str) -> list[SourcedCycles]:
    """The slices of the names that repeat without nesting and fill most of the time, those that take most time first.
    The names of annotations may differ in their numbers."""
    stem = source == "annotation"
    names = pl.DataFrame({"name": rows["name"].unique().sort()})
    names = names.with_columns(
        pl.Series("stem", [_stem(name) if stem else name for name in names["name"]], dtype=pl.String)
    )
    keys = ["rank", "pid", "tid", "stem"]
    rows = rows.join(names, on="name").sort("start_ns", "dur_ns", descending=[False, True])
    end = pl.col("start_ns") + pl.col("dur_ns")
    rows = rows.with_columns((end.cum_max().shift(1).over(keys) > pl.col("start_ns")).fill_null(False).alias("inside"))
    median = pl.col("dur_ns").median()
    groups = rows.filter(~pl.col("inside")).group_by(keys).agg(
        pl.len().alias("n"), (median * pl.len()).alias("busy"), median.alias("median"),
        pl.col("start_ns").diff().median().alias("period"), first=pl.col("start_ns").min(), last=end.max(),
    )
    groups = groups.join(rows.group_by(keys).agg(pl.col("inside").sum().alias("nested")), on=keys, nulls_equal=True)
    good = groups.filter(
        pl.col("n") >= (LEAST_MARKED if stem else LEAST_CALLED), pl.col("nested") == 0,
        pl.col("median") >= LEAST_COVER * pl.col("period"),
    )
    totals = good.group_by("stem").agg(
        pl.col("busy").sum(), pl.col("n").sum(), pl.col("first").min(), pl.col("last").max()).sort("stem")
    result: list[SourcedCycles] = []
    while totals.height and len(result) < MOST_TRIED:
        # within 1% of the best, the name with the fewest slices, which is outermost: a loop body, not what it calls
        close = totals.filter(pl.col("busy") >= 0.99 * pl.col("busy").max())
        winner, first, last = close.sort("n", "busy", "stem", descending=[False, True, False]).select(
            "stem", "first", "last").row(0)
        chosen = rows.join(good.filter(pl.col("stem") == winner).select(keys), on=keys, how="semi", nulls_equal=True)
        result.append(_guessed(run, apart(chosen)[0], source))
        totals = totals.filter((pl.col("first") >= last) | (pl.col("last") <= first))
    return result


def _guessed(run: Trace, rows: pl.DataFrame, source: str) -> SourcedCycles:
    """A guess from slices: those in a graph capture are none unless all are."""
    captured = in_capture(run, rows)
    if captured.all() or not captured.any():
        return replace(_from_slices(rows, source), guessed=True, captured=bool(captured.all()))
    count = units.counted(int(captured.sum()), "repetition lies", "repetitions lie")
    note = f"{count} in a graph capture and {'is' if captured.sum() == 1 else 'are'} left out."
    return replace(_from_slices(rows.filter(~captured), source), guessed=True, notes=(note,))


def _rounds(rows: pl.DataFrame) -> list[SourcedCycles]:
    """Annotations that alternate (forward, backward, forward, ...): a cycle goes from one start of the first annotation
    to the next. The last cycle ends with the last annotation of its round."""
    if rows.is_empty():
        return []
    rows = apart(rows)[0].with_columns(end=pl.col("start_ns") + pl.col("dur_ns"))
    pieces = []
    for _, group in rows.group_by("rank", maintain_order=True):
        stems = [_stem(name) for name in group["name"]]
        times = Counter(stems)
        most = max(times.values())
        turns = group.filter(pl.Series([times[stem] == most for stem in stems]))
        order = [_stem(name) for name in turns["name"]]
        width = len(set(order))
        if most < LEAST_CALLED or width < 2 or order != order[:width] * most:
            continue
        first = turns.gather_every(width)
        last_end = turns["end"].to_list()[-1]
        spans = pl.Series([*first["start_ns"].to_list()[1:], last_end], dtype=pl.Int64) - first["start_ns"]
        busy, total = int(turns["dur_ns"].sum()), int(spans.sum())
        if busy >= LEAST_COVER * total:
            pieces.append(first.with_columns(dur_ns=spans))
    return [replace(_from_slices(pl.concat(pieces), "annotation"), guessed=True)] if pieces else []


def _from_slices(rows: pl.DataFrame, source: str, anchor: str | None = None) -> SourcedCycles:
    """Cycles from host slices, numbered as in their names if they are step names with distinct numbers, else from 1."""
    rows = rows.sort("rank", "start_ns", nulls_last=True)
    numbers = [int(match[1]) if (match := _NUMBER.search(name)) and len(match[1]) < 16 else None
               for name in rows["name"]]
    per_rank = rows.select("rank").with_columns(pl.Series("number", numbers, dtype=pl.Int64))
    named = all(STEP.match(name) and name.lower().startswith(("profilerstep", "step#", "iter")) for name in
                rows["name"]) and None not in numbers and per_rank.is_duplicated().sum() == 0
    order = pl.int_range(1, pl.len() + 1).over("rank")
    frame = rows.with_columns(
        pl.Series("cycle", numbers, dtype=pl.Int64) if named else order.cast(pl.Int64).alias("cycle"),
        pl.col("name").alias("label"), pl.lit(True).alias("complete"),
        pl.Series("kind", [_kind(name) for name in rows["name"]], dtype=pl.String),
    )
    frame = schema.conform("cycles", frame.with_columns(source=pl.lit(source)).lazy()).collect()
    return SourcedCycles(frame, source, anchor or _common(rows["name"].to_list()))


_KINDS = r"decode|extend|prefill"


def _common(names: list[str]) -> str | None:
    """The name that all share, or share except for its numbers; else None."""
    spelled = set(names)
    for shapes in (spelled, {_stem(name) for name in spelled}):
        if len(shapes) == 1:
            return shapes.pop()
    return None


def _kind(label: str) -> str:
    """The kind that a step's own name states: the annotations of serving engines name their phase."""
    if re.search(r"\bdecode\b|context_0\b.*generation_[1-9]", label, re.IGNORECASE):
        return "decode"
    if re.search(r"\b(extend|prefill)\b|context_[1-9]", label, re.IGNORECASE):
        return "prefill"
    return "step"
