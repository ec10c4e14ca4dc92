"""Picker of traces to open: those found under the current directory and recent ones; one, or two to compare.

Discovery runs in a thread and the list fills meanwhile. Space marks a trace, Enter opens the marked ones or the one
under the cursor; ``o`` prompts for a path.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content

from ...analysis.contract.column import Column
from ...analysis.core import units
from ...analysis.core.text import display
from ..list.table_list import TableList
from ..session.opening import Discover, Found
from ..session.paths import split_paths
from ..widgets.chrome import Line
from ..widgets.prompt import Prompt
from .overlay import ClosesOnce

if TYPE_CHECKING:
    from ...analysis.table.table import Table

COLUMNS = (
    Column("trace", "trace", "text", "file or folder", 60, order=0, elastic=True, pinned=True, role="path"),
    Column("format", "format", "text", "recognised format", 16, order=1),
    Column("size", "size", "bytes", "size on disk", 10, order=1),
    Column("changed", "changed", "text", "last modified", 16, order=2),
    Column("why", "", "text", "opened before, or new", 8, order=3),
)
MOST = 500
EVERY = 0.2
"""Seconds between two updates of the list."""


class PickerScreen(ClosesOnce[list[str] | None]):
    """Lets the user pick one trace, or two; returns their paths, or None."""

    DEFAULT_CSS = """
    PickerScreen { background: $background; align: left top; }
    PickerScreen TableList { height: 1fr; }
    PickerScreen .bar { background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+c", "leave", "close"), Binding("o", "type", "type a path"),
        Binding("slash", "search", "search"),
    ]

    def __init__(self, discover: Discover | None, recent: Sequence[tuple[Path, str]], offers: Sequence[Found]) -> None:
        super().__init__()
        self._discover = discover
        self._found: dict[Path, tuple[str, int | None, str]] = {}
        for one in offers:
            self._found[one.path] = (one.format, one.bytes, "new")
        for path, format in recent:
            self._found.setdefault(path, (format, _size(path), "recent"))
        self._chosen: list[int] = []  # the marked rows in the order of their marks: A, then B
        self._searching = True
        self._can_list = False  # until the discovery thread has imported polars
        self._shown = -1
        self.rows, self.prompt = TableList(), Prompt()
        self.top, self.bottom = Line(classes="bar"), Line(classes="bar")

    def compose(self) -> ComposeResult:
        """Title, list, prompt, keys."""
        yield self.top
        yield self.rows
        yield self.prompt
        yield self.bottom

    def on_mount(self) -> None:
        """Start the discovery."""
        self.rows.focus()
        self._say()
        self._timer = self.set_interval(EVERY, self._look)
        threading.Thread(target=self._search, name="discovery", daemon=True).start()

    def _search(self) -> None:
        from ...analysis.table.table import listing

        self._can_list = listing is not None
        if self._discover is not None:
            for one in self._discover(Path.cwd()):
                path = one.path.absolute()
                if path not in self._found:
                    self._found[path] = (one.format, one.bytes, "")
                if len(self._found) >= MOST or not self.is_attached:
                    break
        self._searching = False

    def _look(self) -> None:
        """Show newly found traces."""
        if not self._searching:
            self._timer.stop()
        if not self._can_list and self._searching:
            return
        if len(self._found) != self._shown:
            self._shown = len(self._found)
            self._show()
        self._say()

    def _show(self) -> None:
        from ...analysis.table.table import listing

        marks, cursor = set(self.rows.marks), self.rows.cursor
        self._paths = list(self._found)
        table: Table = listing("traces", COLUMNS, [self._row(path) for path in self._paths])
        self.rows.show(table)
        self.rows.marks = marks
        self.rows.go(cursor)

    def _row(self, path: Path) -> tuple[Any, ...]:
        format, size, why = self._found[path]
        try:
            shown = str(path.relative_to(Path.cwd()))
        except ValueError:
            shown = str(path)
        return (shown, format, size, _changed(path), why)

    def _say(self) -> None:
        count = units.count(len(self._found))
        here = display(str(Path.cwd()), 50)
        text = f"{count} traces so far, looking under {here}" if self._searching else f"{count} traces"
        if not self._searching and not self._found:
            text = f"no trace was recognised under {here}; o takes a path"
        marks = self.rows.marks
        self._chosen = [*(row for row in self._chosen if row in marks), *sorted(marks.difference(self._chosen))]
        names = (display(self._paths[row].name, 24) for row in self._chosen)
        right = " → ".join(names) if 0 < len(marks) <= 2 else f"{len(marks)} marked" if marks else (
            "one, or two to compare")
        title = Content.assemble((" warplens ", "bold $primary"), " ", text)
        self.top.show_text(title, Content.styled(f"{right} ", "dim"))
        keys = (("Enter", "open"), ("Space", "mark"), ("/", "search"), ("o", "type a path"), ("Esc", "close"))
        self.bottom.show_text(Content.assemble(
            " ", *(part for key, word in keys for part in ((key, "bold $primary"), f" {word}  "))
        ))

    def on_table_list_highlighted(self) -> None:
        """Update the number of marks."""
        self._say()

    def on_table_list_opened(self, event: TableList.Opened) -> None:
        """Enter: open the marked traces, else the one under the cursor."""
        event.stop()
        table = self.rows.table
        if table is None:
            return
        if len(self._chosen) > 2:
            self.notify("At most two runs can be compared; Space removes a mark.", markup=False)
            return
        ids = self._chosen or [table.row_id(event.position)]
        self.dismiss([str(self._paths[row]) for row in ids])

    def action_type(self) -> None:
        """Prompt for paths."""
        self.bottom.display = False
        self.prompt.open("open", "", "a path, or two separated by spaces")

    def action_search(self) -> None:
        """Prompt for a text to search."""
        self.bottom.display = False
        self.prompt.open("search", "", "text in a name")

    def on_prompt_edited(self, event: Prompt.Edited) -> None:
        """Open the paths typed, or search."""
        if event.kind == "search":
            self.rows.search(event.text)
            if event.final:
                self._close_prompt()
        elif event.final and event.text.strip():
            self.dismiss(split_paths(event.text))

    def on_prompt_cancelled(self) -> None:
        """The prompt was cancelled."""
        self._close_prompt()

    def _close_prompt(self) -> None:
        self.prompt.close()
        self.bottom.display = True
        self.rows.focus()

    def action_leave(self) -> None:
        """Close without opening anything."""
        self.dismiss(None)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _changed(path: Path) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
    except (OSError, ValueError, OverflowError):
        return ""
