"""The cycle times of two runs, judged: no run is called faster or slower where their cycles do different work."""

from __future__ import annotations

from ....loaders.trace import Trace
from ...contract.options import Options
from ..prepare.samples import Matched
from .comparability import Comparability, comparability
from .cycle_time import CycleTime, cycle_time


def judged(
    runs: tuple[Trace, Trace], matched: list[Matched], options: Options
) -> tuple[CycleTime, Comparability]:
    """How long a cycle takes in both runs, and whether they can be compared; remembered for the next view."""
    def judge() -> tuple[list[Matched], tuple[CycleTime, Comparability]]:
        comparable, cycles = comparability(runs, matched, options), cycle_time(matched)
        return matched, (cycles if comparable.comparable else cycles.of_other_work, comparable)

    return runs[0].remember("judged", (runs[1], id(matched), options), judge, most=1)[1]  # which keeps the id its own
