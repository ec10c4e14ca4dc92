"""Ops: operators by time, or as a tree of modules, operators and kernels whose rows open and close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...analysis.views import Entry
from ..session.session import Session
from .shown import Shown
from .table import TablePane

if TYPE_CHECKING:
    from ...analysis.table.table import Table


class OpsPane(TablePane):
    """The operators, in either shape."""

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self._opened: set[int] = set()
        self._tree: Table | None = None

    def show(self, shown: Shown) -> None:
        """Put the answer on the screen; a tree that was not seen before opens at what takes most."""
        from ...analysis.operators.call_paths import folded, is_tree, opened_at_first

        if is_tree(shown.table):
            if self._tree is None or self._tree.rows is not shown.base.rows:
                self._tree, self._opened = shown.base, opened_at_first(shown.base)
            shown = replace(shown, table=folded(shown.base, self._opened))
            self.shown = shown
        super().show(shown)

    def action_fold(self, step: int) -> None:
        """Open the row under the cursor, or close it; of a row that cannot be closed, the one it stands under."""
        from ...analysis.operators.call_paths import is_tree, row_above

        table = self.rows.table
        if self.shown is None or table is None or not len(table) or not is_tree(table):
            self.app.bell()
            return
        row = table.row_id(self.rows.cursor)
        if step > 0:
            self._opened.add(row)
        elif row in self._opened:
            self._opened.discard(row)
        else:
            above = row_above(table, row)
            if above is None:
                self.app.bell()
                return
            self._opened.discard(above)
            row = above
        self.show(replace(self.shown, table=self.shown.base))
        position = self.rows.table.position(row) if self.rows.table is not None else None
        if position is not None:
            self.rows.go(position)
        self.tell()

    def wanted(self) -> list[str]:
        """The names of the keys that matter now, for the footer."""
        from ...analysis.operators.call_paths import is_tree

        tree = self.table is not None and is_tree(self.table)
        return [*super().wanted(), *(["fold", "unfold"] if tree else [])]
