"""The command ``report``: one view, or the summary of a run or a pair, on stdout or in a file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..analysis.views import VIEWS
from ..library import UsageError, table
from .arguments import (
    FINE,
    Command,
    ask,
    chosen_runs,
    labelled,
    open_runs,
    open_sides,
    opening_arguments,
    options_of,
    output_arguments,
    repeated,
    scope_arguments,
    side_arguments,
    view_arguments,
)
from .output import emit, format_of

if TYPE_CHECKING:
    from ..analysis.table.table import Table
    from ..loaders.trace import Trace


_FLAMES = {"ops": ("device", "idle"), "stacks": ("samples",)}  # Views with a flame graph, and its possible weights.


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a file, a directory of ranks, or - for stdin")
    parser.add_argument("--view", choices=[entry.name for entry in VIEWS], help="one view instead of the summary")
    parser.add_argument("--row", metavar="ID", help="the details of one row, by its id: kernel:3f2a, gap:17")
    parser.add_argument("--run", choices=["a", "b"], help="show only this one of two runs")
    parser.add_argument(
        "--samples", action="store_true", help="with --view metrics: the samples instead of one row per counter"
    )
    parser.add_argument("--tree", action="store_true", help="with --view ops: the tree of modules, operators and "
                        "kernels; with --view stacks: the call tree of each thread")
    parser.add_argument(
        "--flame", choices=["device", "idle", "samples"], help="with --format svg or folded: what the flame "
        "graph weighs: ops by device time or the idle time before launches (speedscope has both), stacks by samples")
    side_arguments(parser)
    opening_arguments(parser)
    scope_arguments(parser)
    view_arguments(parser)
    output_arguments(parser)


def print_report(arguments: argparse.Namespace) -> int:
    """Run ``report``; also ``open`` without a terminal."""
    if len(arguments.runs) > 2 or arguments.view == "history":
        return _print_many(arguments)
    samples = getattr(arguments, "samples", False)
    for option, of in (("samples", "metrics"), ("change", "whatif")):
        if getattr(arguments, option, None) and arguments.view != of:
            raise UsageError(f"--{option} needs --view {of}")
    if getattr(arguments, "tree", False) and (arguments.ids or getattr(arguments, "row", None)):
        raise UsageError("rows of a tree have no ids", "Leave --tree out: the rows of the list have ids.")
    if getattr(arguments, "baseline", None) or getattr(arguments, "candidate", None):
        return _print_sides(arguments)
    if not arguments.runs:
        raise UsageError("name a run, or two to compare")
    runs = open_runs(arguments.runs, arguments)
    if getattr(arguments, "row", None):
        if not arguments.output:
            arguments.format = arguments.format or "text"
        emit([_row(arguments, runs)], arguments)
        return FINE
    flame, chosen = getattr(arguments, "flame", None), format_of(arguments, ())
    if flame or chosen in ("folded", "speedscope"):
        if flame not in (None, *_FLAMES.get(arguments.view, ())) or arguments.view not in _FLAMES:
            raise UsageError("flame graphs need --view ops (--flame device or idle) or --view stacks (--flame samples)")
        if chosen not in ("svg", "folded", "speedscope"):
            raise UsageError(f"--flame writes no {chosen}, but svg, folded or speedscope",
                             "Name one with --format, or end -o in .svg, .folded or .speedscope.json.")
        arguments.tree = True
    if arguments.view is None and (arguments.filter or arguments.sort or getattr(arguments, "tree", False)):
        raise UsageError("--filter, --sort and --tree need one view: name it with --view")
    answers = ask(arguments, runs, "samples" if samples else arguments.view)
    emit([one.as_flame(flame) for one in answers] if flame else answers, arguments)
    return FINE


def _print_many(arguments: argparse.Namespace) -> int:
    """Print a view of many runs, by default their history. Raises UsageError."""
    from ..analysis.contract.options import Options
    from ..analysis.query.many import ANSWERED

    for option in ("tree", "row", "samples", "run"):
        if getattr(arguments, option, None):
            raise UsageError(f"--{option} is for one run, or two to compare")
    if arguments.view in ANSWERED:
        emit([_many(arguments)], arguments)
        return FINE
    if arguments.view not in (None, "history"):
        raise UsageError(f"{len(arguments.runs)} runs: the view {arguments.view} takes one run, or two to compare",
                         f"Views of more runs: {', '.join(ANSWERED)}, history.")
    if not arguments.runs:
        raise UsageError("name the runs of the history")
    if (options := options_of(arguments)) != Options(columns=options.columns):
        raise UsageError("a history is of whole recordings: no cycle, rank, device, process, time or change applies",
                         f"Views of more runs in a scope: {', '.join(ANSWERED)}.")
    from .many_runs import open_history, print_history

    print_history(open_history(arguments.runs, arguments)[0], arguments)
    return FINE


def _many(arguments: argparse.Namespace) -> Table:
    """A view of many runs: one column per run for people, all rows stacked for scripts. Raises UsageError."""
    from ..analysis.contract.view import CannotAnswer
    from ..analysis.query.many import across, many
    from ..analysis.table.filters import BadFilter, Filter

    runs = tuple(run for path in arguments.runs for run in open_runs([path], arguments)[:1])
    try:
        answer = many(arguments.view, runs, options_of(arguments))
        answer = answer.filtered(Filter(arguments.filter)) if arguments.filter else answer
    except (CannotAnswer, BadFilter) as error:
        raise UsageError(str(error)) from error
    if format_of(arguments, [answer]) in ("text", "md", "svg"):
        answer = across(answer)
    names = [column.name for column in answer.columns]
    if arguments.sort is not None and arguments.sort not in names:
        from ..analysis.core.text import nearest

        raise UsageError(f"no column {arguments.sort}", nearest(arguments.sort, names))
    return answer.sort(arguments.sort, not arguments.ascending) if arguments.sort else answer


def _row(arguments: argparse.Namespace, runs: tuple[Trace, ...]) -> Table:
    """One row with all its details. Raises UsageError."""
    from ..analysis.contract.view import CannotAnswer
    from ..analysis.core.text import nearest
    from ..analysis.query.row import row, view_of, words
    from ..analysis.views import view
    from ..loaders.ingest.event_arguments import arguments as recorded

    runs, options = chosen_runs(arguments, runs)
    of = view(arguments.view) if arguments.view else view_of(arguments.row, len(runs))
    if of is None:
        hint = nearest(arguments.row.partition(":")[0], words())
        raise UsageError(f"--row {arguments.row}: no rows have such ids", hint)
    answer = table(of.name, runs, options, per=arguments.per)
    try:
        return row(of, answer, arguments.row, runs, options, recorded)
    except CannotAnswer as error:
        raise UsageError(str(error), "--ids prints them." if answer.ids else "") from error


def _print_sides(arguments: argparse.Namespace) -> int:
    """Print the report of ``--baseline`` and ``--candidate``; for repeated runs only the diff."""
    sides = open_sides(arguments)
    if all(len(side) == 1 for side in sides):
        emit(ask(arguments, labelled(sides), arguments.view), arguments)
        return FINE
    if arguments.view not in (None, "diff"):
        raise UsageError(f"repeated runs are compared in the view diff, not in {arguments.view}")
    emit([repeated(sides, arguments)], arguments)
    return FINE


COMMAND = Command("report", "Print a view, or the summary of a run or a pair.", _arguments, print_report)
