"""The what-if answer for a run: rows of changes, sentences, the critical path as text, the details of a row."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import REDUCED, Trace
from ..contract.changes import GRAPH, Change, parse
from ..contract.options import Options
from ..contract.sections import Section
from ..contract.view import CannotAnswer
from ..core import units
from ..core.call_tree import Ints
from ..core.derived import derived_value
from ..core.names.short_name import short_name
from ..idle.cause_meanings import LABELS
from ..ranks.job_replay import JobReplay, job_replay_of
from ..work.peaks import settings_text
from . import path_rows
from .accuracy import PREDICTS, TRUSTED, Accuracy
from .apply import NO_LEAST
from .candidates import ALL, MOSTLY, WHOLE_CAUSES, Candidate, candidates, how
from .critical_path import MEANINGS, critical_path
from .job import Job, job_of
from .model import Knobs, Model, Outcome
from .path_rows import path_of
from .replayed import Replayed, replay_of

_NEARLY, _TOGETHER = 0.95, 0.02
_SMALL, _LARGE = 0.25, 0.10
"""A kernel that takes at least ``_LARGE`` of the cycle and saves at most ``_SMALL`` of its time is worth a sentence."""
_NOTHING, _UNWORTHY = 1e-5, 1e-3
"""Share of the cycle below which a saving is rounding noise, and share below which a change is not worth making."""
_AT_ONCE = 2
"""Changes replayed in parallel threads (numpy and compiled loops release the GIL): the 30 changes of a run with a
million activities take 1.6 instead of 2.7 s, and 55 MB more."""
_APART = 1.1
"""A replayed cycle of more than this many mean cycles includes the time between cycles."""
NOBODY = "nothing waits for it"
_HALF_HOST = Change("host", "", 0.5)
_FORMATS = "Kineto, Nsight Systems, rocprofv3, rocpd, RPD and Perfetto recordings with runtime calls"
ASSUMED = (
    "Host code is assumed to run as fast as before unless a change says otherwise; savings of several changes do not "
    "add up. A cause of idle time is removed wherever the host has it, also while the device works: it may save more "
    "than Idle shows of it."
)


class Prediction(Struct):
    """The saving per cycle if something were gone (factor 0): times in ns, ``takes`` and ``share`` of the cycle.
    ``bound``: '≤' if it is many changes at once, which nobody makes alone.

    ``saved_with_host_ns``: the saving if host code takes half its time as well. ``start_ns`` and ``dur_ns``: of the
    activity, call or host time that is cut most, as recorded."""

    kind: str
    name: str
    device_ns: int | None
    takes: float | None
    saved_ns: int
    share: float
    saved_at_peak_ns: int | None
    saved_with_host_ns: int
    count: float
    how: str
    change: str
    start_ns: int | None = None
    dur_ns: int | None = None
    bound: str = ""


class Predictions(Struct, frozen=True):
    """The answer for one run; ``accuracy`` is None where nothing can be replayed."""

    label: str
    rows: tuple[Prediction, ...] = ()
    accuracy: Accuracy | None = None
    cycle_ns: float | None = None
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    picture: tuple[tuple[str, ...], ...] = ()
    path: dict[str, Any] | None = None
    scenario: dict[str, Any] | None = None
    job: Job | None = None

    @property
    def most(self) -> dict[str, Any] | None:
        """The single change that saves most, and its saving in ns; None if none saves anything."""
        single = single_changes(self.rows)
        return {"change": single[0].change, "saved_ns": single[0].saved_ns} if single else None


def with_bounds_last(rows: Sequence[Prediction]) -> tuple[Prediction, ...]:
    """The single changes, largest saving first, then the bounds, which are many changes at once: totals of a kind or a
    family, one graph for everything, host code as a whole, and a frame that contains nearly all of it."""
    host = next((row.saved_ns for row in rows if row.name == ALL["host"]), 0)
    marked = [replace(row, bound="≤" if (
        row.name in ALL.values() or row.kind in ("kernels", "collectives", GRAPH)
        or (row.kind == "idle" and row.name in WHOLE_CAUSES)
        or (row.kind == "host" and row.saved_ns >= MOSTLY * host)) else "") for row in rows]
    return tuple(sorted(marked, key=lambda row: (row.bound, -row.saved_ns)))


def single_changes(rows: Sequence[Prediction]) -> list[Prediction]:
    """The changes that save something and that somebody could make, largest saving first: no bounds."""
    return [row for row in rows if row.kind != "rank" and not row.bound and row.saved_ns > 0 and row.how != NOBODY]


def predictions(run: Trace, options: Options, changes: Sequence[Change]) -> Predictions:
    """What each candidate would save in a run, and what ``changes`` would save together. Raises CannotAnswer."""
    if not run.has("kernels"):
        together = job_replay_of(run, options) if REDUCED in run.info.facts else None
        if isinstance(together, JobReplay):
            return _of_devices(run, options, together, _of_ranks(together))
        if REDUCED in run.info.facts and (job := job_of(run, options)) is not None:
            note = f"{run.info.label} is a reduced dataset: its launches are in the recordings, which can be replayed."
            return Predictions(run.info.label, sentences=(job.sentence(),), notes=(note,), job=job)
        raise CannotAnswer(f"{run.info.label} cannot be replayed: it holds no launches. {_FORMATS} can.")
    run.host.select("parent").head(1).collect()  # building the call tree takes the most memory: first, and alone
    replayed = replay_of(run, options)
    accuracy = replayed.accuracy
    together = job_replay_of(run, options) if len(run.info.ranks) > 1 else None
    of_ranks, refused = _of_ranks(together), (together,) if isinstance(together, str) else ()
    if replayed.model is None and of_ranks and isinstance(together, JobReplay):
        return _of_devices(run, options, together, of_ranks)
    if replayed.model is None:
        sentence = f"{run.info.label} cannot be replayed: {accuracy.reason}. {_FORMATS} can."
        return Predictions(run.info.label, sentences=(sentence,))
    if not replayed.predicts:
        sentence = f"Nothing is predicted for {run.info.label}: {accuracy.reason}."
        if isinstance(together, JobReplay):
            alone = _of_devices(run, options, together, of_ranks)
            return replace(alone, accuracy=accuracy, sentences=(sentence, *alone.sentences))
        return Predictions(run.info.label, of_ranks, accuracy, replayed.cycle_ns, (sentence,), refused)
    rows = run.remember("whatif", (options.cycle_anchor,), lambda: _cached_rows(run, options, replayed))
    path = path_of(run, options)
    assert path is not None
    lanes = path_rows.lanes_of(run, replayed, path)
    path_facts = path_rows.facts(path, lanes)
    scenario, notes = None, [ASSUMED, *refused]
    rows = with_bounds_last((*rows, *of_ranks))
    job = job_of(run, options, replayed) if len(run.info.ranks) > 1 else None
    if len(run.info.ranks) > 1:
        notes.append("Ranks are replayed together: a collective ends when the last rank has arrived, plus its transfer."
                     if job is not None else "No collective was matched between ranks: each rank is replayed alone.")
    of_job = [job.sentence(doubt_of(accuracy))] if job is not None else []
    sentences = [*_headline(rows, replayed), *of_job, path_rows.sentence(path, lanes), _accuracy_sentence(accuracy)]
    if changes:
        outcome, unmatched = replayed.with_changes(changes)
        scenario = _scenario(replayed, outcome, changes)
        sentences.insert(0, _scenario_sentence(scenario, replayed))
        notes += [f"{text} matches nothing in {run.info.label}." for text in unmatched]
    return Predictions(
        run.info.label, rows, accuracy, replayed.cycle_ns, tuple(sentences), tuple(notes),
        (path_rows.picture(path_facts),), path_facts, scenario, job,
    )


def _of_ranks(replay: JobReplay | str | None) -> tuple[Prediction, ...]:
    """One row per rank: what its computation, as fast as that of the others, saves per cycle."""
    if not isinstance(replay, JobReplay):
        return ()
    cycle = max(replay.recorded_ns, 1.0)
    rows = [
        Prediction("rank", f"{who.text} as fast as the others", None, None, round(saved), saved / cycle, None,
                   round(saved), 1.0, "even out its work; look at its clocks and its input", "")
        for who, saved in zip(replay.workers, replay.saved_ns, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: -row.saved_ns))


def _of_devices(run: Trace, options: Options, replay: JobReplay, rows: tuple[Prediction, ...]) -> Predictions:
    """The answer for a job whose launches are not recorded, or cannot be replayed: its devices alone, by what its ranks
    wait for each other."""
    job = job_of(run, options)
    accuracy = Accuracy(round(replay.recorded_ns), round(replay.replayed_ns), replay.error, None, 0.0, 0.0,
                        abs(replay.error) <= TRUSTED, None, 1)
    best = rows[0]
    said = [] if not best.saved_ns else [
        f"{best.name[0].upper()}{best.name[1:]} saves {units.duration(best.saved_ns)} of "
        f"{units.duration(replay.recorded_ns)} per cycle ({units.percent(100 * best.share, places=0)})."]
    said += [job.sentence()] if job is not None else []
    path, lanes = path_rows.path_of_ranks(replay)
    facts = path_rows.facts(path, lanes)
    said.append(path_rows.sentence(path, lanes))
    note = "Only what ranks owe each other is replayed, and nothing of the host."
    return Predictions(run.info.label, rows, accuracy, replay.recorded_ns, tuple(said), (note,),
                       (path_rows.picture(facts),), facts, job=job)


def _cached_rows(run: Trace, options: Options, replayed: Replayed) -> tuple[Prediction, ...]:
    """The rows, cached beside the tables: a later query with its own changes then takes half the time."""
    if options.cycle_anchor is not None or run.captures is not None:
        return _rows(run, replayed)
    of_peaks = crc32(settings_text().encode())
    return derived_value(run, f"changes-{of_peaks}", tuple[Prediction, ...], lambda: _rows(run, replayed))


def _rows(run: Trace, replayed: Replayed) -> tuple[Prediction, ...]:
    """The rows, largest saving first. Changes with the same effect are one row; a change that nothing waits for is
    listed only if it takes device time, because other views show that time."""
    _ = replayed.least  # computed first, so that its memory is freed before the host slices are read
    running, rows = deque[Future[Prediction | None]](), list[Prediction | None]()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for one, knobs in _different(replayed, candidates(run, replayed)):
            running.append(pool.submit(_tried, replayed, one, knobs))
            if len(running) > _AT_ONCE:  # no more knobs in memory than are needed
                rows.append(running.popleft().result())
        rows += [last.result() for last in running]
    return tuple(sorted(filter(None, rows), key=lambda row: (
        -row.saved_ns, -(row.device_ns or 0), row.kind, row.name)))


def _different(replayed: Replayed, tried: Sequence[Candidate]) -> Iterator[tuple[Candidate, Knobs]]:
    """The changes with their knobs, without those that come to the same as an earlier one, or to nothing."""
    model, seen = replayed.model, set[tuple[float, ...]]()
    assert model is not None
    for one in tried:
        knobs, _ = replayed.knobs(one.change)
        turned = knobs.changes_from(model.recorded)
        if any(turned) and turned not in seen:
            seen.add(turned)
            yield one, knobs


def _tried(replayed: Replayed, one: Candidate, knobs: Knobs) -> Prediction | None:
    """The row of a change; None if it saves too little to list."""
    model, cycle = replayed.model, max(replayed.cycle_ns, 1.0)
    assert model is not None
    cycles = model.cycles_with(knobs, half_host=True, at_peak=_at_peak(replayed, one.change))
    # the last begin of a cycle may come before the first where nothing of the host is left: that is no time, not less
    saved, with_host, *at_peak = (replayed.cycle_ns - max(0.0, cycle) for cycle in cycles)
    share = saved / cycle if abs(saved) > _NOTHING * cycle else 0.0
    if one.device_ns is None and share < _UNWORTHY:
        return None
    return Prediction(
        one.kind, one.name, None if one.device_ns is None else round(one.device_ns),
        None if one.device_ns is None else one.device_ns / cycle, round(share * cycle), share,
        round(at_peak[0]) if at_peak else None, round(with_host), one.count,
        how(one.change, one.name) if share >= _UNWORTHY else NOBODY, one.change.text,
        *_place(model, knobs.largest(model.recorded)),
    )


def _place(model: Model, largest: tuple[str, int] | None) -> tuple[int | None, int | None]:
    """Start and length (ns) of the activity, host time or call that a change cuts most."""
    if largest is None:
        return None, None
    what, at = largest
    a, c = model.recording.activities, model.recording.calls
    if what == "dur":
        return int(a.start[at]), int(a.end[at] - a.start[at])
    if what == "gap":
        return int(c.start[at] - model.gap[at]), int(model.gap[at])
    return int(c.start[at]), int(c.end[at] - c.start[at])


def _at_peak(replayed: Replayed, change: Change) -> Ints | None:
    """Activity durations with the changed ones at the least time that their work allows; None if that is unknown."""
    if change.kind not in ("kernel", "op", "copy") or (replayed.least == NO_LEAST).all():
        return None
    knobs, unmatched = replayed.knobs(replace(change, factor=None))
    return None if unmatched else knobs.dur


def _scenario(replayed: Replayed, outcome: Outcome, changes: Sequence[Change]) -> dict[str, Any]:
    assert replayed.model is not None
    predicted = replayed.model.cycle_ns(outcome)
    return {
        "changes": [change.text for change in changes], "cycle_ns": round(replayed.cycle_ns),
        "predicted_ns": round(predicted), "saved_ns": round(replayed.cycle_ns) - round(predicted),
    }


def time_base(replayed: Replayed) -> str:
    """The unit that times are given per."""
    return "cycle" if replayed.accuracy.cycles else "recording"


def _scenario_sentence(scenario: dict[str, Any], replayed: Replayed) -> str:
    before, after, saved = scenario["cycle_ns"], scenario["predicted_ns"], scenario["saved_ns"]
    what = f"With {' and '.join(scenario['changes'])} the {time_base(replayed)} takes"
    if not saved:
        return f"{what} as long as without: {units.duration(before)}."
    faster = f", {before / after:.2f}× as fast" if after > 0 and saved > 0 else ""
    words = f"{_won(abs(saved), replayed)} {'less' if saved >= 0 else 'more'}{faster}"
    return f"{what} {_won(after, replayed)} instead of {units.duration(before)}: {words}."


def doubt_of(accuracy: Accuracy) -> float:
    """The share by which a replayed time may be off: the larger of the error and the cross error."""
    return max(abs(accuracy.error or 0.0), accuracy.cross_error or 0.0)


def _won(ns: float, replayed: Replayed) -> str:
    """The time in words, rounded to the replay's error."""
    return units.within(ns, abs(ns) * doubt_of(replayed.accuracy))


