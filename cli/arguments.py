"""Building blocks of commands: arguments that several of them share, and their conversion.

Paths become runs, arguments become options, a view name becomes tables, and tables become output. Importing this loads
nothing heavy. A command that cannot be carried out as typed raises ``UsageError``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from ..library import UsageError, table

if TYPE_CHECKING:
    from ..analysis.contract.options import Options
    from ..analysis.table.table import Table
    from ..loaders.trace import Trace

FINE, GATE_FAILED, USAGE, UNREADABLE, NOT_JUDGED = 0, 1, 2, 3, 4
STATUS = {"PASS": FINE, "FAIL": GATE_FAILED, "NOT JUDGED": NOT_JUDGED}
"""The exit status of each result of a gate."""
Moments = tuple[int, int]  # Time in A and in B, ns.
FORMATS = ("text", "md", "json", "svg", "csv", "parquet", "folded", "speedscope", "kernel-table")


class Command(NamedTuple):
    """One command: name, one line of help, and functions that add its arguments and run it (exit status). If it
    ``wraps`` another program, the words after ``--`` are that one's command line, in ``arguments.command``."""

    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    wraps: bool = False


class Failure(UsageError):
    """A command that was typed correctly and could not be carried out, with its exit status: refused, or in vain."""

    def __init__(self, message: str, hint: str = "", status: int = UNREADABLE) -> None:
        super().__init__(message, hint)
        self.status = status


def open_runs(paths: Sequence[str], arguments: argparse.Namespace) -> tuple[Trace, ...]:
    """Open one path or two; a file with two runs counts as two. Shows progress on a terminal."""
    from ..loaders.ingest.opening import open_run
    from .standard_streams import ProgressLine

    runs: list[Trace] = []
    view, capture = getattr(arguments, "view", None), getattr(arguments, "capture", None)
    if capture is not None and not Path(capture).is_file():
        raise UsageError(f"--capture {capture}: there is no such file")
    for path in paths:
        with ProgressLine(path) as progress:
            runs += open_run(
                path, worker=arguments.worker, align_s=arguments.align, use_cache=not arguments.no_cache,
                progress=importing_ahead(progress.update, view), capture=capture,
            )
    if arguments.align is not None and not any(run.info.facts.get("metric_files") for run in runs):
        raise UsageError("--align shifts counter files that lie next to a trace; give the folder that holds both")
    if len(runs) > 2:
        raise UsageError(f"{len(runs)} runs, but only two can be compared; choose one of a file with --worker")
    from ..analysis.core.run_labels import distinct_labels  # a large file's load has imported it by now

    return distinct_labels(tuple(runs))


_IMPORTED_AHEAD = 32 << 20  # Bytes left to read from which on modules are imported meanwhile.


def importing_ahead(progress: Callable[[int, int, int], None], view: str | None) -> Callable[[int, int, int], None]:
    """A progress callback that, while a large file is being read, also imports the modules the view will need."""
    begun = False

    def load() -> None:
        with suppress(Exception):  # the real import will raise it again
            for module in ("polars", "warplens.analysis.query.report", "warplens.analysis.cycles.detection"):
                import_module(module)
            if view is not None:
                import_module("warplens.analysis.views").view(view)

    def update(done: int, total: int, events: int) -> None:
        nonlocal begun
        if not begun and total - done >= _IMPORTED_AHEAD:
            begun = True
            Thread(target=load, daemon=True).start()
        progress(done, total, events)

    return update


def open_sides(arguments: argparse.Namespace) -> tuple[list[Trace], list[Trace]]:
    """The runs of ``--baseline`` and ``--candidate``; recordings of different ranks form one run. Raises UsageError."""
    from ..loaders.ingest.ranks import ranks_together

    if arguments.runs:
        raise UsageError("name the runs either with --baseline and --candidate or without, not both")
    if not arguments.baseline or not arguments.candidate:
        raise UsageError("--baseline and --candidate go together")
    sides = []
    for paths in (arguments.baseline, arguments.candidate):
        runs = [open_runs([path], arguments)[0] for path in paths]
        job = ranks_together(runs)
        sides.append(runs if job is None else [job])
    return sides[0], sides[1]


