"""The overview of a run with timestamps: each instant of its cycles' windows goes to one category.

Cycle times are the detected ones; device figures cover the windows of the cycles that were recorded whole.

An instant belongs to the first active category in the order of ``CATEGORIES``, else to Other. A category's time is
therefore the growth of the union of intervals when the category is added: Kernel hides all later categories, and
Communication is the part not hidden by computation, copies or sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import NO_DEVICE, REDUCED, PartOf, Trace
from ..communication.devices import Communication, communication
from ..contract.options import Options
from ..core import units
from ..core.callers import missing_notes
from ..core.derived import derived_value
from ..core.intervals import EMPTY, Intervals, Ints, union
from ..core.run_labels import Place, device_labels
from ..cycles.detection import Cycles, counted_cycles, view_cycles
from ..cycles.statement import cycle_notes
from ..cycles.step_facts import step_by_rank
from ..cycles.whole import steps_of, steps_of_cycle
from ..findings.evidence.measured import measured
from ..findings.evidence.outside import recorded_span
from ..idle.attribution import Idle, idle_of
from ..idle.facts import busy_share, headline_devices, in_recording_of, in_steps_of
from ..kernels.sources import ACTIVITIES
from .activities import Activities, Windows, WindowSums, activities_of, gauges, of_cycles, of_recording
from .host_times import HostTimes, host_times
from .overview import CATEGORIES, Basis, Overview, kernels, median_length, overview, span


def breakdown(windows: Windows, activities: Activities | None, host: HostTimes) -> dict[str, Ints]:
    """Category → time in each window, ns; only categories that the recording can show."""
    covered = EMPTY
    so_far = np.zeros(len(windows), dtype=np.int64)
    times: dict[str, Ints] = {}
    for category, moments in _moments(activities, host).items():
        covered = covered | moments
        now = covered.within(windows.starts, windows.ends)
        times[category], so_far = now - so_far, now
    times["Other"] = (windows.ends - windows.starts) - so_far
    return times


def _moments(activities: Activities | None, host: HostTimes) -> dict[str, Intervals]:
    moments: dict[str, Intervals] = {}
    if activities is not None:
        moments["Kernel"] = activities.union(activities.kernels & ~activities.communicates)
        moments["Memcpy"] = activities.union(activities.of("memcpy"))
        moments["Memset"] = activities.union(activities.of("memset"))
        moments["Communication"] = activities.union(activities.kernels & activities.communicates)
    calls = host.calls.timed
    if len(calls.starts):
        moments["Runtime"] = union(calls.starts, calls.starts + calls.dur)
    if host.any:
        moments["DataLoader"] = host.loader
        moments["CPU Exec"] = host.op
    return moments


LONGER = 0.01  # Windows longer than their cycles by more than this share: said in a note...


class Figures(Struct, frozen=True):
    """Figures of one rank, summed over its windows."""

    times: dict[str, int]
    devices: list[dict[str, Any]]
    communication: tuple[Communication, ...] = ()
    early: int = 0
    launched: int = 0


class RankFigures(Struct, frozen=True):
    """The windows of one rank and its figures over them."""

    windows: Windows | WindowSums
    figures: Figures
    rank: int | None = None


def timed(run: Trace, limited: Trace, options: Options, cycle: int | None, whole: bool = False) -> Overview | None:
    """The overview of the run, or of its cycle number ``cycle``, to which ``limited`` is restricted; None without
    timestamps. ``whole``: the cycles are ignored."""
    if cycle is None:
        cycles = counted_cycles(run, options)
    else:  # a cycle selected by number is shown even if guessed
        cycles = view_cycles(run, options)
        cycles = replace(cycles, frame=cycles.frame.filter(pl.col("cycle") == cycle))
    if whole:
        cycles = replace(cycles, frame=cycles.frame.clear(), ignored="", notes=(_NO_OTHERS,))
    usual = not whole and cycle is None and options.warm_up and options.cycle_anchor is None
    parts = [part for _, part in rank_figures(run, cycles, usual)]
    if not parts and not cycles.frame.is_empty() and cycle is None:  # nothing is known of any step
        cycles = replace(cycles, frame=cycles.frame.clear(), ignored="", notes=(" ".join(cycle_notes(cycles)),))
        parts = [part for _, part in rank_figures(run, cycles, False)]
    return overview_from_ranks(run, limited, options, cycles, parts, cycle) if parts else None


def rank_figures(run: Trace, cycles: Cycles, usual: bool) -> list[tuple[int | None, RankFigures]]:
    """The figures of each rank that has timestamps; rank None stands for the run itself. ``usual``: the cycles are
    those of the default options, so the figures are cached."""
    return [(rank, replace(part, rank=rank)) for rank, own in _by_rank(run)
            if (part := _part(own, cycles, rank, usual)) is not None]


def _by_rank(run: Trace) -> Iterator[tuple[int | None, Trace]]:
    """The run itself, or each rank of a recording with several."""
    if len(run.info.ranks) < 2:
        yield None, run
        return
    for rank in run.info.ranks:
        matching = pl.col("rank") == rank
        yield rank, replace(run, part_of=run.part_of or PartOf(run)).with_tables(
            kernels=run.kernels.filter(matching), host=run.host.filter(matching))


def _part(run: Trace, cycles: Cycles, rank: int | None, usual: bool) -> RankFigures | None:
    if not run.has("host") and activities_of(run) is None:
        return None
    frame = cycles.frame
    if frame["start_ns"].null_count():
        return None
    if frame.is_empty():
        windows = of_recording(run, activities_of(run))
    else:
        matching = frame if rank is None else frame.filter(pl.col("rank").is_null() | (pl.col("rank") == rank))
        windows = of_cycles(matching, cycles.source == "recorded")
    if windows is None or not len(windows):
        return None
    if usual:
        return RankFigures(windows, derived_value(run, "figures", Figures, lambda: _figures(run, windows)))
    return RankFigures(windows, _figures(run, windows))


def _figures(run: Trace, windows: Windows) -> Figures:
    host = host_times(run)
    activities = activities_of(run, host.requesting)
    times = {name: int(each.sum()) for name, each in breakdown(windows, activities, host).items()}
    figures = Figures(times, [])
    if activities is None:
        return figures
    early, launched = _early(run)
    return replace(
        figures, devices=gauges(activities, windows.time, run.info.devices), early=early, launched=launched,
        communication=tuple(communication(run, union(windows.starts, windows.ends))),
    )


def _early(run: Trace) -> tuple[int, int]:
    """Two counts: activities that began before their launch call, and activities with a recorded launch call."""
    rows = run.kernels.select("start_ns", "kind").collect(engine="streaming")
    launched = pl.col("kind").is_in(ACTIVITIES) & pl.col("start_ns").is_not_null() & pl.col("launch_ns").is_not_null()
    early = launched & (pl.col("start_ns") < pl.col("launch_ns"))
    counted = rows.with_columns(run.account().activities["launch_ns"]).select(early.sum(), all=launched.sum())
    first, of = counted.row(0)
    return int(first), int(of)


def overview_from_ranks(
    run: Trace, limited: Trace, options: Options, cycles: Cycles, parts: list[RankFigures], cycle: int | None
) -> Overview:
    """The overview of a run from the figures of its ranks; its sentences describe the steps."""
    if REDUCED in run.info.facts:
        from ..idle.reduced import reduced_idle

        steps, idle = None, reduced_idle(run)
    else:
        steps = steps_of(cycles) if cycle is None else steps_of_cycle(cycles)
        idle = idle_of(run, limited, steps) if limited.has("kernels") else None
    count, figures = sum(len(part.windows) for part in parts), [part.figures for part in parts]
    names = [name for name in CATEGORIES if any(name in one.times for one in figures)]
    times = {name: sum(one.times.get(name, 0) for one in figures) / count for name in names}
    window_ns = sum(part.windows.length for part in parts) / count
    told_of = [(part.rank, device["device"]) for part in parts for device in part.figures.devices]
    labels = device_labels(told_of)
    devices = [
        device | {"device": labels[part.rank, device["device"]], "busy": _busy(idle, part.rank, device)}
        for part in parts for device in part.figures.devices
    ]
    whole_run = parts[0].windows.whole_run
    profiled = run.has("profile") and REDUCED not in run.info.facts
    word = "recording" if whole_run else "cycle" if profiled else cycles.noun
    evidence = replace(
        kernels(limited, options, steps), steps=count, step_ns=window_ns, times=times, devices=devices, step_word=word,
        communication=tuple(
            replace(_per_step(one, len(part.windows)), device=labels.get((part.rank, one.device), one.device))
            for part in parts for one in part.figures.communication),
        steps_each=len(parts[0].windows) if steps is None else max(1, int(steps.mask.sum()) // len(parts)),
        measured=measured(run, limited, options, steps, cycle),
        busy=[] if idle is None else [
            {"device": labels.get((one.rank, one.device), one.device), "busy": busy_share(one), "of_ns": None}
            for one in headline_devices(idle)],
        in_all=_in_all(run, idle, labels) if cycle is None and limited is run else [],
        in_steps=steps is not None and cycle is None,
        base_ns=None if whole_run or cycle is not None or not (by_rank := step_by_rank(cycles)) else (
            sum(by_rank.values()) / len(by_rank)),
        early=sum(one.early for one in figures), launched=sum(one.launched for one in figures),
    )
    if whole_run:
        basis, longer = Basis(count, window_ns, None, "whole"), 0.0
        each = f" on each of {units.count(len(parts))} ranks, mean" if len(parts) > 1 else " of"
        headline = f"one recording{each} {units.duration(window_ns)}"
    else:
        step_ns = float(cycles.frame["dur_ns"].to_numpy().mean())
        lacking = int((~cycles.frame["complete"]).sum())
        basis = Basis(count, window_ns, step_ns, cycles.source, lacking, cycles.held if cycle is None else None,
                      median_length(cycles))
        headline = span(cycles, word)
        of_whole = cycles.frame.filter("complete")["dur_ns"].mean() or step_ns
        longer = window_ns / float(of_whole) - 1 if of_whole else 0.0  # type: ignore[arg-type]
    notes = (*_notes(cycles, parts, basis, word, cycle, longer), *missing_notes(run))
    if any(NO_DEVICE in warning for warning in run.info.warnings):
        notes = tuple(note for note in notes if note != _UNSEEN)  # exports print the warning, too
    result = overview(run, times, word, headline, evidence, basis, notes)
    whole = {"in_steps": in_steps_of(idle, steps), "in_recording": in_recording_of(idle, steps)}
    return replace(result, facts=result.facts | whole)


def _busy(idle: Idle | None, rank: int | None, device: dict[str, object]) -> float | None:
    """Busy share of a device between its first and last activity of the whole recording."""
    if idle is None:
        return None
    matching = [one for one in idle.devices if one.device == device["device"]]
    own = [one for one in matching if one.rank == rank] if len(matching) > 1 else matching
    return busy_share(own[0]) if own else None


def _in_all(run: Trace, idle: Idle | None, labels: Mapping[Place, str | None]) -> list[dict[str, Any]]:
    """Busy share of each device over the whole recording, from the first to the last host slice or activity."""
    span = recorded_span(run)
    if idle is None or REDUCED in run.info.facts or span is None or span[1] <= span[0]:
        return []
    whole = span[1] - span[0]
    return [{"device": labels.get((one.rank, one.device), one.device), "busy": one.busy_ns / whole, "of_ns": whole}
            for one in idle.devices]


def _per_step(one: Communication, steps: int) -> Communication:
    return replace(one, comm_ns=round(one.comm_ns / steps), exposed_ns=round(one.exposed_ns / steps))


def _notes(
    cycles: Cycles, parts: list[RankFigures], basis: Basis, word: str, cycle: int | None, longer: float
) -> tuple[str, ...]:
    """Notes on the cycles behind the figures, windows longer than their cycles, missing device records, several devices
    and ranks."""
    count = max(len(part.figures.devices) for part in parts)
    several = (f"Kernel, copy and communication time count while any of the {units.count(count)} devices is busy.",
               ) if count > 1 else ()
    if parts[0].windows.whole_run:
        first = "No steps are marked or found: the whole recording counts as one."
        if cycles.ignored is not None:
            first = f"{cycles.notes[-1]} The whole recording counts as one."
        active = any(part.figures.devices for part in parts) or _active(parts)
        return (first, *several) if active else (first, _UNSEEN)
    notes = [*cycle_notes(cycles, part=cycle is not None)]
    if basis.window_ns and longer > LONGER:
        notes.append(
            f"Device figures are over windows of {units.duration(basis.window_ns)}: from the start of each {word} to "
            "the end of the last activity launched in it."
        )
    if not _active(parts):
        notes.append(_UNSEEN)
    if len(parts) > 1:
        notes.append(f"Means over the {word}s of all {units.count(len(parts))} ranks.")
    return (*notes, *several)


_NO_OTHERS = "The other run has no cycles to compare these with."
_UNSEEN = f"{NO_DEVICE[0].upper()}{NO_DEVICE[1:]}: what devices did is not known."


def _active(parts: list[RankFigures]) -> bool:
    return any("Kernel" in part.figures.times for part in parts)
