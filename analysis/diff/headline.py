"""The headline of two runs: the one sentence that says whether a cycle takes longer, made here for every view.

The overview, cycles and diff of a pair all show it, so that no view says "+7.8%" where another says "unchanged". It
rests on the same samples as the rows of the diff.
"""

from __future__ import annotations

from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.options import Options
from ..cycles.detection import counted_cycles
from ..cycles.whole import shared_kinds
from .finished import recorded_cycles
from .prepare.prepared import Prepared, prepared
from .prepare.samples import work_of
from .present.sentences import cycle_sentence, line
from .verdict.comparability import judged
from .verdict.cycle_time import CycleTime, compare_lengths
from .without_cycles import breakdowns, step_sentence

LEAST_TO_COMPARE = 2  # Cycles each run must have; with fewer, launches are the samples.


class Headline(Struct, frozen=True):
    """``label`` is 'Cycle', 'Work' or 'Step', ``text`` the sentence, ``time`` its figures (None without samples)."""

    label: str
    text: str
    time: CycleTime | None = None

    @property
    def line(self) -> str:
        """The sentence as the diff shows it."""
        return line(self.label, self.text)

    @property
    def with_subject(self) -> str:
        """The sentence with its subject, for use without a label in front."""
        about = "Cycle time" if self.label == "Cycle" else self.label
        return f"{about}{':' if self.text.startswith('cannot') else ''} {self.text}"

    @property
    def moved(self) -> bool:
        """Whether it says that a cycle takes longer or shorter."""
        return self.time is not None and self.time.verdict in ("slower", "faster")


def pair_headline(runs: tuple[Trace, Trace], options: Options) -> Headline | None:
    """The headline: does a cycle of B take longer than one of A? None without cycles and without a unit of work."""
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
    """The two runs matched for comparison by cycle, cached for the next view; None if they are compared per
    recording, or one has too few cycles. Raises CannotAnswer for an unknown pid."""
    def find() -> Prepared | None:
        if not shared_kinds(runs, options):
            return None
        works = work_of(runs[0], options), work_of(runs[1], options)
        few = min(work.rows["cycle"].n_unique() for work in works) < LEAST_TO_COMPARE
        # launches without timestamps repeat in patterns, but no cycle time can be taken from them
        times = [run.kernels.select("start_ns").drop_nulls().head(1) for run in runs if run.has("kernels")]
        timed = all(moments.collect().height for moments in times)
        return prepared(*works, options) if timed and not few else None

    return runs[0].remember("pair", (runs[1], options), find, most=1)
