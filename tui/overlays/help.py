"""``?``: every key that works in this view, and every column of it; rendered from the bindings and the columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.content import Content

from ...analysis.views import VIEWS, Entry
from ..session.keys import KEYS, spelled
from ..widgets.sections import heading, pairs
from .overlay import Overlay

if TYPE_CHECKING:
    from ...analysis.table.table import Table

FILTER_HELP = [
    ("gemm", "text found in any text column, without regard to case"),
    ("total>1ms share>5%", "numbers with their units; all terms must hold"),
    ("name~^void", "a regular expression"),
    ("!copy", "a term inverted; the key ! inverts the whole filter"),
    ('"two words"', "quotes keep spaces together"),
]


class HelpScreen(Overlay):
    """Help for one view."""

    def __init__(self, entry: Entry, table: Table | None, keys: Mapping[str, str]) -> None:
        """``table`` is what the view shows, where it shows something; ``keys`` are those in force by their names."""
        super().__init__(f"Help: {entry.title}")
        self._entry, self._table, self._keys = entry, table, keys

    def fill(self) -> None:
        """Question, keys, filter language, columns."""
        entry, table = self._entry, self._table
        made = [Content.styled(entry.question, "bold"), Content(""), heading("Views")]
        made += pairs([(one.key, f"{one.title}: {one.question}") for one in VIEWS if one.key], self.room)
        made += [Content(""), heading("Keys")]
        keys = [(spelled(self._keys[key.name], every=True), key.help) for key in KEYS]
        made += pairs(keys, self.room, "bold $primary")
        made += [Content(""), heading("Filters")]
        made += pairs(FILTER_HELP, self.room, "bold $primary")
        if table is not None:
            made += [Content(""), heading("Columns")]
            made += pairs([(column.header, f"{column.help} ({column.name})") for column in table.columns], self.room)
        self.lines.say(Content("\n").join(made))
