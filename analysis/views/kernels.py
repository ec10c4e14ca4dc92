"""Kernels: which device activities take the time, how their latencies spread, and what holds them back.

One row per (name, kind, device). Copies and sets are activities too; a ``sync`` only waits and is not one. ``share``
is of the summed activity time, which counts overlapping streams twice; it is not the share of the wall time.
"""

from __future__ import annotations

from functools import partial

from ...loaders.trace import Trace
from ..contract.options import Options, Side
from ..contract.view import Answer, Runs, View
from ..cycles.paired import OneRun, paired
from ..details.glance.kernels import glance
from ..details.row_details import kernel_sections
from ..kernels.by_name import coverage, facts_of, notes_of, sentence, several_ranks, table
from ..kernels.columns import COLUMNS, PAIR_COLUMNS


def build(runs: Runs, options: Options) -> Answer:
    """Kernels of one run by total time, or of two side by side by the size of the change."""
    if len(runs) == 1:
        return _one(runs[0], options, "a", by_rank=True).answer()
    jobs = all(several_ranks(run) for run in runs)  # a run of one rank is held against all of a job's
    return paired(runs, options, COLUMNS, partial(_one, by_rank=jobs))


def _one(run: Trace, options: Options, side: Side, by_rank: bool) -> OneRun:
    frame, kernels = table(run, options, side, by_rank)
    facts = facts_of(frame) | {"coverage": coverage(run, options, frame, side)}
    return OneRun(frame, facts, notes=notes_of(run, kernels), sums=(sentence(run, facts),))


VIEW = View(
    "kernels", COLUMNS, build, pair_columns=PAIR_COLUMNS, scopes_itself=True, noun="kernels", details=kernel_sections,
    glance=glance,
)
