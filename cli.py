"""The command line: what may be typed, and what each command does with it.

Importing this module loads nothing heavy; every command imports what it needs. Results go to stdout, diagnostics and
progress to stderr. Exit status: 0 fine, 1 a gate failed, 2 the command was wrong, 3 the input cannot be read.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__
from .analysis.views import VIEWS

if TYPE_CHECKING:
    from .analysis.options import Options
    from .analysis.table import Table
    from .loaders.discovery import Found
    from .loaders.process import Ingest
    from .loaders.trace import Trace

FINE, GATE_FAILED, USAGE, UNREADABLE = 0, 1, 2, 3
DEMO = Path(__file__).resolve().parent / "samples" / "demo"
FORMATS = ("text", "md", "json", "csv", "parquet", "kernel-table")


class Wrong(Exception):
    """The command cannot be carried out as typed; the message says why."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words and words[0] in COMMANDS and words[0] != "open" else None
    command = COMMANDS[name or "open"]
    parser = argparse.ArgumentParser(
        prog=f"warplens {name}" if name else "warplens", description=command.help, allow_abbrev=False,
        epilog=None if name else _overview(), formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if name is None:
        parser.add_argument("--version", action="version", version=f"warplens {__version__}")
    command.arguments(parser)
    arguments = parser.parse_args(words[1:] if name else words)
    return _guarded(command.run, arguments)


def _guarded(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; every error a user can cause becomes one sentence on stderr and its exit status."""
    from .loaders.errors import Unreadable

    try:
        return run(arguments)
    except Unreadable as error:
        return _say(str(error), UNREADABLE)
    except Wrong as error:
        return _say(str(error), USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return _say("stopped", 130)
    except OSError as error:
        return _say(f"{error.filename or 'output'}: {error.strerror or error}.", USAGE)


def _say(message: str, status: int) -> int:
    from .analysis.text import display

    print(f"warplens: {display(message)}", file=sys.stderr)
    return status


def _overview() -> str:
    return "commands:\n" + "\n".join(
        f"  {name:<9} {command.help.splitlines()[0]}" for name, command in COMMANDS.items() if name != "open"
    )


def _open(paths: Sequence[str], arguments: argparse.Namespace) -> tuple[Trace, ...]:
    """Open one path or two; a file that holds two runs is two. Shows progress on a terminal."""
    from .loaders.opening import open_run
    from .loaders.progress import Progress

    runs: list[Trace] = []
    for path in paths:
        with Progress(path) as progress:
            runs += open_run(
                path, worker=arguments.worker, use_cache=not arguments.no_cache, progress=progress.update
            )
    if len(runs) > 2:
        raise Wrong(f"{len(runs)} runs: two can be compared; choose one of a file's with --worker")
    return tuple(runs)


def _options(arguments: argparse.Namespace) -> Options:
    from .analysis.options import Options

    pid_a, pid_b = _pids(arguments.pid)
    return Options(
        cycle=arguments.cycle, cycle_b=arguments.cycle, cycle_anchor=arguments.cycle_anchor, pid_a=pid_a, pid_b=pid_b,
        warm_up=not arguments.no_warm_up,
    )


def _pids(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    first, _, second = text.partition(":")
    try:
        return int(first), int(second or first)
    except ValueError:
        raise Wrong(f"--pid {text}: give A or A:B, two process numbers") from None


def _opening_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("opening")
    group.add_argument("--worker", type=int, metavar="N", help="of a file with several runs, only the Nth, from 0")
    group.add_argument("--no-cache", action="store_true", help="neither read nor write the cache")


def _scope_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scope")
    group.add_argument("--cycle", type=int, metavar="N", help="only this cycle")
    group.add_argument(
        "--cycle-anchor", type=_pattern, metavar="REGEX", help="take the slices of this name as the cycles"
    )
    group.add_argument("--no-warm-up", action="store_true", help="leave warm-up cycles out")
    group.add_argument("--pid", metavar="A[:B]", help="only this process, or pair of processes")


def _output_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=FORMATS, help="default: text, or what the suffix of -o says")
    group.add_argument("-o", "--output", metavar="FILE", help="write here instead of stdout")
    group.add_argument("--top", type=_whole, metavar="N", help="only the first N rows")
    group.add_argument("--sort", metavar="COLUMN", help="order by this column, largest first")
    group.add_argument("--ascending", action="store_true", help="with --sort: smallest first")
    group.add_argument("--filter", metavar="EXPR", help="only matching rows: text, column>value, name~regex, !inverted")


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


def _emit(tables: Sequence[Table], arguments: argparse.Namespace) -> None:
    from .analysis.export import WrongFormat, render

    chosen = _format_of(arguments)
    if chosen == "parquet" and not arguments.output and sys.stdout.isatty():
        raise Wrong("parquet is binary; name a file with -o")
    try:
        made = render(tables, chosen)
    except WrongFormat as error:
        raise Wrong(str(error)) from error
    if arguments.output and arguments.output != "-":
        Path(arguments.output).write_bytes(made)
        print(f"wrote {arguments.output}", file=sys.stderr)
    else:
        sys.stdout.buffer.write(made)
        sys.stdout.buffer.flush()


def _ask(arguments: argparse.Namespace, runs: tuple[Trace, ...], name: str | None) -> list[Table]:
    from .analysis.filters import BadFilter, Filter
    from .analysis.report import NoSuchColumn, report, summary
    from .analysis.view import CannotAnswer

    try:
        if name is None:
            return summary(runs, _options(arguments), top=arguments.top)
        condition = Filter(arguments.filter) if arguments.filter else None
        return [
            report(
                name, runs, _options(arguments), condition=condition, sort=arguments.sort,
                ascending=arguments.ascending, top=arguments.top,
            )
        ]
    except (BadFilter, NoSuchColumn, CannotAnswer) as error:
        raise Wrong(str(error)) from error


@dataclass(frozen=True, slots=True)
class Command:
    """One command: a line of help, its arguments, and what it does."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    return None


def _app_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a file, a directory of ranks, or - for stdin")
    _demo_arguments(parser)


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--view", choices=[entry.name for entry in VIEWS], help="the view to begin with")
    parser.add_argument("--resume", action="store_true", help="go on where this run or pair was left")
    parser.add_argument("--watch", metavar="DIR", help="offer new traces as a profiler writes them here")
    parser.add_argument("--theme", metavar="NAME", help="colours: dark, light, terminal, monochrome")
    parser.add_argument("--ascii", action="store_true", help="no box, block or arrow glyphs")
    _opening_arguments(parser)
    _scope_arguments(parser)


def _app(arguments: argparse.Namespace) -> int:
    if len(arguments.runs) > 2:
        raise Wrong(f"{len(arguments.runs)} runs: name one, or two to compare")
    if not sys.stdout.isatty():
        if not arguments.runs:
            raise Wrong("name a run; without a terminal there is nothing to choose from")
        arguments.format = arguments.output = arguments.top = arguments.sort = arguments.filter = None
        arguments.ascending = False
        return _report(arguments)
    return _open_app(arguments)


def _open_app(arguments: argparse.Namespace) -> int:
    """The app on a terminal; hands in what the screens may not know: how traces are read and found."""
    from .tui.app import run
    from .tui.settings import BadSettings, load
    from .tui.start import Start

    try:
        settings = load(theme=arguments.theme, ascii=arguments.ascii)
    except BadSettings as error:
        raise Wrong(str(error)) from error

    def opener(path: str) -> Ingest:
        from .loaders.process import Ingest

        return Ingest(path, worker=arguments.worker, use_cache=not arguments.no_cache)

    def discover(folder: Path) -> Iterator[Found]:
        from .loaders.discovery import discover

        return discover(folder)

    pid_a, pid_b = _pids(arguments.pid)
    start = Start(
        view=arguments.view or "", resume=arguments.resume, watch=arguments.watch, cycle=arguments.cycle,
        options={
            "cycle_anchor": arguments.cycle_anchor, "pid_a": pid_a, "pid_b": pid_b, "warm_up": not arguments.no_warm_up,
        },
    )
    return run(arguments.runs, opener, discover, settings, start)


def _demo(arguments: argparse.Namespace) -> int:
    arguments.runs = [str(DEMO / "normal.json.gz"), str(DEMO / "abnormal.json.gz")]
    return _app(arguments)


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a file, a directory of ranks, or - for stdin")
    parser.add_argument("--view", choices=[entry.name for entry in VIEWS], help="one view instead of the summary")
    _opening_arguments(parser)
    _scope_arguments(parser)
    _output_arguments(parser)


def _report(arguments: argparse.Namespace) -> int:
    if len(arguments.runs) > 2:
        raise Wrong(f"{len(arguments.runs)} runs: name one, or two to compare")
    runs = _open(arguments.runs, arguments)
    if arguments.view is None and (arguments.filter or arguments.sort):
        raise Wrong("--filter and --sort are for one view; name it with --view")
    _emit(_ask(arguments, runs, arguments.view), arguments)
    return FINE


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    from .analysis.gate_rule import RULE

    parser.add_argument("runs", nargs="*", metavar="RUN", help="two runs, or one file that holds two")
    parser.add_argument("--fail-on", metavar="regression[:PCT]", help=RULE.replace("%", "%%"))
    parser.add_argument("--baseline", nargs="+", metavar="RUN", help="repeated runs: what they differ by counts")
    parser.add_argument("--candidate", nargs="+", metavar="RUN", help="the repeated runs to hold against them")
    _opening_arguments(parser)
    _scope_arguments(parser)
    _output_arguments(parser)


def _diff(arguments: argparse.Namespace) -> int:
    from .analysis.gate_rule import percent_of

    try:
        percent = percent_of(arguments.fail_on) if arguments.fail_on else None
    except ValueError as error:
        raise Wrong(str(error)) from error
    top, arguments.top = arguments.top, None
    table = _compared(arguments)
    _emit([table if top is None else table.head(top)], arguments)
    if percent is None:
        return FINE
    from .analysis.diff import gate

    passed, sentence = gate(table, percent)
    print(sentence, file=sys.stderr)
    return FINE if passed else GATE_FAILED


def _compared(arguments: argparse.Namespace) -> Table:
    from .analysis.diff import pooled
    from .analysis.view import CannotAnswer

    sides = arguments.baseline or [], arguments.candidate or []
    if not any(sides):
        if len(arguments.runs) not in (1, 2):
            raise Wrong(f"{len(arguments.runs)} runs: name two to compare, or one file that holds two")
        return _ask(arguments, _open(arguments.runs, arguments), "diff")[0]
    try:
        baseline, candidate = ([_open([path], arguments)[0] for path in side] for side in sides)
        return pooled(baseline, candidate, _options(arguments))
    except CannotAnswer as error:
        raise Wrong(str(error)) from error


def _sql_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="one run or two, then the query in quotes")
    _opening_arguments(parser)
    _output_arguments(parser)


def _sql(arguments: argparse.Namespace) -> int:
    from .analysis.sql import BadQuery, query

    *paths, statement = arguments.runs
    if not 1 <= len(paths) <= 2:
        raise Wrong('give one run or two, then the query: warplens sql A "select count(*) from kernels"')
    try:
        table = query(_open(paths, arguments), statement)
    except BadQuery as error:
        raise Wrong(str(error)) from error
    _emit([table if arguments.top is None else table.head(arguments.top)], arguments)
    return FINE


def _convert_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs=1, metavar="RUN")
    parser.add_argument("-o", "--output", metavar="DIR", required=True)
    _opening_arguments(parser)


