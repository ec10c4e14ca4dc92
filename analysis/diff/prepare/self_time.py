"""How much of a host function's time is its own, without the calls inside it and without waiting for a device.

Host calls contain each other: where an operator gets slower, so does every frame around it. A row ranks by what was
lost in the function itself, so that the first suspect is where the time went and not whoever called it. A call that
waits for the device loses nothing itself: what it waits for has a row of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import polars as pl

from ....loaders.schema import NAME
from ....loaders.trace import Trace
from ...core.launch_calls import CALLS

_NESTING = ("op", "runtime", "driver", "python", "overhead", "dataloader")
"""Kinds of host slices that contain each other."""
_WAITS = re.compile(r"Synchronize|StreamWait|EventQuery|StreamQuery|Memcpy")
"""Calls whose time is what the device has still to do, or to copy."""


def waits_for_device(function: str, kind: str | None) -> bool:
    """Whether a runtime or driver call of that name waits for a device."""
    return kind in CALLS and _WAITS.search(function) is not None


def own_shares(run: Trace, functions: Collection[str]) -> dict[str, float]:
    """The share of each function's host time that is its own, 0-1, over the whole recording.

    Waiting for input is the DataLoader's own, whatever it calls. Functions without timed slices are left out.
    """
    if not run.has("host") or not functions:
        return {}
    # names stay numbers: texts of a million slices take longer to make, and more memory, than all the rest
    mine = pl.col("name").is_in(pl.Series(list(functions), dtype=NAME).implode()) & pl.col("kind").is_in(_NESTING)
    own = pl.when(pl.col("kind") == "dataloader").then("dur_ns").otherwise("self_ns").sum().alias("own")
    timed = run.host.filter(mine).drop_nulls(["dur_ns", "self_ns"])
    sums = timed.group_by("name").agg(own, pl.col("dur_ns").sum().alias("whole")).with_columns(
        pl.col("name").cast(pl.String))
    rows = sums.collect(engine="streaming").select("name", "own", "whole").rows()
    return {name: mine / whole if whole else 0.0 for name, mine, whole in rows}
