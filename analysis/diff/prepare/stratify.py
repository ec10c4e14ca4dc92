"""Prefill with prefill, replay with replay: what must be set apart before two runs are compared.

A run that holds more prefill steps than another is not slower, and a graph that is replayed has no gaps between its
kernels that a run launching them one by one could be held against.
"""

from __future__ import annotations

from collections import Counter

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ....loaders.trace import Trace
from .samples import Work

MOSTLY = 0.5
"""Share of kernel time under graphs from which a run counts as replaying."""


class Replays(Struct, frozen=True):
    """How much of a run's kernel time is under graph launches, and how many launches of graphs there are."""

    share: float
    count: int


def replays(run: Trace) -> Replays:
    """Kernels under one graph launch are one replay; a run without recorded launches has none."""
    if not run.has("kernels"):
        return Replays(0.0, 0)
    work = run.kernels.filter(pl.col("kind").is_in(["kernel", "collective"]))
    under = pl.col("graph").is_not_null()
    launch = pl.coalesce(pl.when(pl.col("correlation") > 0).then("correlation"), "graph")
    found = work.select(
        (pl.col("dur_ns").filter(under).sum() / pl.col("dur_ns").sum()).alias("share"),
        pl.struct("rank", "device", launch.alias("launch")).filter(under).n_unique().alias("count"),
    ).collect(engine="streaming")
    return Replays(float(found["share"][0] or 0.0), int(found["count"][0]))


def replay_reasons(found: tuple[Replays, Replays]) -> list[str]:
    """One sentence where one run replays graphs and the other launches its kernels one by one."""
    a, b = (side.share >= MOSTLY for side in found)
    if a == b:
        return []
    return [f"{'A' if a else 'B'} replays graphs, {'B' if a else 'A'} launches its kernels one by one"]


def replay_notes(found: tuple[Replays, Replays]) -> list[str]:
    """What a single captured replay cannot tell."""
    return [
        f"{name} holds one captured graph replay: idle time cannot be measured from it."
        for name, side in zip("AB", found, strict=True) if side.share >= MOSTLY and side.count == 1
    ]


def same_kind(a: Work, b: Work) -> tuple[Work, Work, list[str]]:
    """Both runs limited to the kind of cycle that takes most time among those both have; what was left out, in words.

    Runs whose cycles are all of one kind, the same, stay as they are.
    """
    kinds = [Counter(work.kinds[c] for c in _cycles(work) if c in work.kinds) for work in (a, b)]
    if len(set(kinds[0]) | set(kinds[1])) < 2 or not set(kinds[0]) & set(kinds[1]):
        return a, b, []
    both = sorted(set(kinds[0]) & set(kinds[1]))
    chosen = max(both, key=lambda kind: _time(a, kind) + _time(b, kind))
    left = sum(sum(side.values()) - side[chosen] for side in kinds)
    note = f"Only {chosen} cycles are compared with each other; {left} of other kinds are left out."
    return _limited(a, chosen), _limited(b, chosen), [note]


def _cycles(work: Work) -> list[int]:
    return [] if work.rows.is_empty() else work.rows["cycle"].unique().to_list()


def _time(work: Work, kind: str) -> int:
    rows = work.rows.filter(pl.col("cycle").is_in(_of(work, kind))).unique("cycle")
    return int(rows["cycle_ns"].sum())


def _of(work: Work, kind: str) -> list[int]:
    return [cycle for cycle, of in work.kinds.items() if of == kind]


def _limited(work: Work, kind: str) -> Work:
    kept = pl.col("cycle").is_in(_of(work, kind))
    return replace(work, rows=work.rows.filter(kept), metrics=work.metrics.filter(kept))
