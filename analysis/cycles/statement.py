"""What every view says of its runs' cycles, kept where a big recording is, so that to say it again finds no cycles."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

import polars as pl

from ...loaders.trace import Trace
from ..contract.options import SIDES, Options, Side
from ..core.derived import LEAST_BYTES, derived_value, known_value

if TYPE_CHECKING:
    from .detection import Cycles

_KEPT = "cycles-stated"
_MOST_AHEAD = 1_000_000_000
"""Bytes of recordings up to which cycles are found beside an answer: of 2 GB both together take 40 MB more."""


def cycle_facts(runs: Sequence[Trace], options: Options) -> dict[str, Any]:
    """``cycles`` of one run, or of each by its side: what every view says of them, whatever cycle it is limited to."""
    statements = [_statement(run, options, side) for run, side in zip(runs, SIDES, strict=False)]
    if len(statements) == 1:
        return {"cycles": statements[0]}
    return {name: {"cycles": one} for name, one in zip(SIDES, statements, strict=True)}


def find_ahead(runs: Sequence[Trace], options: Options) -> Thread | None:
    """Begin to find the runs' cycles for an answer that will speak of them, while another core makes that answer. Of
    1.9 s for the kernels of a trace of 500 MB as JSON this saves 0.2 s; for small ones it is not done, nor for very
    large ones, whose memory it is that counts. What goes wrong is met again by who asks."""
    if not LEAST_BYTES <= sum(run.info.bytes or 0 for run in runs) <= _MOST_AHEAD:
        return None
    if options == Options() and all(known_value(run, _KEPT, dict) is not None for run in runs):
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
        from .detection import spoken_of
        from .scope import part

        return _stated(spoken_of(part(run, options, side), options))

    return derived_value(run, _KEPT, dict, compute) if options == Options() else compute()


def _stated(cycles: Cycles) -> dict[str, Any]:
    """The source of a run's cycles, their anchor, their kinds, how many, how many whole, mean and median length.
    ``kind`` names every kind there is; lengths are null where there are no cycles. ``guessed`` cycles were marked by
    nobody; ``ignored`` says why findings, headlines and gauges do not use them, null where they do."""
    spans = cycles.frame["dur_ns"].drop_nulls()
    kinds = cycles.frame["kind"].cast(pl.String).drop_nulls().unique().sort().to_list()
    return {
        "source": cycles.source, "anchor": cycles.anchor, "kind": ", ".join(kinds) or None,
        "count": len(spans), "whole": int(cycles.frame["complete"].sum()), "mean_ns": spans.mean(),
        "median_ns": spans.median(), "guessed": cycles.guessed, "ignored": cycles.ignored,
    }
