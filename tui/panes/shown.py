"""Result of a pane's query: the answer filtered and sorted, or a sentence saying why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..session.session import Arrangement, Session

if TYPE_CHECKING:
    from ...analysis.contract.options import Options
    from ...analysis.contract.view import Runs, View
    from ...analysis.table.table import Table


class Shown(Struct, frozen=True):
    """Result of a query: the answer as built (``base``), filtered and sorted (``table``), and the filter's error.

    ``rows`` is the table an export writes if it differs from the one on screen, ``plain`` what it is arranged from.
    """

    view: View
    base: Table
    table: Table
    coverage: float | None
    bad_filter: str = ""
    rows: Table | None = None
    plain: Table | None = None


def arranged(view: View, base: Table, arrangement: Arrangement) -> Shown:
    """The answer filtered and sorted; an invalid filter leaves all rows and sets ``bad_filter``."""
    from ...analysis.table.filters import BadFilter, unknown_column
    from ...analysis.table.table import coverage

    bad = ""
    try:
        table = arrangement.apply(base, view)
        if arrangement.filter and not len(table) and (wrong := unknown_column(arrangement.filter, base.columns)):
            raise BadFilter(wrong)
    except BadFilter as error:
        bad = str(error)
        table = replace(arrangement, filter="").apply(base, view)
    for names in base.names:
        len(names.names)  # computes the display names here, not on the UI thread
    for column in base.columns:
        if column.role == "name" and column.order is not None:
            base.widest(column.name)
    return Shown(view, base, table, coverage(base, table), bad)


def scoped_table(table: Table, runs: Runs, options: Options) -> Table:
    """The answer with the sentence that states its scope, which every export carries."""
    from ...analysis.core.run_labels import scope_text

    return replace(table, scope=scope_text(options, len(runs)))


def rows_of(shown: Shown, view: View, session: Session) -> str:
    """Which rows of the view those are: shape, run and scope."""
    from ...analysis.core.run_labels import scope_text

    scope = scope_text(session.question(view)[1], len(session.traces))
    return "|".join(("other" if shown.view is view.other else "", session.subject, scope))


ELSEWHERE = "Elsewhere: the key : lists the views that have data."


def absent(table: Table) -> str:
    """What an answer without rows says: what was looked for, why it may be missing, and where else to look."""
    lines = [f"○ {line}" for line in table.summary[:2]] or ["○ Nothing was recorded for this view."]
    return "\n".join((*lines, *table.notes[:2], ELSEWHERE))


def sentence(error: object) -> str:
    """The sentence for a failed query: the reason for CannotAnswer, that files are gone, or a request to report."""
    from ...analysis.contract.view import CannotAnswer
    from ...analysis.core.text import display

    if isinstance(error, CannotAnswer):
        return display(str(error))
    if isinstance(error, FileNotFoundError):
        return "Files that this is read from were removed."
    return (
        f"This view failed: {type(error).__name__}: {display(str(error), 300)}. The other views are not affected; "
        "please report it with the name of the format and of the view."
    )