def side_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--baseline`` and ``--candidate``, several recordings each."""
    meaning = "recordings of the same ranks are repeated runs and show run-to-run noise; of different ranks, one job"
    parser.add_argument("--baseline", nargs="+", metavar="RUN", help=f"recordings of A: {meaning}")
    parser.add_argument("--candidate", nargs="+", metavar="RUN", help="recordings of B")


def options_of(arguments: argparse.Namespace) -> Options:
    """The requested scope, for every view."""
    from ..analysis.contract.options import Options

    return Options(cycle=arguments.cycle, cycle_b=arguments.cycle, **scope_of(arguments))


def scope_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The requested scope as fields of ``Options``, without the cycle, which the user can change in the app."""
    pid_a, pid_b = pids_of(arguments.pid)
    columns, changes = getattr(arguments, "columns", 100), tuple(getattr(arguments, "change", ()))
    return {
        "cycle_anchor": arguments.cycle_anchor, "pid_a": pid_a, "pid_b": pid_b, "rank": arguments.rank,
        "rank_b": arguments.rank, "device": arguments.device, **_window(arguments.from_ns, arguments.to_ns),
        "columns": columns, "changes": changes, "warm_up": not arguments.no_warm_up,
    }


def _window(first: Moments | None, last: Moments | None) -> dict[str, Any]:
    """The time window, and B's window if it differs."""
    (a, b), (end_a, end_b) = first or (None, None), last or (None, None)
    return {"from_ns": a, "to_ns": end_a, "window_b": (b, end_b) if (a, end_a) != (b, end_b) else None}


def pids_of(text: str | None) -> tuple[int | None, int | None]:
    """The pids in ``A`` or ``A:B``. Raises UsageError."""
    if text is None:
        return None, None
    first, _, second = text.partition(":")
    try:
        return int(first), int(second or first)
    except ValueError:
        raise UsageError(f"--pid {text}: give A or A:B, two process numbers") from None


def no_arguments(parser: argparse.ArgumentParser) -> None:
    """For commands without arguments."""


def opening_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for opening runs."""
    group = parser.add_argument_group("opening")
    worker_argument(group)
    group.add_argument("--capture", metavar="FILE", help="the recording in which the run's graphs were captured: it "
                       "has the operators of their kernels; default: the folder capture_traces next to the trace")
    group.add_argument("--no-cache", action="store_true", help="neither read nor write the cache")
    group.add_argument(
        "--align", type=_seconds, metavar="SECONDS",
        help="when the counter files begin, in seconds from the start of the trace, instead of by their clocks",
    )
    limit_argument(group)


def worker_argument(group: argparse._ActionsContainer) -> None:
    """Add ``--worker``, which selects one run of a file with several."""
    group.add_argument("--worker", type=_number, metavar="N", help="take the Nth run of a file with several, from 0")


def limit_argument(group: argparse._ActionsContainer) -> None:
    """Add ``--limit``, which raises a limit on inputs."""
    group.add_argument(
        "--limit", action="append", type=_limit, metavar="NAME=VALUE",
        help="raise a limit on inputs, as in header=64M; the error names the limit",
    )


def scope_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that restrict the runs to a scope."""
    group = parser.add_argument_group("scope")
    group.add_argument("--cycle", type=_number, metavar="N", help="only this cycle")
    group.add_argument("--rank", type=_number, metavar="N", help="only this rank of a job")
    group.add_argument("--device", metavar="NAME", help="only this device, as the views name it: 'GPU 3'")
    group.add_argument("--pid", metavar="A[:B]", help="only this process, or pair of processes")
    group.add_argument(
        "--from", dest="from_ns", type=_moments, metavar="A[:B]",
        help="only what begins at this time or later, in ns or with a unit: 1.5ms, or 1.5ms:20ms for two runs"
    )
    group.add_argument(
        "--to", dest="to_ns", type=_moments, metavar="A[:B]",
        help="only what begins before this time; all count from the start of their trace",
    )
    group.add_argument(
        "--cycle-anchor", type=_pattern, metavar="REGEX", help="take the slices of this name as the cycles"
    )
    group.add_argument("--no-warm-up", action="store_true", help="leave warm-up cycles out")


