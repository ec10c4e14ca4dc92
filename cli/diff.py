"""The command ``diff``: two runs held against each other, or repeated ones, with a status a build can stop at.

``--fail-on`` makes it a gate: the table goes to stdout whatever it says, the sentence of the gate to stderr, and the
exit status is 1 where it fails. The gate judges the whole comparison, also the rows ``--top`` does not print.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from .arguments import (
    FINE,
    GATE_FAILED,
    Command,
    Wrong,
    ask,
    emit,
    open_runs,
    opening_arguments,
    options_of,
    output_arguments,
    scope_arguments,
)

if TYPE_CHECKING:
    from ..analysis.table.table import Table


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    from ..analysis.diff.verdict.gate_rule import RULE

    parser.add_argument("runs", nargs="*", metavar="RUN", help="two runs, or one file that holds two")
    parser.add_argument("--fail-on", metavar="regression[:PCT]", help=RULE.replace("%", "%%"))
    parser.add_argument("--baseline", nargs="+", metavar="RUN", help="repeated runs of A, which show the noise")
    parser.add_argument("--candidate", nargs="+", metavar="RUN", help="repeated runs of B")
    opening_arguments(parser)
    scope_arguments(parser)
    output_arguments(parser)


def _diff(arguments: argparse.Namespace) -> int:
    from ..analysis.diff.verdict.gate_rule import percent_of

    try:
        percent = percent_of(arguments.fail_on) if arguments.fail_on else None
    except ValueError as error:
        raise Wrong(str(error)) from error
    top, arguments.top = arguments.top, None
    table = _compared(arguments)
    emit([table if top is None else table.head(top)], arguments)
    if percent is None:
        return FINE
    from ..analysis.core.text import display
    from ..analysis.diff.verdict.gate import gate

    passed, sentence = gate(table, percent)
    print(display(sentence), file=sys.stderr)
    return FINE if passed else GATE_FAILED


def _compared(arguments: argparse.Namespace) -> Table:
    from ..analysis.core.options import SIDES
    from ..analysis.cycles.scope import scoped
    from ..analysis.diff.pooled import pooled
    from ..analysis.table.view import CannotAnswer

    sides = arguments.baseline or [], arguments.candidate or []
    if not any(sides):
        if len(arguments.runs) not in (1, 2):
            raise Wrong(f"{len(arguments.runs)} runs: name two to compare, or one file that holds two")
        return ask(arguments, open_runs(arguments.runs, arguments), "diff")[0]
    try:
        options = options_of(arguments)
        baseline, candidate = (
            [scoped(open_runs([path], arguments)[0], options, of) for path in side]
            for side, of in zip(sides, SIDES, strict=True)
        )
        return pooled(baseline, candidate, options.without_part().any_cycle())
    except CannotAnswer as error:
        raise Wrong(str(error)) from error


DIFF = Command("diff", "Compare two runs; the same as report --view diff.", _diff_arguments, _diff)