def _headline(rows: Sequence[Prediction], replayed: Replayed) -> list[str]:
    """The best single change and its device time; whether the host limits next; a large kernel that saves little."""
    single = single_changes(rows)
    if not single:
        return [f"No single change makes the {time_base(replayed)} shorter."]
    best, unit, cycle = single[0], time_base(replayed), replayed.cycle_ns
    part = units.percent(-100 * best.share, signed=True, places=0)
    takes = "" if best.device_ns is None or best.saved_ns > _NEARLY * best.device_ns else (
        f" Its device time is {units.duration(best.device_ns)}, in part beside other work.")
    after = _won(cycle - best.saved_ns, replayed)
    each = units.each(unit) if unit == "cycle" else f"the {unit}"
    lines = [f"Without {_named(best)} {each} takes {after} instead of {units.duration(cycle)} ({part}"
             f"{_between(replayed)}).{takes}"]
    apart = best.saved_ns + replayed.saved_ns(_HALF_HOST)
    if best.saved_with_host_ns - apart > _TOGETHER * cycle:
        lines.append(f"With the host twice as fast as well it takes {_won(cycle - best.saved_with_host_ns, replayed)}: "
                     f"{_won(best.saved_with_host_ns - apart, replayed)} less than the two savings promise apart.")
    hidden = [row for row in rows if row.kind == "kernel" and row.name not in ALL.values() and row.takes is not None
              and row.takes >= _LARGE and row.share <= _SMALL * row.takes]
    if hidden:
        most = max(hidden, key=lambda row: row.takes or 0.0)
        lines.append(
            f"{_named(most)} runs {units.duration(most.device_ns or 0)} of {each}, but without it {each} "
            f"is only {units.duration(max(most.saved_ns, 0))} shorter: something else sets the pace while it runs."
        )
    bound = max((row for row in rows if row.bound), key=lambda row: row.saved_ns, default=None)
    if bound is not None and _APART * best.saved_ns < bound.saved_ns < cycle:
        lines.append(f"A bound, not one change: without {bound.name} it takes "
                     f"{_won(cycle - bound.saved_ns, replayed)}.")
    return lines


