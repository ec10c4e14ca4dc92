"""What the lines around a pane say: pure functions from what is shown to a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...analysis.core import units
from ...analysis.core.text import display
from ..session.session import Session

if TYPE_CHECKING:
    from ...analysis.contract.view import View
    from ...analysis.table.table import Table
    from .shown import Shown


def header_text(session: Session, headline: str) -> str:
    """What is open: the headline of the analysis once there is one, the names until then."""
    if headline:
        return f"preview: {headline}" if session.preview else headline
    return " → ".join(display(run.name, 40) for run in session.inputs) or "no trace is open"


def order_text(table: Table | None) -> str:
    """The column sorted by and its direction, or what order the view has by itself."""
    if table is None:
        return ""
    if table.sorted_by is None:
        return {"order": "as recorded", "tree": "as a tree"}.get(table.columns[0].role, "ranked")
    header = next((column.header for column in table.columns if column.name == table.sorted_by), table.sorted_by)
    return f"{header} {'↓' if table.descending else '↑'}"


def subject_text(session: Session, view: View | None, subject: str) -> str:
    """Which of two runs what is on the screen is of, where that is a choice."""
    if view is None:
        return ""
    subjects = session.subjects(view)
    if len(subjects) < 2:
        return ""
    now = subject if subject in subjects else subjects[0]
    return {"both": "A and B", "A": "run A", "B": "run B"}[now]


def same_text(shown: Shown | None) -> str:
    """What all rows have in common, and so is no column."""
    return shown.table.same_line if shown else ""


def per_text(shown: Shown | None) -> str:
    """What the sums of two runs are compared per, where they are."""
    return f"per {shown.table.per}" if shown and shown.table.per else ""


def rows_text(shown: Shown | None, session: Session, narrow: bool) -> str:
    """How many of how many rows, and what share of the time they stand for, which of the first rows nobody knows."""
    if shown is None:
        return ""
    if shown.bad_filter:
        return display(shown.bad_filter, 60)
    total, rows = units.count(shown.table.total_rows), units.count(len(shown.table))
    text = f"{rows} of {total}" + ("" if narrow else f" {shown.view.noun}")
    if session.preview:
        text = f"preview: {text}" if narrow else f"preview of what was read first: {text}"
    elif shown.coverage is not None:
        text += f", {100 * shown.coverage:.0f}% of time"
    return f"{text}, loading" if session.loading else text
