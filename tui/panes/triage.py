"""Triage: of two runs the rows that account for the change and the answer in lines, above the findings."""

from __future__ import annotations

from textual.content import Content

from ..list.frame import Frame, boxed, dim
from ..widgets.answer_lines import WRAPS, answer, left_out
from ..widgets.drawing import joined
from ..widgets.sections import grid
from .table import TablePane

_LIST = 6
"""Lines that stay for the list: its frame, its heading and three rows."""


class TriagePane(TablePane):
    """The triage view with the page's account of the change."""

    def picture(self, width: int) -> Content:
        """Of two runs the account first, then the answer, as on the page; of one run its summary."""
        shown = self.shown
        if shown is None or self.message or not (lines := shown.base.facts.get("lines")):
            return super().picture(width)
        account = next((one for one in shown.base.page if one.rows), None)
        room = max(4, min(self.size.height * 3 // 4, self.size.height - _LIST) - 2)
        drawn: list[Content] = []
        title = self.entry.title
        if account is not None and account.header[0] == "part":
            title = account.title
            chosen = [at for at, name in enumerate(account.header) if width >= WRAPS or name != "95% CI"]
            header, *rows = (tuple(row[at] for at in chosen) for row in (account.header, *account.rows))
            table = grid(header, tuple(rows), width - 4)
            if len(table) + 2 > room:  # verdict and cause stay; the sum is the last line of the account
                table = [*table[: max(2, room - 3)], table[-1]]
            drawn = table
        said, left = answer(lines, width - 4, max(2, room - len(drawn)), width >= WRAPS)
        note = account.sentences[0].rstrip(".") if drawn and account and account.sentences else ""
        frame = Frame(title, dim(note if width >= WRAPS else ""), position=left_out(left))
        return joined(boxed([*drawn, *said], frame, width, self.drawing.has_focus))