def _between(replayed: Replayed) -> str:
    """A note that the cycle time includes the time between cycles, where it exceeds the cycle time shown elsewhere, and
    of a recording where its replay begins."""
    model = replayed.model
    if not replayed.accuracy.cycles:
        return ", counted from its first launch"
    mean = model.recording.cycles["dur_ns"].mean() if model is not None else None
    apart = isinstance(mean, float) and replayed.cycle_ns > _APART * mean
    return ", the time between cycles included" if apart else ""


_NOUN = {"sync": "waiting in ", "host": "the host code of ", "op": ""}


def _named(row: Prediction) -> str:
    if row.kind == "idle":
        return "waits for the DataLoader" if row.name == "input" else f"idle time in {LABELS[row.name]}"
    return f"{_NOUN.get(row.kind, '')}{short_name(row.name)}"


def _accuracy_sentence(accuracy: Accuracy) -> str:
    assert accuracy.recorded_ns is not None and accuracy.replayed_ns is not None and accuracy.error is not None
    error = units.percent(100 * accuracy.error, signed=True, places=2)
    cross = "" if accuracy.cross_error is None else (
        f"; with the next cycle's durations {units.percent(100 * accuracy.cross_error, places=2)}")
    lacks = [f"{units.percent(100 * part, places=0)} {what}" for part, what in (
        (accuracy.kept, "kept as recorded"), (accuracy.unexplained, "unexplained")) if (part or 0.0) >= 0.005 and part]
    verdict = "Trusted" if accuracy.trusted else f"Not trusted (over {TRUSTED:.0%}, under {PREDICTS:.0%})"
    return f"{verdict}: the replay of the unchanged run is {error} off{cross}, {', '.join(lacks) or 'all explained'}."


