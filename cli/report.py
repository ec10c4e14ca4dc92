"""The command ``report``: one view, or the summary of a run or a pair, on standard output or in a file."""

from __future__ import annotations

import argparse

from ..analysis.views import VIEWS
from .arguments import FINE, Command, Wrong, ask, emit, open_runs, opening_arguments, output_arguments, scope_arguments


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a file, a directory of ranks, or - for stdin")
    parser.add_argument("--view", choices=[entry.name for entry in VIEWS], help="one view instead of the summary")
    parser.add_argument("--run", choices=["a", "b"], help="show only this one of two runs")
    parser.add_argument(
        "--samples", action="store_true", help="with --view metrics: the samples themselves instead of a row a counter"
    )
    opening_arguments(parser)
    scope_arguments(parser)
    output_arguments(parser)


def print_report(arguments: argparse.Namespace) -> int:
    """What ``report`` does, and ``open`` where there is no terminal."""
    if len(arguments.runs) > 2:
        raise Wrong(f"{len(arguments.runs)} runs: name one, or two to compare")
    samples = getattr(arguments, "samples", False)
    if samples and arguments.view != "metrics":
        raise Wrong("--samples goes with --view metrics")
    runs = open_runs(arguments.runs, arguments)
    if arguments.view is None and (arguments.filter or arguments.sort):
        raise Wrong("--filter and --sort are for one view; name it with --view")
    emit(ask(arguments, runs, "samples" if samples else arguments.view), arguments)
    return FINE


REPORT = Command("report", "Print a view, or the summary of a run or a pair.", _arguments, print_report)
