"""SQL: a question of the reader's own, in polars' SQL over the tables of the run or of both.

The view itself answers nothing: the app asks ``analysis.table.sql`` with what was typed, the command line has
``warplens sql``.
"""

from __future__ import annotations

from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer, Runs, View


def build(runs: Runs, options: Options) -> Answer:
    """Raises CannotAnswer: without a query there is nothing to answer."""
    tables, names = ("kernels", "RUN") if len(runs) == 1 else ("a_kernels", "A B")
    raise CannotAnswer(f'This view takes a query: warplens sql {names} "select name, dur_ns from {tables} limit 10".')


VIEW = View("sql", (), build, free_columns=True, noun="rows")
