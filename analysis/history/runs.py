"""Many runs as one Trace, and the series in it: renamed kernels are joined, runs with other work are not tested.

A history is a Trace whose table ``history`` has one row per run, kind of cycle and series; its facts describe each run.
So every view, export and screen takes it like any other input. A run on other hardware, with other work or without
cycles is shown but not tested: its times say nothing about steps.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from ...loaders import schema
from ...loaders.trace import Info, Trace
from ..core import units
from ..core.names.same_function import Function, same_functions
from ..core.text import display
from ..diff.same_work import ALIKE
from .noise import FEWEST_RUNS, Flags, Floats
from .steps import ALL, BUSY, COLLECTIVE, COPY, CYCLE, IDLE, KERNEL, KINDS, OP, SeriesOfRuns
from .sums import RECORDING, KindSums, RunSums, Sum

FORMAT = "history"
_FACT = "history"
SAME_WORK = 0.9
"""Two runs do the same work if their operator calls per cycle agree to at least this share; as in the diff."""
SAME_KERNELS = 0.5
"""The same for kernel launches, if no operators were recorded."""
_SAME_FLOPS = 0.05
_ROUNDING_NS = 1000 / 6**0.5
"""Standard deviation of a duration whose begin and end are recorded in whole microseconds."""
Key = tuple[str, str]
Sums = dict[Key, Sum]


class HistoryRun(Struct, frozen=True):
    """One run of a history: its ``index`` from 0 (sentences and lists count from 1), its properties (``run``), the
    ``part`` that is compared (without its sums; None if it has no such cycles), and ``not_tested``, the reason it is
    not tested ('' if it is)."""

    index: int
    run: RunSums
    part: KindSums | None
    not_tested: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """The run in ``facts.runs``."""
        part = self.part
        return {
            "run": self.run.label, "index": self.index, "time": self.run.recorded,
            "cycles": part.cycles if part and self.run.cycle_source else 0,
            **{name: None if part is None or (value := getattr(part, name)) is None else round(value)
               for name in ("cycle_ns", "busy_ns", "idle_ns")}, "flops": part.flops if part else None,
            "hardware": list(self.run.hardware), "source": self.run.source, "not_tested": self.not_tested or None,
        }


class History(Struct, frozen=True):
    """The runs in order; ``shown``: every series over all of them (series × runs, ns, NaN where missing); ``tested``:
    the same series with NaN for runs that are not tested; ``notes`` on runs not tested and series renamed."""

    runs: tuple[HistoryRun, ...]
    cycle_kind: str
    tested: SeriesOfRuns
    shown: Floats
    notes: tuple[str, ...]

    @property
    def compared(self) -> int:
        """The number of runs that are tested."""
        return sum(not one.not_tested for one in self.runs)

    def label(self, index: int) -> str:
        """'run 25 (nightly-025)', for sentences."""
        return f"run {index + 1} ({display(self.runs[index].run.label, 40)})"


def history_trace(runs: Sequence[RunSums], notes: Sequence[str] = ()) -> Trace:
    """The runs, in the given order, as one Trace. ``notes`` are sentences about what was left out."""
    rows: dict[str, list[Any]] = {name: [] for name in ("run", "cycle_kind", "kind", "name", "ns", "count")}
    for number, run in enumerate(runs):
        for part in run.parts:
            for kind, sums in part.sums.items():
                rows["run"] += [number] * len(sums)
                rows["cycle_kind"] += [part.cycle_kind] * len(sums)
                rows["kind"] += [kind] * len(sums)
                rows["name"] += sums
                rows["ns"] += [one.ns for one in sums.values()]
                rows["count"] += [one.count for one in sums.values()]
    frame = pl.DataFrame(rows, schema_overrides=dict(schema.polars_schema("history")))
    label = units.counted(len(runs), "run", "runs")
    bare = [replace(run, parts=tuple(replace(part, sums={}) for part in run.parts)) for run in runs]
    facts = {_FACT: to_builtins(bare)}
    return Trace(
        Info(label, label, FORMAT, facts=facts, warnings=tuple(notes)), history=schema.conform("history", frame.lazy()),
    )


def is_history(run: Trace) -> bool:
    """Whether this is a history of many runs, not a recording."""
    return _FACT in run.info.facts


def history_of(trace: Trace) -> History:
    """The history in a Trace made by ``history_trace``."""
    runs = _with_unique_labels(convert(trace.info.facts[_FACT], list[RunSums]))
    kind = _compared_kind(runs)
    parts = [next((part for part in run.parts if part.cycle_kind == kind), None) for run in runs]
    frame = trace.history.filter(pl.col("cycle_kind").cast(pl.String) == kind).collect()
    sums, renamed = _one_name_each(_by_run(frame, len(runs)))
    asides = _reasons_not_tested(runs, parts, sums, kind)
    clocked = sums
    sums = [own | _nameless(part) for own, part in zip(sums, parts, strict=True)]
    listed = tuple(HistoryRun(at, run, part, aside) for at, (run, part, aside) in enumerate(
        zip(runs, parts, asides, strict=True)))
    cycles = np.array([part.cycle_ns if part and part.cycle_ns else np.nan for part in parts])
    keys, shown = _matrix(sums, cycles)
    aside = np.array([bool(one) for one in asides], dtype=bool)
    timed = cycles[~aside & np.isfinite(cycles)]
    tested = SeriesOfRuns(
        tuple(kind for kind, _ in keys), tuple(name for _, name in keys),
        np.where(aside[None, :] | _under_operators(keys, shown, aside)[:, None], np.nan, shown),
        float(np.median(timed)) if len(timed) else 0.0, _clock_noise(keys, clocked, parts),
    )
    return History(listed, kind, tested, shown, (*_untested_notes(listed, kind), *renamed))


def _with_unique_labels(runs: list[RunSums]) -> list[RunSums]:
    """The runs with the recorded time appended to labels that repeat: a nightly job gives all recordings one name."""
    count = Counter(run.label for run in runs)
    return [replace(run, label=f"{run.label} {run.recorded[:16].replace('T', ' ')}")
            if run.recorded and count[run.label] > 1 else run for run in runs]


def _compared_kind(runs: Sequence[RunSums]) -> str:
    """The kind of cycle that most runs have; on a tie, the one that takes most time."""
    have = Counter(part.cycle_kind for run in runs for part in run.parts)
    time: Counter[str] = Counter()
    for run in runs:
        for part in run.parts:
            time[part.cycle_kind] += int(part.cycles * (part.cycle_ns or 0))
    return max(have, key=lambda kind: (have[kind], time[kind], kind), default=RECORDING)


def _nameless(part: KindSums | None) -> Sums:
    """The series that need no names: all busy and all idle time of a device per cycle."""
    sums = {(BUSY, BUSY): part.busy_ns, (IDLE, ALL): part.idle_ns} if part is not None else {}
    return {key: Sum(ns) for key, ns in sums.items() if ns is not None}


def _under_operators(keys: Sequence[Key], shown: Floats, aside: Flags) -> Flags:
    """Which functions are no series: those that not every tested run launched, where operators are recorded. Variants
    of one operator that take turns are its time, however they are named."""
    operators = np.array([kind == OP for kind, _ in keys], dtype=bool)
    there = np.isfinite(shown[:, ~aside])
    named = np.array([kind in (KERNEL, COLLECTIVE, COPY) for kind, _ in keys], dtype=bool)
    everywhere = bool(there.size) and bool(there[operators].any(axis=0).all())
    result: Flags = named & ~there.all(axis=1) & everywhere
    return result


def _by_run(frame: pl.DataFrame, runs: int) -> list[Sums]:
    result: list[Sums] = [{} for _ in range(runs)]
    columns = frame.select("run", pl.col("kind", "name").cast(pl.String), "ns", "count")
    for run, kind, name, ns, count in columns.iter_rows():
        result[run][kind, name] = Sum(ns, count)
    return result


def _one_name_each(runs: list[Sums]) -> tuple[list[Sums], list[str]]:
    """The sums with renamed series under their first name, except in runs that have both names; and a note."""
    first: dict[Key, str] = {}
    times: dict[Key, float] = {}
    result = []
    for sums in runs:
        unknown = [key for key in sums if key not in times and key not in first and key[0] != IDLE]
        if times and unknown:
            before = {_function(key): time for key, time in times.items() if key[0] != IDLE}
            now = {_function(key): one.ns for key, one in sums.items() if key[0] != IDLE}
            same = same_functions(before, now)
            first |= {key: same[_function(key)] for key in unknown if _function(key) in same}
        joined: Sums = {}
        for (kind, name), one in sums.items():
            was = first.get((kind, name), name)
            joined[kind, name if (kind, was) in sums else was] = one
        times |= {key: one.ns for key, one in joined.items()}
        result.append(joined)
    if not first:
        return result, []
    return result, [f"{units.counted(len(first), 'series', 'series')} changed only the name; the first name is listed."]


def _function(key: Key) -> Function:
    return key[1], (key[0],)


def _reasons_not_tested(
    runs: Sequence[RunSums], parts: Sequence[KindSums | None], sums: Sequence[Sums], kind: str
) -> list[str]:
    """Why each run is not tested ('' if it is). Runs are grouped by hardware and work. Tested is the most frequent
    work, of equally frequent ones the newest: a few runs of other work are no new baseline. Other hardware is one as
    soon as eight runs of one work are on it, for what it replaced does not come back."""
    groups: list[int | None] = []
    firsts: list[tuple[tuple[str, ...], Sums, KindSums]] = []
    for run, part, own in zip(runs, parts, sums, strict=True):
        if part is None or not own:
            groups.append(None)
            continue
        group = next((at for at, (hardware, other, there) in enumerate(firsts)
                      if hardware == run.hardware and not _other_shapes(there, part)
                      and _same_work(own, part.flops, other, there.flops)), None)
        if group is None:
            group = len(firsts)
            firsts.append((run.hardware, own, part))
        groups.append(group)
    sizes = Counter(group for group in groups if group is not None)
    newest = next((group for group in reversed(groups) if group is not None and sizes[group] >= FEWEST_RUNS), None)
    last = {group: at for at, group in enumerate(groups) if group is not None}
    chosen = max((group for group in sizes if newest is None or firsts[group][0] == firsts[newest][0]),
                 key=lambda group: (sizes[group], last[group]), default=None)
    result = []
    for run, part, group in zip(runs, parts, groups, strict=True):
        if group is None or part is None:
            without = "no cycles" if all(one.cycle_kind == RECORDING for one in run.parts) else (
                f"no {kind} cycles" if kind != RECORDING else "it has cycles, the runs compared have none")
            result.append("nothing ran on a device" if part is not None else without)
        elif group == chosen or chosen is None:
            result.append("")
        elif run.hardware != firsts[chosen][0]:
            result.append(f"other hardware: {', '.join(run.hardware) or 'not recorded'}")
        else:
            result.append(_other_shapes(firsts[chosen][2], part) or "other work per cycle")
    return result


def _other_shapes(usual: KindSums, own: KindSums) -> str:
    """How the shapes of the operators that both runs call differ; '' where they agree for 95% of the calls."""
    names = usual.shapes.keys() & own.shapes.keys()
    pairs = [(Counter(usual.shapes[name]), Counter(own.shapes[name])) for name in sorted(names)]
    if sum((a & b).total() for a, b in pairs) >= ALIKE * sum(max(a.total(), b.total()) for a, b in pairs):
        return ""
    other = [(a - b, b - a) for a, b in pairs if a != b]
    example = next(((a, b) for a, b in other if a and b), None)
    first = f": {_first_shape(example[0])} → {_first_shape(example[1])}" if example is not None else ""
    return f"other shapes{first} in {len(other)} of {units.counted(len(pairs), 'operator', 'operators')}"


def _first_shape(shapes: Counter[str]) -> str:
    """The sizes of the first tensor of the most frequent shapes: '[2048, 1024]'."""
    text = max(shapes, key=lambda one: (shapes[one], one))
    sizes = re.search(r"\[\d[\d, ]*\]", text)
    return re.sub(r", *", ", ", sizes[0]) if sizes else display(text, 40)


def _same_work(a: Sums, flops_a: float | None, b: Sums, flops_b: float | None) -> bool:
    """Whether two runs call the same operators equally often, or do the same FLOPs; without operators, whether they
    launch largely the same kernels."""
    if flops_a and flops_b and abs(flops_a / flops_b - 1) <= _SAME_FLOPS:
        return True
    has_operators = all(any(kind == OP for kind, _ in side) for side in (a, b))
    wanted, least = (OP, SAME_WORK) if has_operators else (KERNEL, SAME_KERNELS)
    shared = total = 0.0
    for key in {key for side in (a, b) for key in side if key[0] == wanted}:
        one, other = a.get(key), b.get(key)
        counts = [side.count if side else 0.0 for side in (one, other)]
        either = one or other
        each = either.ns / either.count if either and either.count else 0.0
        shared, total = shared + min(counts) * each, total + max(counts) * each
    return not total or shared / total >= least


def _matrix(sums: Sequence[Sums], cycles: Floats) -> tuple[list[Key], Floats]:
    """The keys of the series, the cycle first, and their time in each run. An idle cause that a run lacks counts as 0
    if the run's idle time is known; anything else is NaN."""
    rank = {kind: at for at, kind in enumerate(KINDS)}
    names = sorted({key for one in sums for key in one}, key=lambda key: (rank.get(key[0], len(rank)), key[1]))
    keys: list[Key] = [*([(CYCLE, CYCLE)] if np.isfinite(cycles).any() else []), *names]
    at = {key: row for row, key in enumerate(keys)}
    values = np.full((len(keys), len(sums)), np.nan)
    for run, own in enumerate(sums):
        rows = [at[key] for key in own]
        values[rows, run] = [one.ns for one in own.values()]
    if (CYCLE, CYCLE) in at:
        values[0] = cycles
    idle = np.array([kind == IDLE for kind, _ in keys], dtype=bool)
    has_idle = np.array([any(kind == IDLE for kind, _ in one) for one in sums], dtype=bool)
    zero = idle[:, None] & has_idle[None, :] & np.isnan(values)
    return keys, np.where(zero, 0.0, values)


