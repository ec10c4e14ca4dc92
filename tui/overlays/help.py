"""``?``: keys and columns of this view, filters, words and signs; then all views and all keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from textual.content import Content

from ...analysis.kernels.family import LETTERS, TITLES
from ...analysis.views import VIEWS, Entry
from ..session.keys import KEYS, spelled
from ..widgets.drawing import MARKS
from ..widgets.sections import heading, pairs
from .overlay import Overlay

if TYPE_CHECKING:
    from ...analysis.table.table import Table

FILTER_HELP = [
    ("gemm", "text found in any text column, without regard to case"),
    ("total>1ms share>5%", "numbers with their units; all terms must hold"),
    ("name~^void", "a regular expression"),
    ("family=gemm", "kernels and launches of that family; its letter will do: family=g"),
    ("!copy", "a term inverted; the key ! inverts the whole filter"),
    ('"two words"', "quotes keep spaces together"),
]
WORDS = [
    ("exposed", "the cycle waits for it: without it the cycle would be shorter"),
    ("hidden", "other work covers it, so the cycle does not wait for it"),
    ("whole", "a cycle recorded from its first to its last activity; device figures leave out all others"),
    ("noise floor", "how far a figure differs between two halves of run A: smaller changes are not flagged"),
    ("busy", "1 − idle / (last − first activity) of the device, in steps where there are any"),
    ("in steps", "from the start of the first whole cycle to the end of the last, without start-up"),
]
SIGNS = [
    (f"{MARKS['bad']} {MARKS['look']} {MARKS['good']}", "bad, worth a look, good"),
    (f"{MARKS['same']} {MARKS['unchecked']}", "unchanged, not checked"),
    ("~57% !158%", "~ share of peak estimated from operator FLOPs or bytes; ! above 110%, so the estimate is wrong"),
    (" ".join(LETTERS.values()), ", ".join(TITLES[one] for one in LETTERS)),
]


class HelpScreen(Overlay):
    """Help for one view."""

    def __init__(self, entry: Entry, table: Table | None, keys: Mapping[str, str], wanted: Collection[str]) -> None:
        """``table``: what the view shows; ``keys``: key name → keys in effect; ``wanted``: the view's key names."""
        super().__init__(f"Help: {entry.title}")
        self._entry, self._table, self._keys, self._wanted = entry, table, keys, wanted

    def fill(self) -> None:
        """The view's question, keys and columns, filters, words and signs; then all views and keys."""
        entry, table = self._entry, self._table
        keys = {key.name: (spelled(self._keys[key.name], every=True), key.help) for key in KEYS}
        result = [Content.styled(entry.question, "bold")]
        self._add(result, "Keys of this view", [keys[key.name] for key in KEYS if key.name in self._wanted])
        if table is not None:
            self._add(result, "Columns", [(one.header or "▸2", f"{one.help} ({one.name})") for one in table.columns])
        if "filter" in self._wanted:
            self._add(result, "Filters", FILTER_HELP)
        self._add(result, "Words", WORDS)
        self._add(result, "Signs", SIGNS)
        self._add(result, "Views", [(one.key or keys["palette"][0], f"{one.title}: {one.question}") for one in VIEWS])
        self._add(result, "All keys", list(keys.values()))
        self.lines.show_text(Content("\n").join(result))

    def _add(self, result: list[Content], title: str, rows: list[tuple[str, str]]) -> None:
        result += [Content(""), heading(title), *pairs(rows, self.room, "bold $primary")]
