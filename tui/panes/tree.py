"""Views that are a list, a tree with rows to open, or a flame graph: operators, and functions of CPU samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.widget import Widget

from ...analysis.views import Entry
from ..list.frame import Frame
from ..session.exporting import file_name
from ..session.session import Session
from .flame import FlameCanvas
from .shown import Shown
from .table import TablePane

if TYPE_CHECKING:
    from ...analysis.table.flame import Weight
    from ...analysis.table.table import Table
    from ..session.keys import Key

_FILES = {"s": ("SVG, the flame graph as a picture", ".svg"), "p": ("speedscope JSON", ".speedscope.json"),
          "f": ("folded stacks", ".folded"), "m": ("markdown, the tree", ".md")}


class TreePane(TablePane):
    """A view with these three shapes."""

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self._opened: set[int] = set()
        self._tree: Table | None = None
        self.flame = FlameCanvas()
        self._as_flame = False
        self._by: Weight | None = None

    def compose(self) -> ComposeResult:
        """The list with its surroundings, and the flame graph."""
        yield from super().compose()
        yield self.flame

    @property
    def focused_part(self) -> Widget:
        """The widget to focus when the view is opened."""
        return self.flame if self._is_flame and not self.message else super().focused_part

    @property
    def _is_flame(self) -> bool:
        from ...analysis.table.flame import weights_of

        return self._as_flame and self.shown is not None and bool(weights_of(self.shown.base))

    def find_name(self, text: str) -> None:
        """Go to the next box of the flame graph whose name contains the text."""
        if self.flame.find(text):
            self.main.close_prompt()
        else:
            self.main.refuse("No match.")

    def forget(self) -> None:
        """Clear the rows and the tree."""
        self._tree = None
        super().forget()

    def show(self, shown: Shown) -> None:
        """Show the answer; a tree seen for the first time opens along its most expensive rows."""
        from ...analysis.table.tree import folded, is_tree, opened_at_first

        if is_tree(shown.table):
            if self._tree is None or self._tree.rows is not shown.base.rows:
                self._tree, self._opened = shown.base, opened_at_first(shown.base)
            shown = replace(shown, table=folded(shown.base, self._opened))
            self.shown = shown
        super().show(shown)
        self._show_flame()

    def _show_flame(self) -> None:
        """Show the flame graph in place of the list, or the list again."""
        from ...analysis.table.flame import flame_of

        flame = self.is_picture = self._is_flame and self.shown is not None
        if flame and self.shown is not None:
            one = flame_of(self.shown.base, self._by)
            self.flame.show(one)
            self.show_text("" if one.frames else "No idle time before a launch was recorded: r shows device time.")
        self.flame.display = flame and not self.message
        self.rows.display = not flame and not self.message
        self._keep_keys()
        self.make_room()

    def make_room(self) -> None:
        """No side panel beside a flame graph, which takes all the room."""
        if self._is_flame:
            self.side_panel.place(False, 0, 0)
        else:
            super().make_room()

    def _keep_keys(self) -> None:
        if self.is_attached and self.screen.focused in (self.rows, self.notice, self.flame):
            self.screen.set_focus(self.focused_part)

    def caption(self, border: Frame) -> None:
        """Set the text in the border."""
        super().caption(border)
        filtered = self.state.arrangement.filter
        self.flame.caption(replace(border, right=border.right[2:]) if filtered else border)

    def action_order(self) -> None:
        """Switch from list to tree, to flame graph, and back to the list."""
        from ...analysis.table.flame import weights_of

        if self.shown is not None and weights_of(self.shown.base) and not self._as_flame:
            self._as_flame = True
            self._show_flame()
            self.report_change()
            return
        self._as_flame = False
        self.flame.display = False
        super().action_order()

    def on_flame_canvas_weighed(self, event: FlameCanvas.Weighed) -> None:
        """Switch between device time and idle time before launches."""
        from ...analysis.table.flame import weights_of

        event.stop()
        assert self.shown is not None
        one, *others = weights_of(self.shown.base)
        if not others:
            self.app.bell()
            return
        self._by = others[0] if self._by in (one, None) else one
        self._show_flame()
        self.report_change()

    def export_job(self) -> Callable[[], Table] | None:
        """The rows as shown; for a flame graph with the quantity its widths show."""
        job, flame = super().export_job(), self.flame.flame if self._is_flame else None
        return job if job is None or flame is None else lambda: job().as_flame(flame.weight)

    def action_export(self) -> None:
        """Offer the formats a flame graph can be exported to."""
        from ..overlays.choice import ChoiceScreen

        if not self._is_flame or self.exported is None or self.awaits_rows:
            super().action_export()
            return
        table = self.exported

        def chosen(key: str | None) -> None:
            if key is not None:
                self._export(file_name(self.entry.name, table, _FILES[key][1]))

        self.app.push_screen(ChoiceScreen("Export the flame graph", {k: v[0] for k, v in _FILES.items()}), chosen)

    def action_fold(self, step: int) -> None:
        """Open or close the row under the cursor; on a row that cannot be closed, close its parent."""
        from ...analysis.table.tree import is_tree, row_above

        table = self.rows.table
        if self.shown is None or table is None or not len(table) or not is_tree(table) or self._is_flame:
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
        self.report_change()

    def key_label(self, key: Key) -> str:
        """``s`` is labelled with the shape it switches to."""
        from ...analysis.table.flame import weights_of
        from ...analysis.table.tree import is_tree

        if key.name != "order" or self.shown is None:
            return super().key_label(key)
        if not is_tree(self.shown.base):
            return "tree"
        return "flame graph" if weights_of(self.shown.base) and not self._is_flame else "list"

    def footer_keys(self) -> list[str]:
        """The names of the keys to show in the footer."""
        from ...analysis.table.tree import is_tree

        if self._is_flame:
            by = "" if self.flame.flame is not None and self.flame.flame.weight == "samples" else "flame_by"
            return f"into search flame_whole {by} order other_run export palette help quit".split()
        tree = self.table is not None and is_tree(self.table)
        return [*super().footer_keys(), *(["fold", "unfold"] if tree else [])]
