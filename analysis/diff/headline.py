"""The headline of two runs: the one sentence that says whether a cycle takes longer, made here for every view.

The overview, the cycles and the diff of a pair all show it, so that no view says "+7.8%" where another says
"unchanged". It is about the same samples as the rows of the diff.
"""

from __future__ import annotations

from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.options import Options
from ..cycles.account import counted_cycles
from .aggregates import breakdowns, step_sentence
from .finished import recorded_cycles
from .prepare.prepared import Prepared, prepared
from .prepare.samples import Work, work_of
from .present.sentences import cycle_sentence, line
from .verdict.cycle_time import CycleTime, compare_lengths
from .verdict.judged import judged

LEAST_TO_COMPARE = 2
"""Cycles each run must have; with fewer, launches are the samples."""


class Headline(Struct, frozen=True):
    """``label`` is 'Cycle', 'Work' or 'Step', ``text`` the sentence; ``time`` the figures, where there are samples."""

    label: str
    text: str
    time: CycleTime | None = None

    @property
    def line(self) -> str:
        """The sentence as the diff shows it."""
        return line(self.label, self.text)

    @property
    def spoken(self) -> str:
        """The sentence with what it is about, for where no label stands before it."""
        about = "Cycle time" if self.label == "Cycle" else self.label
        return f"{about}{':' if self.text.startswith('cannot') else ''} {self.text}"

    @property
    def moved(self) -> bool:
        """Whether it says that a cycle takes longer or shorter."""
        return self.time is not None and self.time.verdict in ("slower", "faster")


def pair_headline(runs: tuple[Trace, Trace], options: Options) -> Headline | None:
    """Whether a cycle of B takes longer than one of A; None where neither cycles nor a unit of work are known."""
    if runs[0].has("comparison"):
        cycles = recorded_cycles(runs)
        return Headline("Cycle", cycle_sentence(cycles), cycles) if cycles else None
    ready = prepared_pair(runs, options)
    if ready is not None:
        cycles, _ = judged(runs, ready.matched, options)
        return Headline("Cycle", cycle_sentence(cycles), cycles)
    if not any(run.has("kernels") or run.has("breakdown") for run in runs):
        lengths = [counted_cycles(run, options).frame["dur_ns"].drop_nulls().to_numpy() / 1e6 for run in runs]
        if all(len(side) for side in lengths):
            cycles = compare_lengths(lengths[0], lengths[1])
            return Headline("Cycle", cycle_sentence(cycles), cycles)
    if not all(run.has("kernels") for run in runs):
        steps = breakdowns(runs, options)
        text = step_sentence(*steps) if steps else None
        return Headline("Step", text) if text else None
    from .unit_of_work import work_sentence
    from .without_cycles import judged_work, under_the_same_devices

    work, _ = judged_work(under_the_same_devices(runs)[0], options)
    if work is None:
        return None
    return Headline("Cycle" if work.unit is None else "Work", work_sentence(work), work.time)


def prepared_pair(runs: tuple[Trace, Trace], options: Options) -> Prepared | None:
    """The runs matched cycle by cycle, kept for the next view; None where one has too few cycles to be compared.

    Raises CannotAnswer for a process that is not there.
    """
    return runs[0].remember("pair", (runs[1], options), lambda: _prepared_pair(runs, options), most=1)


def _prepared_pair(runs: tuple[Trace, Trace], options: Options) -> Prepared | None:
    works = work_of(runs[0], options), work_of(runs[1], options)
    few = min(_cycles(work) for work in works) < LEAST_TO_COMPARE or not all(_timed(run) for run in runs)
    return None if few else prepared(*works, options)


def _cycles(work: Work) -> int:
    return 0 if work.rows.is_empty() else int(work.rows["cycle"].n_unique())


def _timed(run: Trace) -> bool:
    """Whether cycles are of time: launches without timestamps have patterns, but no cycle anybody waits for."""
    if not run.has("kernels"):
        return True
    return not run.kernels.select("start_ns").drop_nulls().head(1).collect().is_empty()
