"""How much of a host function's time is its own, without the calls inside it and without waiting for a device.

Host calls contain each other: where an operator gets slower, so does every frame around it. A row ranks by what was
lost in the function itself, so that the first suspect is where the time went and not whoever called it. A call that
waits for the device loses nothing itself: what it waits for has a row of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import polars as pl

from ....loaders.trace import Trace
from ...core.call_tree import call_tree
from ...core.launch_calls import CALLS, ids, numbered

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
    rows = (
        run.host.filter(pl.col("kind").is_in(_NESTING))
        .select("name", "kind", "start_ns", "dur_ns", "rank", "pid", "tid")
        .drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    )
    thread = numbered(*(ids(rows[name]) for name in ("rank", "pid", "tid")))
    starts, spans = rows["start_ns"].to_numpy(), rows["dur_ns"].to_numpy()
    tree = call_tree(thread, starts, starts + spans)
    inner = np.zeros(len(spans), dtype=np.int64)
    inside = tree.parent >= 0
    np.add.at(inner, tree.parent[inside], (tree.ends - tree.starts)[inside])
    own = np.empty(len(spans), dtype=np.int64)
    own[tree.order] = np.maximum(tree.ends - tree.starts - inner, 0)
    timed = rows.select(pl.col("name").cast(pl.String), "kind", "dur_ns").with_columns(pl.Series("own", own))
    own_time = pl.when(pl.col("kind") == "dataloader").then("dur_ns").otherwise("own").sum().alias("own")
    wanted = timed.filter(pl.col("name").is_in(list(functions)))
    sums = wanted.group_by("name").agg(own_time, pl.col("dur_ns").sum())
    return {name: mine / total if total else 0.0 for name, mine, total in sums.select("name", "own", "dur_ns").rows()}
