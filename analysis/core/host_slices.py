"""The host table as arrays: its columns one by one, each read when somebody asks for it and no wider than its values.

It is the longest table by far, and nobody needs all of it: a question about launches wants who called whom, the kinds
and the names (7 bytes a slice), and times of those slices only that matter to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from ...loaders.trace import Trace
from .batches import at_rows, numbers
from .call_tree import Ints, Mask
from .launch_calls import ABSENT, gathered, numbered
from .text_column import TextColumn


class HostSlices:
    """Every slice of the host table of a run, one entry a row; what was not recorded is ``ABSENT``."""

    def __init__(self, run: Trace) -> None:
        self._run = run

    @cached_property
    def name(self) -> TextColumn:
        """As recorded."""
        return TextColumn.in_batches(self._run.host.select("name"))

    @cached_property
    def kind(self) -> TextColumn:
        """What each is."""
        return TextColumn.in_batches(self._run.host.select("kind"))

    @cached_property
    def start(self) -> Ints:
        """Start of each, ns; 0 where not recorded."""
        return self._numbers("start_ns", 0)

    @cached_property
    def dur(self) -> Ints:
        """Duration of each, ns; 0 where not recorded. Of 32 bits where all fit."""
        return self._numbers("dur_ns", 0, narrow=True)

    @cached_property
    def rank(self) -> Ints:
        """Rank of the process of each."""
        return self._numbers("rank")

    @cached_property
    def parent(self) -> npt.NDArray[np.int32]:
        """Row of the slice that encloses each most closely, -1 for none."""
        return self._numbers("parent", -1, narrow=True).astype(np.int32, copy=False)

    @cached_property
    def thread(self) -> npt.NDArray[np.int32]:
        """A number from 0 for the thread (rank, pid, tid) of each."""
        number = numbered(*(self._numbers(key, narrow=True) for key in ("rank", "pid", "tid")))
        return number.astype(np.int32) if number.any() else np.broadcast_to(np.int32(0), len(number))

    def ends(self, some: slice | Ints) -> Ints:
        """End of some of them, ns."""
        return self.start[some] + self.dur[some]

    def _numbers(self, column: str, absent: int = ABSENT, narrow: bool = False) -> Ints:
        return numbers(self._run.host.select(pl.col(column).fill_null(absent)), *[column] * narrow)[column]

    def at(self, rows: Ints, column: str, absent: int = ABSENT) -> Ints:
        """The numbers that the table has in a column at these rows, none of which is -1."""
        return at_rows(self._run.host.select(pl.col(column).fill_null(absent)), rows)[column]

    def of_kind(self, *kinds: str) -> Mask:
        """Which slices are of these kinds."""
        return self.kind.where(kinds.__contains__)

    def named(self, condition: Callable[[str], object], among: Mask) -> Mask:
        """Which of these slices have a name for which the condition holds."""
        return self.name.where(condition) & among

    def names_of(self, rows: Ints) -> pl.Series:
        """The name of each row, null for -1."""
        if not len(self.name.number):
            return gathered(self.name.distinct, rows)
        named = self.name.at(np.maximum(rows, 0))
        return named.set(pl.Series(rows < 0), None) if len(rows) and int(rows.min()) < 0 else named
