"""Kernels: which device activities take the time, how their latencies spread, and what holds them back.

One row per (name, kind, device). Copies and sets are activities too; a ``sync`` only waits and is not one. ``share``
is of the summed activity time, which counts overlapping streams twice; it is not the share of the wall time.
"""

from __future__ import annotations

import polars as pl

from ..core.device_pairs import mapped, note, under
from ..core.options import SIDES, Options
from ..details.glance.kernels import glance
from ..details.row_details import kernel_sections
from ..kernels.by_name import coverage, facts_of, notes_of, sentence, several_ranks, table
from ..kernels.columns import COLUMNS, PAIR_COLUMNS
from ..table.sides import beside
from ..table.view import Answer, Runs, View


def build(runs: Runs, options: Options) -> Answer:
    """Kernels of one run by total time, or of two side by side by the size of the change."""
    if len(runs) == 1:
        frame, kernels = table(runs[0], options)
        facts = facts_of(frame) | {"coverage": coverage(runs[0], options, frame)}
        return Answer(frame.lazy(), facts, (sentence(runs[0], facts),), notes_of(runs[0], kernels))
    jobs = all(several_ranks(run) for run in runs)  # a run of one rank is held against all of a job's
    (frame_a, kernels_a), (frame_b, kernels_b) = (
        table(run, options, side, by_rank=jobs) for run, side in zip(runs, SIDES, strict=True)
    )
    facts = {
        "a": facts_of(frame_a) | {"coverage": coverage(runs[0], options, frame_a, "a")},
        "b": facts_of(frame_b) | {"coverage": coverage(runs[1], options, frame_b, "b")},
    }
    summary = tuple(f"{side}: {sentence(run, facts[side.lower()])}" for side, run in zip("AB", runs, strict=True))
    notes = dict.fromkeys((*notes_of(runs[0], kernels_a), *notes_of(runs[1], kernels_b)))
    moved = mapped(_devices(frame_a), _devices(frame_b))
    if moved:
        frame_b = frame_b.with_columns(under(moved))
    joined = beside(frame_a, frame_b, COLUMNS)
    return Answer(joined.lazy(), facts, summary, (*notes, *note(moved)))


def _devices(frame: pl.DataFrame) -> list[str | None]:
    return frame["device"].unique().cast(pl.String).to_list()


VIEW = View(
    "kernels", COLUMNS, build, pair_columns=PAIR_COLUMNS, scopes_itself=True, noun="kernels", details=kernel_sections,
    glance=glance,
)