def view_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of single views, and ``--per``."""
    parser.add_argument("--columns", type=_columns, default=100, metavar="N",
                        help="with --view timeline: its width in columns")
    parser.add_argument(
        "--change", action="append", default=[], type=_change, metavar="KIND:REGEX=FACTOR",
        help="with --view whatif: replay the run with this change: kernel:gemm=0.5, host=0, graph; several "
        "together are one change",
    )
    parser.add_argument("--per", choices=("cycle", "recording"), default="cycle",
                        help="compare the sums of two runs per cycle (default, where both have cycles) or per "
                        "recording")


def named_file(text: str) -> str:
    """A name of a file to write; an empty one, as of a variable that is not set, is refused."""
    if not text:
        raise argparse.ArgumentTypeError("no file is named")
    return text


def output_arguments(parser: argparse.ArgumentParser, more: tuple[str, ...] = ()) -> None:
    """Add the options for rows, format (``more``: further formats) and output file."""
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=(*FORMATS, *more), help="default: text, or by the suffix of -o")
    group.add_argument("-o", "--output", metavar="FILE", type=named_file,
                       help="write here instead of stdout")
    group.add_argument("--top", type=_whole, metavar="N",
                       help="only the first N rows, 0: all; default: 50 of text and markdown on stdout")
    group.add_argument("--sort", metavar="COLUMN", help="order by this column, largest first")
    group.add_argument("--ascending", action="store_true", help="with --sort: smallest first")
    group.add_argument("--name-width", type=whole_number, metavar="N",
                       help="add the column `shown`: the name as a list shortens it to N cells")
    group.add_argument("--ids", action="store_true", help="print the id of each row, which report --row takes")
    group.add_argument("--filter", metavar="EXPR", help="only matching rows: text, column>value, name~regex; ! inverts")


def _limit(text: str) -> str:
    """Set a limit at once, for this process and the reading worker process."""
    from ..loaders.ingest import limits

    try:
        limits.adjust(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _change(text: str) -> str:
    from ..analysis.contract.changes import NotAChange, parse

    try:
        return parse(text).text
    except NotAChange as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text} is not a regular expression: {error}") from None
    return text


def whole_number(text: str) -> int:
    """Parse an integer of at least 1."""
    if not re.fullmatch(r"\+?[0-9]{1,9}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def _number(text: str) -> int:
    if not re.fullmatch(r"[-+]?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(text)


def _columns(text: str) -> int:
    from ..analysis.contract.options import number_of_columns

    try:
        return number_of_columns(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _whole(text: str) -> int:
    if not re.fullmatch(r"\+?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of rows; give 0 or more")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[-+]?[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds; give one as in 12.5 or -3")
    return float(text)


def _moments(text: str) -> Moments:
    """Parse ``A`` or ``A:B`` into a time of A and of B, ns."""
    from ..analysis.core.units import nanoseconds

    first, _, second = text.partition(":")
    try:
        return nanoseconds(first), nanoseconds(second or first)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a time; give nanoseconds or a unit: 1.5ms, 20us, 2s") from None


def ask(arguments: argparse.Namespace, runs: tuple[Trace, ...], name: str | None) -> list[Table]:
    """The tables of view ``name``, or of the summary if None, for the chosen runs. Raises UsageError."""
    from ..analysis.contract.view import CannotAnswer
    from ..analysis.cycles.statement import find_ahead
    from ..analysis.query.report import summary

    runs, options = chosen_runs(arguments, runs)
    if arguments.format == "json" and options == options.without_part():
        find_ahead(runs, options)  # every JSON answer includes the cycles
    rows: dict[str, Any] = {"name_width": arguments.name_width, "per": arguments.per}
    if name is not None:
        return [table(name, runs, options, filter=arguments.filter, sort=arguments.sort, ascending=arguments.ascending,
                      tree=getattr(arguments, "tree", False), **rows)]
    try:
        return summary(runs, options, **rows)
    except CannotAnswer as error:
        raise UsageError(str(error)) from error


def chosen_runs(arguments: argparse.Namespace, runs: tuple[Trace, ...]) -> tuple[tuple[Trace, ...], Options]:
    """The runs, or the one selected by ``--run``, and their options. Raises UsageError."""
    options, run = options_of(arguments), getattr(arguments, "run", None)
    if run is None:
        return runs, options
    if len(runs) < 2:
        raise UsageError(f"--run {run} chooses one of two runs; only one is given")
    return (runs[:1], options) if run == "a" else (runs[1:], options.swapped())


def labelled(sides: tuple[list[Trace], list[Trace]]) -> tuple[Trace, ...]:
    """The only run of each side, with distinct labels."""
    from ..analysis.core.run_labels import distinct_labels

    return distinct_labels((sides[0][0], sides[1][0]))


def repeated(sides: tuple[list[Trace], list[Trace]], arguments: argparse.Namespace) -> Table:
    """The diff of repeated runs, each restricted to the requested scope. Raises UsageError."""
    from ..analysis.contract.options import SIDES
    from ..analysis.contract.view import CannotAnswer
    from ..analysis.cycles.scope import scoped
    from ..analysis.diff.pooled import pooled

    options = options_of(arguments)
    try:
        baseline, candidate = (
            [scoped(run, options, of) for run in side] for side, of in zip(sides, SIDES, strict=True)
        )
        return pooled(baseline, candidate, options.without_part().any_cycle())
    except CannotAnswer as error:
        raise UsageError(str(error)) from error