def prediction_sentence(sides: Sequence[Predictions]) -> str:
    """The cycle time predicted for A with the changes, compared with B's; '' where there is nothing to compare."""
    a, b = sides
    if a.scenario is None or b.cycle_ns is None:
        return ""
    ns = a.scenario["predicted_ns"]
    off = b.cycle_ns / max(ns, 1) - 1
    predicted = units.within(ns, ns * doubt_of(a.accuracy or Accuracy()))
    return (f"Predicted for A with {' and '.join(a.scenario['changes'])}: {predicted}; B took "
            f"{units.duration(b.cycle_ns)} ({units.percent(100 * off, signed=True)}).")


def why(row: dict[str, Any], run: Trace, options: Options) -> list[Section]:
    """The detail sections of a row: the critical path as recorded and with the change, and how to make the change."""
    replayed = replay_of(run, options)
    if replayed.model is None or not row.get("change"):
        return []
    change = parse(str(row["change"]))
    outcome, _ = replayed.with_changes((change,))
    before = critical_path(replayed.model, replayed.host, replayed.unchanged)
    after = critical_path(replayed.model, replayed.host, outcome)
    old, new = before.by_kind(), after.by_kind()
    cycle = replayed.model.cycle_ns(outcome)
    rows = [(time_base(replayed), units.duration(replayed.cycle_ns), _won(cycle, replayed))]
    rows += [(MEANINGS[kind], units.duration(old.get(kind, 0)), _won(new.get(kind, 0), replayed))
             for kind in sorted({*old, *new}, key=lambda kind: -old.get(kind, 0))]
    title = f"Critical path of a {time_base(replayed)}"
    sections = [Section(title, tuple(rows), ("", "as recorded", "with the change"))]
    sections.append(Section("Then the longest on it", tuple(
        (f"{MEANINGS[kind]}: {short_name(name)}", _won(ns, replayed)) for kind, name, ns in after.parts()[:6]
    )))
    if result := how(change, str(row["name"])):
        sections.append(Section("How it is done", (("", result),)))
    return sections
