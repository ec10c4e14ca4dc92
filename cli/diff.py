"""The command ``diff``: compare two runs, or two sets of repeated runs, with an exit status for CI.

``--fail-on`` makes it a gate: the table always goes to stdout, the gate's verdict to stderr, and the exit status is 1
if the gate fails, 4 if it could not be judged. The gate judges the whole comparison, including the rows that ``--top``
does not print.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..library import UsageError
from .arguments import (
    FINE,
    STATUS,
    Command,
    ask,
    labelled,
    open_runs,
    open_sides,
    opening_arguments,
    output_arguments,
    repeated,
    scope_arguments,
    side_arguments,
    view_arguments,
)
from .junit import Case, junit, require_gate
from .output import JUNIT, emit, write

if TYPE_CHECKING:
    from ..analysis.table.table import Table


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    from ..analysis.diff.gate_rule import HELP, METAVAR

    parser.add_argument("runs", nargs="*", metavar="RUN", help="two runs, or one file that holds two")
    parser.add_argument("--fail-on", action="append", metavar=METAVAR, help=HELP.replace("%", "%%"))
    side_arguments(parser)
    opening_arguments(parser)
    scope_arguments(parser)
    view_arguments(parser)
    output_arguments(parser, (JUNIT,))


def _diff(arguments: argparse.Namespace) -> int:
    from ..analysis.diff.gate_rule import condition_of

    try:
        conditions = [condition_of(text) for text in arguments.fail_on or ()]
    except ValueError as error:
        raise UsageError(str(error)) from error
    require_gate(arguments)
    top, arguments.top = arguments.top, None
    table = _compared(arguments)
    arguments.top = top
    if not conditions:
        emit([table], arguments)
        return FINE
    from ..analysis.core.text import display
    from ..analysis.diff.gate import sentence, with_gates, worst

    table, gates = with_gates(table, list(zip(arguments.fail_on, conditions, strict=True)))
    emit([table], arguments)
    if arguments.format == JUNIT:
        write([junit("diff", [Case(one.gate, one.result, one.sentence) for one in gates])], arguments)
    print(display(sentence(table, gates, {one.name for one in conditions})), file=sys.stderr)
    return STATUS[worst(gates)]


def _compared(arguments: argparse.Namespace) -> Table:
    if not arguments.baseline and not arguments.candidate:
        if len(arguments.runs) not in (1, 2):
            raise UsageError(f"{len(arguments.runs)} runs: name two to compare, or one file that holds two")
        return ask(arguments, open_runs(arguments.runs, arguments), "diff")[0]
    sides = open_sides(arguments)
    if all(len(side) == 1 for side in sides):
        return ask(arguments, labelled(sides), "diff")[0]
    return repeated(sides, arguments)


COMMAND = Command("diff", "Compare two runs; the same as report --view diff.", _diff_arguments, _diff)
