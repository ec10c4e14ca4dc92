"""The command ``history``: step changes over many runs of one job, and a gate for the nightly build.

On a terminal it opens the app.
"""

from __future__ import annotations

import argparse
import sys

from ..library import UsageError
from .arguments import FINE, STATUS, Command, limit_argument, output_arguments, worker_argument
from .junit import Case, junit, require_gate
from .many_runs import open_history, print_history
from .output import JUNIT, write


def _arguments(parser: argparse.ArgumentParser) -> None:
    from ..analysis.history.gate import HELP, METAVAR

    parser.add_argument("runs", nargs="*", metavar="RUN",
                        help="runs in their order; one folder: the runs in it, by recorded time, else file time")
    parser.add_argument("--list", metavar="FILE", help="runs from a file: one path per line, and a label after a tab")
    parser.add_argument("--store", metavar="FILE", help="store what history needs of the runs in this Parquet file, "
                        "and show all runs in it; the recordings may then be deleted")
    parser.add_argument("--fail-on", metavar=METAVAR, help=HELP)
    parser.add_argument("--each-run", action="store_true", help="one row per run instead of one per series")
    parser.add_argument("--no-cache", action="store_true", help="neither read nor write the cache")
    worker_argument(parser)
    limit_argument(parser)
    output_arguments(parser, (JUNIT,))


def _history(arguments: argparse.Namespace) -> int:
    from ..analysis.core.text import display
    from ..analysis.history.gate import gate, percent_of

    try:
        percent = percent_of(arguments.fail_on) if arguments.fail_on else None
    except ValueError as error:
        raise UsageError(str(error)) from error
    require_gate(arguments)
    run, lost = open_history(arguments.runs, arguments)
    if percent is None and not (arguments.format or arguments.output or arguments.each_run) and sys.stdout.isatty():
        from .open import open_history_in_app

        return open_history_in_app(run)
    facts = print_history(run, arguments)
    if percent is None:
        return FINE
    if lost is not None:
        raise lost
    result, sentence = gate(facts, percent)
    if arguments.format == JUNIT:
        write([junit("history", [Case(arguments.fail_on, result, sentence)])], arguments)
    print(display(sentence), file=sys.stderr)
    return STATUS[result]


COMMAND = Command("history", "Find step changes over many runs of one job: what, when, how much.", _arguments, _history)
