"""The command line: the list of commands, and what each does with what was typed (``diff`` is in ``gate``).

Importing this module loads nothing heavy; every command imports what it needs. Results go to stdout, diagnostics and
progress to stderr. Exit status: 0 fine, 1 a gate failed, 2 the command was wrong, 3 the input cannot be read.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from .. import __version__
from ..analysis.views import VIEWS
from .arguments import (
    FINE,
    UNREADABLE,
    USAGE,
    Command,
    Wrong,
    ask,
    emit,
    open_runs,
    opening_arguments,
    output_arguments,
    pids_of,
    print_path,
    scope_arguments,
)
from .diff import DIFF

if TYPE_CHECKING:
    from ..loaders.ingest.discovery import Found
    from ..loaders.ingest.process import Ingest
    from ..loaders.trace import Info

_COLLECT = 100_000
"""New objects between two looks for dead ones. What is imported stays, and looking through it is a tenth of a start."""
DEMO = Path(__file__).resolve().parents[1] / "samples" / "demo"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    # Its threads spin for a while after they start, beside the ones that read; nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_COLLECT)
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words and words[0] in COMMANDS and words[0] != "open" else None
    command = COMMANDS[name or "open"]
    parser = _Parser(
        prog=f"warplens {name}" if name else "warplens", description=command.help, allow_abbrev=False,
        epilog=None if name else _overview(), formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if name is None:
        parser.add_argument("--version", action="version", version=f"warplens {__version__}")
    command.arguments(parser)
    arguments = parser.parse_args(words[1:] if name else words)
    return _guarded(command.run, arguments)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with what was typed in display text: a name of a file may stand among the words."""

    def error(self, message: str) -> NoReturn:
        from ..analysis.core.text import display

        super().error(display(message))


