"""What a question of a pane came to: the answer, arranged as the user wants it, or a sentence why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..session.session import Arrangement

if TYPE_CHECKING:
    from ...analysis.contract.options import Options
    from ...analysis.contract.view import Runs, View
    from ...analysis.table.table import Table


class Shown(Struct, frozen=True):
    """What a question came to: the answer as built, the same arranged, and what went wrong with the arrangement.

    ``rows`` are those an export writes, where a screen shows them otherwise.
    """

    view: View
    base: Table
    table: Table
    coverage: float | None
    bad_filter: str = ""
    rows: Table | None = None


def arranged(view: View, base: Table, arrangement: Arrangement) -> Shown:
    """The answer filtered and ordered; a filter that cannot be understood leaves all rows and says so."""
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
        len(names.names)  # here and not on the way to the screen
    return Shown(view, base, table, coverage(base, table), bad)


def scoped_table(table: Table, runs: Runs, options: Options) -> Table:
    """The answer with the sentence that says what it was limited to, which every export carries."""
    from ...analysis.core.run_labels import scope_text

    return replace(table, scope=scope_text(options, len(runs)))


def sentence(error: object) -> str:
    """What to say of a question that failed: the reason where it is one, else that it is our fault."""
    from ...analysis.contract.view import CannotAnswer
    from ...analysis.core.text import display

    if isinstance(error, CannotAnswer):
        return display(str(error))
    return (
        f"This view failed: {type(error).__name__}: {display(str(error), 300)}. The other views are not affected; "
        "please report it with the name of the format and of the view."
    )
