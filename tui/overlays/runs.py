"""``O``: the open recordings. Enter shows one alone, ``a`` and ``b`` make it A or B, ``x`` closes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from ...analysis.contract.column import Column
from ...analysis.core.text import display
from ..list.table_list import TableList
from ..session.session import MOST_OPEN, Session
from ..widgets.chrome import Line
from .overlay import ClosesOnce

COLUMNS = (
    Column("side", "", "text", "A or B of what is shown", 2, order=0),
    Column("recording", "recording", "text", "file or folder", 40, order=0, elastic=True, pinned=True, role="path"),
    Column("folder", "in", "text", "its folder", 30, order=1, role="path"),
    Column("state", "", "text", "whether it is read", 10, order=2),
)


class RunsScreen(ClosesOnce[None]):
    """The list of open recordings. ``show`` shows one or two of them; ``close`` closes one and tells whether it did."""

    DEFAULT_CSS = """
    RunsScreen { align: center middle; background: $background 40%; }
    RunsScreen Vertical { width: 90%; max-width: 110; height: auto; max-height: 80%; background: $surface; }
    RunsScreen TableList { height: 10; }
    RunsScreen .bar { background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,O,ctrl+c", "leave", "close"), Binding("a", "side(0)", "A"), Binding("b", "side(1)", "B"),
        Binding("x", "drop", "close it"),
    ]

    def __init__(
        self, session: Session, show: Callable[[list[str]], None], close: Callable[[str], bool]
    ) -> None:
        super().__init__()
        self._session, self._show_runs, self._close = session, show, close
        self.rows = TableList()
        self.top, self.bottom = Line(classes="bar"), Line(classes="bar")

    def compose(self) -> ComposeResult:
        """Title, list, keys."""
        yield Vertical(self.top, self.rows, self.bottom)

    def on_mount(self) -> None:
        """Fill the list."""
        self.rows.focus()
        keys = (("Enter", "alone"), ("a", "as A"), ("b", "as B"), ("x", "close it"), ("Esc", "back"))
        self.bottom.show_text(Content.assemble(
            " ", *(part for key, word in keys for part in ((key, "bold $primary"), f" {word}  "))))
        self._fill()

    def _fill(self) -> None:
        from ...analysis.table.table import listing

        cursor, paths = self.rows.cursor, self._session.recordings
        self.top.show_text(
            Content.styled(" Open recordings", "bold $primary"),
            Content.styled(f"{len(paths)} of at most {MOST_OPEN} ", "dim"))
        self.rows.show(listing("recordings", COLUMNS, [self._row(path) for path in paths]))
        self.rows.go(min(cursor, len(paths) - 1))

    def _row(self, path: str) -> tuple[Any, ...]:
        shown = [run.path for run in self._session.inputs]
        side = "AB"[shown.index(path)] if len(shown) > 1 and path in shown else "·" if path in shown else ""
        state = next((run.state for run in self._session.inputs if run.path == path), "")
        name = "standard input" if path == "-" else Path(path).name or path
        return side, display(name, 200), "" if path == "-" else display(str(Path(path).parent), 200), (
            "" if state == "loaded" else state)

    @property
    def _path(self) -> str:
        return self._session.recordings[self.rows.cursor]

    def on_table_list_opened(self, event: TableList.Opened) -> None:
        """Enter: show that recording alone."""
        event.stop()
        path = self._session.recordings[event.position]
        self.dismiss()
        self._show_runs([path])

    def action_side(self, side: int) -> None:
        """Make the recording under the cursor A or B; the other side stays."""
        path, shown = self._path, [run.path for run in self._session.inputs]
        if len(shown) > 1 and path == shown[1 - side]:
            pair = shown[::-1]
        elif side == 0:
            pair = [path, *shown[1:]]
        elif path == shown[0]:
            self.notify("It is A; a second recording becomes B.", markup=False)
            return
        else:
            pair = [shown[0], path]
        if pair != shown:
            self._show_runs(pair)
        self._fill()

    def action_drop(self) -> None:
        """Close the recording under the cursor."""
        if not self._close(self._path):
            self.notify("The last recording stays open; q quits.", markup=False)
            return
        self._fill()

    def action_leave(self) -> None:
        """Back to the view."""
        self.dismiss()