def _guarded(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; every error a user can cause becomes one sentence on stderr and its exit status."""
    from ..loaders.errors import Unreadable

    try:
        status = run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
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
    except MemoryError:
        return _say("This needs more memory than there is.", UNREADABLE)
    except Exception as error:  # a mistake of ours, or what a damaged input led to that nobody thought of
        if os.environ.get("WARPLENS_DEBUG"):
            raise
        said = (str(error).splitlines() or [""])[0][:160]
        what = f"{type(error).__name__}: {said}" if said else type(error).__name__
        advice = "WARPLENS_DEBUG=1 shows where it stopped."
        return _say(f"This cannot be answered of what was recorded ({what}). {advice}", UNREADABLE)


def _say(message: str, status: int) -> int:
    from ..analysis.core.text import display

    print(f"warplens: {display(message)}", file=sys.stderr)
    return status


def _overview() -> str:
    return "commands:\n" + "\n".join(
        f"  {name:<9} {command.help.splitlines()[0]}" for name, command in COMMANDS.items() if name != "open"
    )


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
    opening_arguments(parser)
    scope_arguments(parser)


def _app(arguments: argparse.Namespace) -> int:
    if len(arguments.runs) > 2:
        raise Wrong(f"{len(arguments.runs)} runs: name one, or two to compare")
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        if not arguments.runs:
            raise Wrong("name a run; without a terminal there is nothing to choose from")
        arguments.format = arguments.output = arguments.top = arguments.sort = arguments.filter = None
        arguments.ascending = False
        return _report(arguments)
    return _open_app(arguments)


def _open_app(arguments: argparse.Namespace) -> int:
    """The app on a terminal; hands in what the screens may not know: how traces are read and found."""
    gc.disable()  # until the app has started: what is imported stays, and looking through it takes a tenth of the time
    from ..loaders.ingest.process import Ingest

    def ingest(path: str) -> Ingest:
        return Ingest(path, worker=arguments.worker, use_cache=not arguments.no_cache)

    begun = {path: ingest(path) for path in arguments.runs}
    for one in begun.values():
        with contextlib.suppress(OSError):  # which it meets again, and tells, when the app starts it
            one.begin()  # it reads while the screen is still being imported

    def opener(path: str) -> Ingest:
        return begun.pop(path, None) or ingest(path)

    from ..tui.app.app import run
    from ..tui.app.settings import BadSettings, load
    from ..tui.app.start import Start

    try:
        settings = load(theme=arguments.theme, ascii=arguments.ascii)
    except BadSettings as error:
        raise Wrong(str(error)) from error

    def discover(folder: Path) -> Iterator[Found]:
        from ..loaders.ingest.discovery import discover

        return discover(folder)

    def recorded(info: Info, rank: int | None, offset: int, name: str) -> dict[str, object]:
        from ..loaders.ingest.event_arguments import arguments

        return arguments(info, rank, offset, name)

    pid_a, pid_b = pids_of(arguments.pid)
    start = Start(
        view=arguments.view or "", resume=arguments.resume, watch=arguments.watch, cycle=arguments.cycle,
        options={
            "cycle_anchor": arguments.cycle_anchor, "pid_a": pid_a, "pid_b": pid_b, "warm_up": not arguments.no_warm_up,
        },
    )
    return run(arguments.runs, opener, discover, settings, start, recorded)


def _demo(arguments: argparse.Namespace) -> int:
    arguments.runs = [str(DEMO / "normal.json.gz"), str(DEMO / "abnormal.json.gz")]
    return _app(arguments)


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a file, a directory of ranks, or - for stdin")
    parser.add_argument("--view", choices=[entry.name for entry in VIEWS], help="one view instead of the summary")
    opening_arguments(parser)
    scope_arguments(parser)
    output_arguments(parser)


def _report(arguments: argparse.Namespace) -> int:
    if len(arguments.runs) > 2:
        raise Wrong(f"{len(arguments.runs)} runs: name one, or two to compare")
    runs = open_runs(arguments.runs, arguments)
    if arguments.view is None and (arguments.filter or arguments.sort):
        raise Wrong("--filter and --sort are for one view; name it with --view")
    emit(ask(arguments, runs, arguments.view), arguments)
    return FINE


def _sql_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="one run or two, then the query in quotes")
    opening_arguments(parser)
    output_arguments(parser)


def _sql(arguments: argparse.Namespace) -> int:
    from ..analysis.table.sql import BadQuery, query

    *paths, statement = arguments.runs
    if not 1 <= len(paths) <= 2:
        raise Wrong('give one run or two, then the query: warplens sql A "select count(*) from kernels"')
    try:
        table = query(open_runs(paths, arguments), statement)
    except BadQuery as error:
        raise Wrong(str(error)) from error
    emit([table if arguments.top is None else table.head(arguments.top)], arguments)
    return FINE


def _convert_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs=1, metavar="RUN")
    parser.add_argument("-o", "--output", metavar="DIR", required=True)
    opening_arguments(parser)


def _convert(arguments: argparse.Namespace) -> int:
    from ..loaders.trace import TABLE_NAMES

    for number, run in enumerate(open_runs(arguments.runs, arguments)):
        folder = Path(arguments.output) if number == 0 else Path(arguments.output) / f"worker-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        for name in TABLE_NAMES:
            if run.has(name):
                run.table(name).sink_parquet(folder / f"{name}.parquet")
                print_path(folder / f"{name}.parquet")
    return FINE


def _formats(arguments: argparse.Namespace) -> int:
    from ..loaders.registry import loaders

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
    from ..analysis.core.text import display
    from ..analysis.core.units import size
    from ..loaders.ingest import cache

    if arguments.action == "path":
        print_path(cache.path())
    elif arguments.action == "clear":
        gone, freed, left = cache.clear()
        print(f"removed {gone} entries, {size(freed)}" + (f"; {left} are in use" if left else ""))
    else:
        entries = cache.entries()
        for entry in entries:
            print(f"{size(entry.bytes):>10}  {display(entry.source)}{'' if entry.current else '  (changed since)'}")
        print(f"{size(sum(entry.bytes for entry in entries))} in {len(entries)} entries, {display(str(cache.path()))}")
    return FINE


def _doctor(arguments: argparse.Namespace) -> int:
    from ..analysis.core.text import display
    from ..loaders.ingest.doctor import facts

    for name, value in (("warplens", __version__), *facts()):
        print(f"{name:<12} {display(value)}")
    return FINE


COMMANDS: dict[str, Command] = {
    "open": Command("Open one run or two; with no terminal, print the report.", _app_arguments, _app),
    "report": Command("Print a view, or the summary of a run or a pair.", _report_arguments, _report),
    "diff": DIFF,
    "sql": Command("Run polars SQL over the tables; of two runs a_kernels, b_kernels...", _sql_arguments, _sql),
    "convert": Command("Write a run's tables as Parquet files.", _convert_arguments, _convert),
    "formats": Command("List the formats that can be read.", _no_arguments, _formats),
    "views": Command("List the views and their columns.", _no_arguments, _views),
    "cache": Command("List, clear or locate the cache.", _cache_arguments, _cache),
    "demo": Command("Open the bundled pair of runs; it is generated, not recorded.", _demo_arguments, _demo),
    "doctor": Command("Say what this installation, machine and terminal can do.", _no_arguments, _doctor),
}
