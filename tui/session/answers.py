"""Answers that were given before: whoever comes back to a view, a run or a scope does not wait for them again.

An answer is known by all that the question was asked with: the view and its shape, the runs, the options. A filter and
an order are put on it afterwards. Runs that were read anew are other runs, and what was said of the old ones goes.
Memory is bounded: the answers looked at longest ago go first, and one that fills most of the room alone is not kept.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ...analysis.contract.options import Options
    from ...analysis.contract.view import Runs, View
    from ...analysis.table.table import Table

MOST_CELLS = 4_000_000
"""Values of all answers together: some 40 MB."""


class _Kept(Struct, frozen=True):
    view: View
    runs: Runs
    options: Options
    table: Table

    def answers(self, view: View, runs: Runs, options: Options) -> bool:
        """Whether this is the answer to that question."""
        return self.view is view and _same(self.runs, runs) and self.options == options

    @property
    def cells(self) -> int:
        return len(self.table) * len(self.table.columns)


class Answers:
    """Asks views, and remembers what they said. May be asked from any thread."""

    def __init__(self, most_cells: int = MOST_CELLS) -> None:
        self._most = most_cells
        self._kept: list[_Kept] = []
        self._lock = threading.Lock()

    def ask(self, view: View, runs: Runs, options: Options, opened: Runs) -> Table:
        """The view's answer; ``opened`` are the runs that there are now. Raises CannotAnswer."""
        from ...analysis.query.ask import ask

        with self._lock:
            self._kept = [one for one in self._kept if all(_among(run, opened) for run in one.runs)]
            for place, one in enumerate(self._kept):
                if one.answers(view, runs, options):
                    self._kept.append(self._kept.pop(place))
                    return one.table
        made = _Kept(view, runs, options, ask(view, runs, options))
        with self._lock:
            if 2 * made.cells <= self._most:
                self._kept.append(made)
                while sum(one.cells for one in self._kept) > self._most:
                    del self._kept[0]
        return made.table


def _same(some: Runs, others: Runs) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _among(run: object, opened: Runs) -> bool:
    return any(run is one for one in opened)
