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
from .by_cycle import judged
from .cycle_time import CycleTime, compare_lengths
from .finished import recorded_cycles
from .prepare.prepared import Prepared, prepared
from .prepare.samples import work_of
from .same_work import REPORT, SameWork
from .sentences import cycle_sentence, line, unjudged

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
        return Headline("Cycle", cycle_sentence(cycles, REPORT), cycles) if cycles else None
    ready = prepared_pair(runs, options)
    if ready is not None:
        cycles = judged(runs, ready, options).cycles
        return Headline("Cycle", cycle_sentence(cycles, ready.same), cycles)
    if not any(run.has("kernels") or run.has("breakdown") for run in runs):
        lengths = [counted_cycles(run, options).frame["dur_ns"].drop_nulls().to_numpy() / 1e6 for run in runs]
        if all(len(side) for side in lengths):
            cycles = compare_lengths(lengths[0], lengths[1]).unjudged
            return Headline("Cycle", cycle_sentence(cycles, NOTHING_SHOWN), cycles)
    if not all(run.has("kernels") for run in runs):
        from .aggregates import breakdowns, step_sentence  # only runs with nothing but sums

        steps = breakdowns(runs, options)
        text = step_sentence(*steps) if steps else None
        return Headline("Step", text) if text else None
    from .by_launch import judged_launches, launches_of, step_time, under_the_same_devices  # runs without cycles only

    runs, _ = under_the_same_devices(runs)
    _, same, _ = judged_launches(runs, (launches_of(runs[0].kernels), launches_of(runs[1].kernels)), options)
    time = step_time(runs, options, same)
    if time is not None:
        return Headline("Cycle", cycle_sentence(time, same), time)
    return None if same.proved else Headline("Work", unjudged(same))


NOTHING_SHOWN = SameWork(
    "unknown", None, "cycle", (), "not judged: nothing shows that both do the same work: no launches")


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
