"""The idle time a sentence is about: sums by cause over the steps, in five parts that never count a moment twice.

Each part is made of causes of idle time: ``input`` and ``allocation`` and ``queued`` are the causes of that
name; what the host did otherwise before it launched is ``drained`` as far as it had waited for the device, and
``behind`` as far as it simply never got ahead. Waiting in a call (the cause ``sync``) is ``drained``, too: without that
wait the host is earlier by its length, and no more.
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
"""Causes that end when the host launches earlier."""
_NAMES = tuple(CAUSES)
_WHO: dict[str, pl.Expr] = {
    "input": pl.coalesce("op", "call"), "allocation": pl.col("call"), "queued": pl.col("after"),
    "drained": pl.col("drained_by"), "behind": pl.coalesce("op", "call"), "emptied": pl.col("drained_by"),
}
_NO_LINE = ("drained", "queued", "emptied")
"""Places that are told without the Python line of the launch: it is in them, or says nothing of why a device waits."""
SHOWN = 3


class Site(Struct, frozen=True):
    """A place that gaps lead to: operator or call, Python line, how many gaps and how long together, ns."""

    who: str | None
    frame: str | None
    gaps: int
    idle_ns: int


class Part(Struct, frozen=True):
    """Some of the idle time of a device: how long, in how many gaps, and the places most of it leads to."""

    idle_ns: int = 0
    gaps: int = 0
    sites: tuple[Site, ...] = ()

    def most(self, say: Callable[[Site], str]) -> str:
        """The first place with its share, '…before aten::mm (1.82 s in 2,570 gaps)'; nothing where none is known."""
        if not self.sites:
            return ""
        first = self.sites[0]
        return f"{say(first)} ({units.duration(first.idle_ns)} in {units.counted(first.gaps, 'gap', 'gaps')})"

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The places as rows of evidence."""
        return tuple(
            {"who": site.who, "frame": site.frame, "gaps": site.gaps, "idle_ns": site.idle_ns} for site in self.sites
        )


class ScopeSums:
    """Adds up, some gaps at a time, what a device waited for in the steps."""

    def __init__(self) -> None:
        self.by_cause: Ints = np.zeros(len(_NAMES), dtype=np.int64)
        self.gaps = 0
        self._places: list[pl.DataFrame] = []

    def add(self, gaps: pl.DataFrame, causes: Ints) -> None:
        """``gaps`` as rows and their time by cause, an array (causes, gaps) of ns."""
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
