"""Texts of the header and of the border around the rows: pure functions of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...analysis.core import units
from ...analysis.core.text import display
from ..list.frame import Frame, Pieces, dim, pieces_of
from ..session.session import Session, ViewState

if TYPE_CHECKING:
    from ...analysis.contract.view import View
    from ...analysis.table.table import Table
    from ...analysis.views import Entry
    from .shown import Shown


ORDERS = {
    "diff": "worst first", "triage": "worst first", "idle": "longest first", "roofline": "most lost first",
    "pairs": "most suspicious first", "samples": "as recorded", "ranks": "most waited for first",
}
"""Own order of the views whose rows are not sorted largest first."""


def header_text(session: Session, headline: str) -> str:
    """The headline of the analysis once it is there; until then the names of the inputs."""
    if headline:
        return f"preview: {headline}" if session.preview else headline
    return " → ".join(display(run.name, 40) for run in session.inputs) or "no trace is open"


def frame_text(
    session: Session, entry: Entry, state: ViewState, view: View | None, shown: Shown | None, subject: str,
    narrow: bool,
) -> Frame:
    """Title, order, search, marks, filter, scope and row count, for the border of the rows."""
    table = shown.table if shown else None
    arrangement = state.arrangement
    matches = units.counted(state.matches, "match", "matches") if state.matches else "no match"
    search = ((f"/{display(state.search, 24)} {matches}", "warn"),) if state.search else ()
    marks: Pieces = ((f"{len(state.marks)} marked", "mark"),) if state.marks else ()
    filtered = dim("no filter")
    if arrangement.filter:
        filtered = ((f" {'not ' if arrangement.invert else ''}{display(arrangement.filter, 40)} ", "match"),)
    scope: Pieces = ((session.scope_text, "warn"),) if session.scope_text else dim("all cycles")
    in_force = (filtered, scope) if arrangement.filter or not session.scope_text else (scope, filtered)
    per = dim(f"per {table.per}") if table is not None and table.per else ()
    which = subject_text(session, view, subject)
    same = dim(table.same_line) if table is not None else ()
    return Frame(
        title=entry.title if view is None or view.noun == "rows" else _noun(view, table).capitalize(),
        note=pieces_of((dim(order_text(table)), search, marks)),
        right=pieces_of((*in_force, per, ((which, "top"),) if which else (), same), " · "),
        position=dim(rows_text(shown, session, narrow)),
    )


def _noun(view: View, table: Table | None) -> str:
    """The noun for the rows, which may differ between one run and two."""
    return view.pair_noun or view.noun if table is not None and table.per else view.noun


def order_text(table: Table | None) -> str:
    """The sort column and its direction, or the view's own order."""
    if table is None:
        return ""
    if table.sorted_by is None:
        if table.view in ORDERS and not table.per:
            return ORDERS[table.view]
        listed = {"order": "as recorded", "tree": "as a tree", "place": "longest first"}
        if table.columns[0].heading:
            return "by section"
        if table.columns[0].role in listed:
            return listed[table.columns[0].role]
        changes = table.view != "diff" and (table.per is not None or any(one.side == "delta" for one in table.columns))
        return "largest change first" if changes else ORDERS.get(table.view, "largest first")
    header = next((column.header for column in table.columns if column.name == table.sorted_by), table.sorted_by)
    return f"{header} {'↓' if table.descending else '↑'}"


def subject_text(session: Session, view: View | None, subject: str) -> str:
    """Which of two runs the rows belong to, where the user has a choice."""
    if view is None:
        return ""
    subjects = session.subjects(view)
    if len(subjects) < 2:
        return ""
    now = subject if subject in subjects else subjects[0]
    return {"both": "A and B", "A": "run A", "B": "run B"}[now]


def rows_text(shown: Shown | None, session: Session, narrow: bool) -> str:
    """Rows shown of all rows, and their share of the time (unknown while only the first rows are loaded)."""
    if shown is None:
        return ""
    if shown.bad_filter:
        return display(shown.bad_filter, 60)
    table = shown.table
    rows = len(table)
    if table.view == "diff":
        from ...analysis.diff.groups import heads

        rows = min(rows - heads(table), table.total_rows)
    text = f"{units.count(rows)} of {units.count(table.total_rows)}"
    text += ("" if narrow else f" {_noun(shown.view, shown.table)}")
    if session.preview:
        text = f"preview: {text}" if narrow else f"preview of what was read first: {text}"
    elif shown.coverage is not None:
        text += f", {100 * shown.coverage:.0f}% of time"
    return f"{text}, loading" if session.loading else text
