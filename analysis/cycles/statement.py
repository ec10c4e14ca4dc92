"""What is said of the cycles of a run: the facts that every view reports, and the sentences of its notes.

The facts are cached for big recordings, so that cycles are detected only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

import polars as pl

from ...loaders.trace import Trace
from ..contract.options import SIDES, Options, Side
from ..core import units
from ..core.derived import LEAST_BYTES, derived_value, stored_value
from ..core.run_labels import device_labels

if TYPE_CHECKING:
    from .detection import Cycles

_KEPT = "run-stated"
_MOST_AHEAD = 1_000_000_000
"""Up to this many bytes of recordings cycles are found in parallel with an answer: at 2 GB that takes 40 MB more."""


def cycle_facts(runs: Sequence[Trace], options: Options) -> dict[str, Any]:
    """The facts ``cycles``, ``step`` and ``base`` of one run, or of each run by its side: the same in every view, and
    for every cycle a view is limited to. Whatever every answer states about a run is added here."""
    statements = [_statement(run, options, side) for run, side in zip(runs, SIDES, strict=False)]
    if len(statements) == 1:
        return statements[0]
    return dict(zip(SIDES, statements, strict=True))


def find_ahead(runs: Sequence[Trace], options: Options) -> Thread | None:
    """Start finding the runs' cycles in a thread, while another core makes the answer that will report them. Of 1.9 s
    for the kernels of a trace of 500 MB as JSON this saves 0.2 s; it is not done for small traces, nor for very large
    ones, where memory matters more. An error is raised again where the cycles are requested."""
    if not LEAST_BYTES <= sum(run.info.bytes or 0 for run in runs) <= _MOST_AHEAD:
        return None
    if options == Options() and all(stored_value(run, _KEPT, dict) is not None for run in runs):
        return None
    from .detection import find_cycles

    def find() -> None:
        with suppress(Exception):
            for run in runs:
                find_cycles(run, options)

    thread = Thread(target=find, daemon=True)
    thread.start()
    return thread


def _statement(run: Trace, options: Options, side: Side) -> dict[str, Any]:
    def compute() -> dict[str, Any]:
        from .base import base_facts
        from .detection import view_cycles
        from .outside import outside
        from .scope import scoped_any_cycle
        from .step_facts import step_facts

        scoped = scoped_any_cycle(run, options, side)
        cycles = view_cycles(scoped, options)
        step = step_facts(cycles)
        return {"cycles": _stated(cycles), "step": step, "base": base_facts(scoped, step),
                "outside": outside(scoped, cycles)}

    return derived_value(run, _KEPT, dict, compute) if options == Options() else compute()


def _stated(cycles: Cycles) -> dict[str, Any]:
    """The source of a run's cycles, their anchor, kinds, number, number recorded whole, mean and median duration.
    ``kind`` names all kinds; durations are null without cycles. ``guessed``: the recording does not mark them;
    ``ignored``: why findings, headlines and gauges do not use them, null where they do."""
    spans = cycles.frame["dur_ns"].drop_nulls()
    kinds = cycles.frame["kind"].cast(pl.String).drop_nulls().unique().sort().to_list()
    return {
        "source": cycles.source, "anchor": cycles.anchor, "kind": ", ".join(kinds) or None,
        "count": len(spans), "whole": int(cycles.frame["complete"].sum()), "mean_ns": spans.mean(),
        "median_ns": spans.median(), "guessed": cycles.guessed, "ignored": cycles.ignored,
    }


def left_out(cycles: Cycles) -> str | None:
    """How many cycles are missing from device figures, as a sentence; None where all were recorded whole."""
    count, lacking = cycles.frame.height, int((~cycles.frame["complete"]).sum())
    if not lacking:
        return None
    were, are = ("was", "is") if lacking == 1 else ("were", "are")
    return f"{lacking} of {count} {cycles.noun}s {were} not recorded whole and {are} left out of device figures."


def cycle_notes(cycles: Cycles, part: bool = False) -> tuple[str, ...]:
    """What the user has to know of the cycles: the notes of their source, whether they are a guess, which were not
    recorded whole, what is unknown of them and which activities belong to none. ``part``: they are not all cycles."""
    every = (*cycles.notes, cycles.why_guessed, left_out(cycles), *unknown(cycles),
             None if part else homeless(cycles))
    return tuple(note for note in every if note)


NAMED = 5  # Cycles that a sentence names by number.


def unknown(cycles: Cycles) -> tuple[str, ...]:
    """Which cycles launched nothing on the device of their rank, and what was not recorded of the first ones."""
    from .step_times import main_devices  # late: facts that are cached need none of it

    times, word, sentences = cycles.times, cycles.noun, list[str]()
    if cycles.ignored is not None or cycles.frame.is_empty():
        return ()
    if times.devices.is_empty():
        lost = cycles.before or cycles.elsewhere or cycles.earlier
        return (f"No {word} launched anything on a device.",) if lost else ()
    numbers = dict(cycles.frame.select("row", "cycle").rows())
    without = cycles.frame.join(times.devices.select("row").unique(), on="row", how="anti")
    if without.height:
        main = device_labels([(rank, device) for rank, device in main_devices(times.devices).rows()])
        where = {label for label in main.values() if label is not None}
        on = where.pop() if len(where) == 1 else "its device" if without.height == 1 else "their devices"
        sentences.append(f"{_listed(word, without['cycle'].to_list(), cycles.frame.height)} launched nothing on {on}.")
    late = [numbers[row] for row in times.unrecorded if row in numbers]
    if late and not cycles.guessed:
        begun = "its mark" if len(late) == 1 else "their marks"
        sentences.append(f"{_listed(word, late)} began after {begun}: the device was at work that was not recorded.")
    hidden = [numbers[row] for row in times.covered if row in numbers]
    if hidden:
        sentences.append(f"{_listed(word, hidden)} ran under work launched before the first {word}: "
                         f"{'its' if len(hidden) == 1 else 'their'} times are not known.")
    early = [numbers[row] for row in times.displaced if row in numbers]
    if early:
        begun = "its mark" if len(early) == 1 else "their marks"
        whose = _listed(word, early, cycles.frame.height).lower()
        sentences.append(
            f"The work of {whose} ended before {begun} began: the clocks of host and device disagree.")
    return tuple(sentences)


def _listed(word: str, numbers: list[int], of: int = 0) -> str:
    """'Step 3', 'Steps 3 and 5', '12 of 40 steps'."""
    some = sorted(set(numbers))
    if len(some) > NAMED:
        return f"{len(numbers)} of {of} {word}s" if of else f"{len(numbers)} {word}s"
    *first, last = map(str, some)
    joined = f"{', '.join(first)} and {last}" if first else last
    return f"{word.capitalize()}{'s' if len(some) > 1 else ''} {joined}"


def homeless(cycles: Cycles) -> str | None:
    """How many device activities belong to no cycle, as sentences; None where all belong to one."""
    sentences = []
    if cycles.earlier:
        were, they = ("activity was", "it belongs") if cycles.earlier == 1 else ("activities were", "they belong")
        sentences.append(
            f"{units.count(cycles.earlier)} {were} launched before the recording; {they} to no {cycles.noun}.")
    if cycles.before or cycles.elsewhere:
        held = "" if cycles.held is None else f": {units.percent(100 * (1 - cycles.held))} of the device time"
        some = units.counted(cycles.before + cycles.elsewhere, "activity lies", "activities lie")
        sentences.append(f"{some} outside the {cycles.noun}s{held}.")
    return " ".join(sentences) or None
