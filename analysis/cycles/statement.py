"""The facts about cycles that every view reports, cached for big recordings so that they are detected only once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

import polars as pl

from ...loaders.trace import Trace
from ..contract.options import SIDES, Options, Side
from ..core.derived import LEAST_BYTES, derived_value, stored_value

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
