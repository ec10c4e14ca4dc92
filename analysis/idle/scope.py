"""The idle time that sentences report: sums by cause over the steps, in five parts that do not overlap.

``input``, ``allocation`` and ``queued`` are the causes of that name. Other host time before a launch is ``drained``, up
to the length of the wait for the device before it, and ``behind`` for the rest: the host never got ahead. The cause
``sync`` is ``drained``, too: without that wait the host is earlier by its length, and no more. ``emptied`` repeats the
``behind`` time of those gaps that have such a wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ..core import units
from ..core.call_tree import Ints
from .cause_meanings import CAUSES

HOST = ("python", "op", "runtime", "copy", "launch", "dispatch", "untraced")
"""Causes that shrink when the host launches earlier."""
_NAMES = tuple(CAUSES)
_WHO: dict[str, pl.Expr] = {
    "input": pl.coalesce("op", "call"), "allocation": pl.col("call"), "queued": pl.col("after"),
    "drained": pl.col("drained_by"), "behind": pl.coalesce("op", "call"), "emptied": pl.col("drained_by"),
}
_NO_LINE = ("drained", "queued", "emptied")
"""Parts whose sites omit the Python line of the launch: the name contains it, or it does not explain the idle time."""
SHOWN = 3


class Site(Struct, frozen=True):
    """A code location that gaps lead to: operator or call, Python line, number of gaps, their total time in ns."""

    who: str | None
    frame: str | None
    gaps: int
    idle_ns: int


class Part(Struct, frozen=True):
    """A part of a device's idle time: total in ns, number of gaps, and the sites that most of it leads to."""

    idle_ns: int = 0
    gaps: int = 0
    sites: tuple[Site, ...] = ()

    def most(self, say: Callable[[Site], str]) -> str:
        """The largest site with its figures, '…before aten::mm (1.82 s in 2,570 gaps)'; '' where none is known."""
        if not self.sites:
            return ""
        first = self.sites[0]
        return f"{say(first)} ({units.duration(first.idle_ns)} in {units.counted(first.gaps, 'gap', 'gaps')})"

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The sites as rows of evidence."""
        return tuple(
            {"who": site.who, "frame": site.frame, "gaps": site.gaps, "idle_ns": site.idle_ns} for site in self.sites
        )


class ScopeSums:
    """Sums, batch by batch, the idle time of a device in the steps."""

    def __init__(self) -> None:
        self.by_cause: Ints = np.zeros(len(_NAMES), dtype=np.int64)
        self.gaps = 0
        self._places: list[pl.DataFrame] = []

    def add(self, gaps: pl.DataFrame, causes: Ints) -> None:
        """Add gaps (rows of ``Idle.gaps``) with their time by cause, an array (causes, gaps) in ns."""
        self.by_cause += causes.sum(axis=1)
        self.gaps += gaps.height
        for name, spent in _parts(gaps, causes).items():
            some = np.flatnonzero(spent)
            if not len(some):
                continue
            frame = pl.lit(None, NAME) if name in _NO_LINE else pl.col("frame")
            rows = gaps[some].select(who=_WHO[name], frame=frame).with_columns(pl.Series("idle_ns", spent[some]))
            self._places.append(rows.group_by("who", "frame").agg(
                pl.col("idle_ns").sum(), gaps=pl.len().cast(pl.Int64)).with_columns(part=pl.lit(name)))

    def parts(self) -> dict[str, Part]:
        """The parts that have any time."""
        if not self._places:
            return {}
        every = pl.concat(self._places).group_by("part", "who", "frame").agg(pl.col("idle_ns", "gaps").sum())
        return {
            name: Part(int(rows["idle_ns"].sum()), int(rows["gaps"].sum()), _sites(rows))
            for (name,), rows in every.group_by("part") if isinstance(name, str)
        }


def _parts(gaps: pl.DataFrame, causes: Ints) -> dict[str, Ints]:
    of = {name: causes[at] for at, name in enumerate(_NAMES)}
    host = causes[[_NAMES.index(name) for name in HOST]].sum(axis=0)
    waited = gaps["drain_ns"].fill_null(0).to_numpy()
    lost = np.clip(waited - of["sync"], 0, host)
    return {
        "input": of["input"], "allocation": of["allocation"], "queued": of["queued"], "drained": of["sync"] + lost,
        "behind": host - lost, "emptied": np.where(waited > 0, host - lost, 0),
    }


def _sites(rows: pl.DataFrame) -> tuple[Site, ...]:
    named = rows.filter(pl.col("who").is_not_null() | pl.col("frame").is_not_null()).with_columns(
        pl.col("who", "frame").cast(pl.String))
    largest = named.sort("idle_ns", "who", "frame", descending=[True, False, False]).head(SHOWN)
    return tuple(Site(*row) for row in largest.select("who", "frame", "gaps", "idle_ns").iter_rows())