def _convert(arguments: argparse.Namespace) -> int:
    from .loaders.trace import TABLE_NAMES

    for number, run in enumerate(_open(arguments.runs, arguments)):
        folder = Path(arguments.output) if number == 0 else Path(arguments.output) / f"worker-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        for name in TABLE_NAMES:
            if run.has(name):
                run.table(name).sink_parquet(folder / f"{name}.parquet")
                print(folder / f"{name}.parquet")
    return FINE


def _formats(arguments: argparse.Namespace) -> int:
    from .loaders.registry import loaders

    for loader in loaders():
        print(f"{loader.name:<18} {loader.title}  ({', '.join(loader.suffixes)})")
    return FINE


def _views(arguments: argparse.Namespace) -> int:
    for entry in VIEWS:
        one = entry.load()
        print(f"{entry.name:<10} {entry.key:<2} {entry.question}")
        if one.one_run:
            print(f"{'':13} columns: {' '.join(column.name for column in one.columns)}")
        if one.two_runs:
            print(f"{'':13} two runs: {' '.join(column.name for column in one.columns_for(2))}")
    return FINE


def _cache_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["list", "clear", "path"], nargs="?", default="list")


def _cache(arguments: argparse.Namespace) -> int:
    from .analysis.text import display
    from .analysis.units import size
    from .loaders import cache

    if arguments.action == "path":
        print(cache.path())
    elif arguments.action == "clear":
        gone, freed, left = cache.clear()
        print(f"removed {gone} entries, {size(freed)}" + (f"; {left} are in use" if left else ""))
    else:
        entries = cache.entries()
        for entry in entries:
            print(f"{size(entry.bytes):>10}  {display(entry.source)}{'' if entry.current else '  (changed since)'}")
        print(f"{size(sum(entry.bytes for entry in entries))} in {len(entries)} entries, {cache.path()}")
    return FINE


def _doctor(arguments: argparse.Namespace) -> int:
    from .analysis.text import display
    from .loaders.doctor import facts

    for name, value in (("warplens", __version__), *facts()):
        print(f"{name:<12} {display(value)}")
    return FINE


COMMANDS: dict[str, Command] = {
    "open": Command("Open one run or two; with no terminal, print the report.", _app_arguments, _app),
    "report": Command("Print a view, or the summary of a run or a pair.", _report_arguments, _report),
    "diff": Command("Compare two runs; the same as report --view diff.", _diff_arguments, _diff),
    "sql": Command("Run polars SQL over the tables; of two runs a_kernels, b_kernels...", _sql_arguments, _sql),
    "convert": Command("Write a run's tables as Parquet files.", _convert_arguments, _convert),
    "formats": Command("List the formats that can be read.", _no_arguments, _formats),
    "views": Command("List the views and their columns.", _no_arguments, _views),
    "cache": Command("List, clear or locate the cache.", _cache_arguments, _cache),
    "demo": Command("Open the bundled pair of runs; it is generated, not recorded.", _demo_arguments, _demo),
    "doctor": Command("Say what this installation, machine and terminal can do.", _no_arguments, _doctor),
}
