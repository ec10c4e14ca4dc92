"""What the lines around a pane say: pure functions from the state of a pane to a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...analysis.core import units
from ...analysis.core.text import display
from ..app.session import Session

if TYPE_CHECKING:
    from .table import TablePane

def header_text(session: Session, headline: str) -> str:
    """What is open: the headline of the analysis once there is one, the names until then."""
    if headline:
        return headline
    return " → ".join(display(run.name, 40) for run in session.inputs) or "no trace is open"


def order_text(pane: TablePane) -> str:
    """The column sorted by and its direction, or what order the view has by itself."""
    table = pane.table
    if table is None:
        return ""
    if table.sorted_by is None:
        return "as recorded" if table.columns[0].role == "order" else "ranked"
    header = next((column.header for column in table.columns if column.name == table.sorted_by), table.sorted_by)
    return f"{header} {'↓' if table.descending else '↑'}"


def subject_text(pane: TablePane) -> str:
    """Which of two runs the rows on the screen are of, where that is a choice."""
    if pane.shown is None:
        return ""
    subjects = pane.session.subjects(pane.shown.view)
    if len(subjects) < 2:
        return ""
    now = pane.subject if pane.subject in subjects else subjects[0]
    return {"both": "A and B", "A": "run A", "B": "run B"}[now]


def same_text(pane: TablePane) -> str:
    """What all rows have in common, and so is no column."""
    return pane.shown.table.same_line if pane.shown else ""


def rows_text(pane: TablePane, narrow: bool) -> str:
    """How many of how many rows, and what share of the time they stand for."""
    shown = pane.shown
    if shown is None:
        return ""
    if shown.bad_filter:
        return display(shown.bad_filter, 60)
    total, rows = units.count(shown.table.total_rows), units.count(len(shown.table))
    text = f"{rows} of {total}" + ("" if narrow else f" {shown.view.noun}")
    if shown.coverage is not None:
        text += f", {100 * shown.coverage:.0f}% of time"
    if pane.session.partial:
        text += ", loading"
    return text
