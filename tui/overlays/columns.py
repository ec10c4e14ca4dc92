"""``#``: columns of a list. Space shows or hides the one under the cursor, w widens it; choices are remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from ...analysis.contract.column import Column
from ..list import cells
from ..session.session import Choice
from ..session.themes import content_style
from .overlay import Overlay

_SAID = {"shown": "shown", "hidden": "hidden", "wide": "wide", "": "no room"}
_HEADER = 18
"""Cells for a column's header."""


class ColumnsScreen(Overlay):
    """The columns of a list, in order."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False), Binding("up,k", "move(-1)", show=False),
        Binding("space", "show", show=False), Binding("w", "widen", show=False),
        Binding("enter,number_sign", "close", show=False),
    ]

    def __init__(
        self, columns: Sequence[Column], visible: Callable[[], set[str]], choices: dict[str, Choice],
        choose: Callable[[dict[str, Choice]], None],
    ) -> None:
        """``visible`` returns the names of the visible columns; ``choose`` receives all choices, by column name."""
        super().__init__("Columns: Space shows or hides, w widens")
        self._columns, self._visible, self._choices, self._choose = columns, visible, dict(choices), choose
        self._at = 0
        self.scroll.can_focus = False  # keys go to this screen, not to the scroll area

    def fill(self) -> None:
        """One line per column: its state, header and help."""
        visible, dim = self._visible(), content_style("dim")
        result = []
        for at, column in enumerate(self._columns):
            state = _SAID[self._choices.get(column.name) or ("shown" if column.name in visible else "hidden"
                                                             if column.order is None else "")]
            head = content_style("focus") if at == self._at else ""
            result.append(Content.assemble(
                ("▌" if at == self._at else " ", content_style("focus")),
                (cells.fit(state, 8), "" if state in ("shown", "wide") else dim),
                (cells.fit(column.header or column.name, _HEADER), f"bold {head}".strip()),
                (cells.fit(column.help, max(1, self.room - _HEADER - 10)), dim),
            ))
        self.lines.show_text(Content("\n").join(result))

    def action_move(self, step: int) -> None:
        """Move the cursor by columns."""
        self._at = max(0, min(len(self._columns) - 1, self._at + step))
        self.fill()
        self.scroll.scroll_to(y=self._at - self.scroll.size.height // 2, animate=False)

    def action_show(self) -> None:
        """Show or hide the column."""
        name = self._columns[self._at].name
        self._take(name, "hidden" if name in self._visible() else "shown")

    def action_widen(self) -> None:
        """Double the column's width, or restore it."""
        name = self._columns[self._at].name
        self._take(name, "shown" if self._choices.get(name) == "wide" else "wide")

    def _take(self, name: str, choice: Choice) -> None:
        self._choices[name] = choice
        self._choose(self._choices)
        self.fill()