def _clock_noise(keys: Sequence[Key], sums: Sequence[Sums], parts: Sequence[KindSums | None]) -> Floats | None:
    """The relative spread that times in whole microseconds alone give each series; None if some run's are finer."""
    some = [(part.cycles, {key: one for key, one in own.items() if key[0] != IDLE})
            for part, own in zip(parts, sums, strict=True) if part is not None]
    if any(round(one.ns * cycles) % 1000 for cycles, own in some for one in own.values()):
        return None
    return np.array([
        max((_ROUNDING_NS * (one.count / cycles) ** 0.5 / one.ns for cycles, own in some
             if (one := own.get(key)) and one.ns), default=0.0) for key in keys])


def _untested_notes(runs: Iterable[HistoryRun], kind: str) -> list[str]:
    """One sentence per reason why runs are not tested."""
    reasons: dict[str, list[int]] = defaultdict(list)
    for one in runs:
        if one.not_tested:
            reasons[one.not_tested].append(one.index + 1)
    return [
        f"{_numbers(numbers)}: {display(reason)}. Shown, not tested."
        for reason, numbers in reasons.items()
    ]


def _numbers(numbers: Sequence[int]) -> str:
    """Runs by their numbers: 'Run 4', 'Runs 4–6 and 9'."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    texts = [f"{span[0]}–{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans]
    shown = texts if len(texts) <= 8 else [*texts[:8], f"{len(texts) - 8} more"]
    listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"Run{'s' if len(numbers) > 1 else ''} {listed}"
