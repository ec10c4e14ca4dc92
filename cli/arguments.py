"""What commands are made of: the arguments several of them take, and what those become.

A path becomes runs, the arguments become options, a question becomes tables and tables become output. Importing this
loads nothing heavy. A command that cannot be carried out as typed raises ``Wrong``.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..analysis.core.options import Options
    from ..analysis.table.table import Table
    from ..loaders.trace import Trace

FINE, GATE_FAILED, USAGE, UNREADABLE = 0, 1, 2, 3
FORMATS = ("text", "md", "json", "csv", "parquet", "kernel-table")
_ACTING = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]")
"""What JSON leaves as it is and a terminal acts on."""


class Wrong(Exception):
    """The command cannot be carried out as typed; the message says why."""


class Command(NamedTuple):
    """One command: a line of help, its arguments, and what it does."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def open_runs(paths: Sequence[str], arguments: argparse.Namespace) -> tuple[Trace, ...]:
    """Open one path or two; a file that holds two runs is two. Shows progress on a terminal."""
    from ..loaders.ingest.opening import open_run
    from ..loaders.ingest.progress import Progress

    runs: list[Trace] = []
    for path in paths:
        with Progress(path) as progress:
            runs += open_run(
                path, worker=arguments.worker, use_cache=not arguments.no_cache, progress=progress.update
            )
    if len(runs) > 2:
        raise Wrong(f"{len(runs)} runs: two can be compared; choose one of a file's with --worker")
    return tuple(runs)


def options_of(arguments: argparse.Namespace) -> Options:
    """The scope that was asked for, for every view."""
    from ..analysis.core.options import Options

    pid_a, pid_b = pids_of(arguments.pid)
    return Options(
        cycle=arguments.cycle, cycle_b=arguments.cycle, cycle_anchor=arguments.cycle_anchor, pid_a=pid_a, pid_b=pid_b,
        warm_up=not arguments.no_warm_up,
    )


def pids_of(text: str | None) -> tuple[int | None, int | None]:
    """The processes in ``A`` or ``A:B``. Raises Wrong."""
    if text is None:
        return None, None
    first, _, second = text.partition(":")
    try:
        return int(first), int(second or first)
    except ValueError:
        raise Wrong(f"--pid {text}: give A or A:B, two process numbers") from None


def opening_arguments(parser: argparse.ArgumentParser) -> None:
    """How runs are opened."""
    group = parser.add_argument_group("opening")
    group.add_argument("--worker", type=int, metavar="N", help="of a file with several runs, only the Nth, from 0")
    group.add_argument("--no-cache", action="store_true", help="neither read nor write the cache")
    group.add_argument(
        "--limit", action="append", type=_limit, metavar="NAME=VALUE",
        help="raise what an input may ask for, as in header=64M; a refusal names the limit",
    )


def scope_arguments(parser: argparse.ArgumentParser) -> None:
    """What part of the runs is looked at."""
    group = parser.add_argument_group("scope")
    group.add_argument("--cycle", type=int, metavar="N", help="only this cycle")
    group.add_argument(
        "--cycle-anchor", type=_pattern, metavar="REGEX", help="take the slices of this name as the cycles"
    )
    group.add_argument("--no-warm-up", action="store_true", help="leave warm-up cycles out")
    group.add_argument("--pid", metavar="A[:B]", help="only this process, or pair of processes")


def output_arguments(parser: argparse.ArgumentParser) -> None:
    """Which rows come out, as what, and where to."""
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=FORMATS, help="default: text, or what the suffix of -o says")
    group.add_argument("-o", "--output", metavar="FILE", help="write here instead of stdout")
    group.add_argument("--top", type=_whole, metavar="N", help="only the first N rows")
    group.add_argument("--sort", metavar="COLUMN", help="order by this column, largest first")
    group.add_argument("--ascending", action="store_true", help="with --sort: smallest first")
    group.add_argument("--filter", metavar="EXPR", help="only matching rows: text, column>value, name~regex, !inverted")


def _limit(text: str) -> str:
    """Set a limit at once, for this process and the one that reads."""
    from ..loaders.ingest import limits

    try:
        limits.adjust(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text} is no regular expression: {error}") from None
    return text


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _format_of(arguments: argparse.Namespace) -> str:
    if arguments.format:
        return str(arguments.format)
    suffix = Path(arguments.output).suffix if arguments.output else ""
    return {".md": "md", ".json": "json", ".csv": "csv", ".parquet": "parquet"}.get(suffix, "text")


def emit(tables: Sequence[Table], arguments: argparse.Namespace) -> None:
    """Render the tables and write them to stdout or the file that was named."""
    from ..analysis.core.text import display
    from ..analysis.table.export import WrongFormat, render

    chosen = _format_of(arguments)
    if chosen == "parquet" and not arguments.output and sys.stdout.isatty():
        raise Wrong("parquet is binary; name a file with -o")
    try:
        made = render(tables, chosen)
    except WrongFormat as error:
        raise Wrong(str(error)) from error
    if arguments.output and arguments.output != "-":
        Path(arguments.output).write_bytes(made)
        print(f"wrote {display(arguments.output)}", file=sys.stderr)
    else:
        sys.stdout.buffer.write(_for_terminal(made, chosen) if sys.stdout.isatty() else made)
        sys.stdout.buffer.flush()


def _for_terminal(made: bytes, format: str) -> bytes:
    """What scripts get as recorded, made harmless for the eye: JSON by its own escapes, else by visible symbols."""
    import json

    from ..analysis.core.text import visible

    text = made.decode(errors="replace")
    if format == "json":
        text = _ACTING.sub(lambda match: json.dumps(match[0])[1:-1], text)
    return "\n".join(visible(line) for line in text.split("\n")).encode()


def print_path(path: Path) -> None:
    """A path on stdout: its bytes as they are for a script, display text for a terminal."""
    from ..analysis.core.text import display

    shown = display(str(path)).encode() if sys.stdout.isatty() else os.fsencode(path)
    sys.stdout.buffer.write(shown + b"\n")
    sys.stdout.buffer.flush()


def ask(arguments: argparse.Namespace, runs: tuple[Trace, ...], name: str | None) -> list[Table]:
    """The answer of a view, or of the summary where no view is named. Raises Wrong."""
    from ..analysis.table.filters import BadFilter, Filter
    from ..analysis.table.view import CannotAnswer
    from ..analysis.views.report import NoSuchColumn, report, summary

    try:
        if name is None:
            return summary(runs, options_of(arguments), top=arguments.top)
        condition = Filter(arguments.filter) if arguments.filter else None
        return [
            report(
                name, runs, options_of(arguments), condition=condition, sort=arguments.sort,
                ascending=arguments.ascending, top=arguments.top,
            )
        ]
    except (BadFilter, NoSuchColumn, CannotAnswer) as error:
        raise Wrong(str(error)) from error
