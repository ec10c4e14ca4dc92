"""Cache of answers, so that going back to a view, a run or a scope shows its table without recomputing it.

An answer is keyed by everything its question consists of: the view and its shape, the runs, the options. Filter and
sort order are applied afterwards. Reloading a run makes a new run object, and answers about the old one are dropped.
Memory is bounded: least recently used answers are evicted first, and one above half of the limit is never cached.
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
"""Most table cells of all cached answers together: about 40 MB."""


class _Kept(Struct, frozen=True):
    view: View
    runs: Runs
    options: Options
    table: Table

    def answers(self, view: View, runs: Runs, options: Options) -> bool:
        """Whether this is the answer to that view, those runs and those options."""
        return self.view is view and _same(self.runs, runs) and self.options == options

    @property
    def cells(self) -> int:
        return len(self.table) * len(self.table.columns)


class Answers:
    """Asks views and caches their answers. Thread-safe."""

    def __init__(self, most_cells: int = MOST_CELLS) -> None:
        self._most = most_cells
        self._kept: list[_Kept] = []
        self._lock = threading.Lock()

    def ask(self, view: View, runs: Runs, options: Options, opened: Runs) -> Table:
        """The view's answer; answers about runs not in ``opened`` are dropped. Raises CannotAnswer."""
        from ...analysis.query.ask import ask

        with self._lock:
            self._kept = [one for one in self._kept if all(_among(run, opened) for run in one.runs)]
            for place, one in enumerate(self._kept):
                if one.answers(view, runs, options):
                    self._kept.append(self._kept.pop(place))
                    return one.table
        result = _Kept(view, runs, options, ask(view, runs, options))
        with self._lock:
            if 2 * result.cells <= self._most:
                self._kept.append(result)
                while sum(one.cells for one in self._kept) > self._most:
                    del self._kept[0]
        return result.table


def _same(some: Runs, others: Runs) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _among(run: object, opened: Runs) -> bool:
    return any(run is one for one in opened)
