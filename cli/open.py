"""The command ``open``, which is also what no command is: the app on a terminal, else the report.

Only here is the app imported, and only when it is to be shown; it is handed what screens may not know of, which is how
traces are read and found.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from ..analysis.views import VIEWS
from ..library import UsageError
from ..loaders.events import Event, Loaded
from .arguments import Command, opening_arguments, scope_arguments, scope_of, view_arguments
from .many_runs import open_history
from .report import print_report

if TYPE_CHECKING:
    from ..loaders.ingest.discovery import TraceFound
    from ..loaders.ingest.process import Ingest
    from ..loaders.trace import Info, Trace
    from ..tui.session.opening import Opening


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a file, a directory of ranks, or - for stdin")
    app_arguments(parser)


def app_arguments(parser: argparse.ArgumentParser) -> None:
    """How the app begins, and what of the runs it shows."""
    parser.add_argument("--view", choices=[entry.name for entry in VIEWS], help="the view to begin with")
    parser.add_argument("--resume", action="store_true", help="continue where you left this run or pair")
    parser.add_argument("--watch", metavar="DIR", help="offer new traces as a profiler writes them here")
    parser.add_argument("--theme", metavar="NAME", help="colours: dark, light, colour-blind, terminal, monochrome")
    parser.add_argument("--ascii", action="store_true", help="no box, block or arrow glyphs")
    opening_arguments(parser)
    scope_arguments(parser)
    view_arguments(parser)


def open_runs_in_app(arguments: argparse.Namespace) -> int:
    """The app; where no terminal can show it, the report."""
    if not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        if not arguments.runs:
            raise UsageError("name a run; without a terminal there is nothing to choose from")
        arguments.format = arguments.output = arguments.top = arguments.sort = arguments.filter = arguments.run = None
        arguments.name_width = None
        arguments.ascending = False
        return print_report(arguments)
    if len(arguments.runs) > 2:
        return open_history_in_app(open_history(arguments.runs, arguments)[0], arguments)
    return _open_app(arguments)


def open_history_in_app(run: Trace, arguments: argparse.Namespace | None = None) -> int:
    """The app on many runs, which are read already."""
    if arguments is None:
        parser = argparse.ArgumentParser()
        app_arguments(parser)
        arguments = parser.parse_args([])
    arguments.runs, arguments.view = [run.info.label], None
    return _open_app(arguments, {run.info.label: run})


class _Ready(Struct):
    """A load of what is there already."""

    run: Trace

    def start(self, on_event: Callable[[Event], None]) -> None:
        """It has arrived."""
        on_event(Loaded(lambda: (self.run,)))

    def cancel(self) -> None:
        """There is nothing to stop."""

    def wait(self, timeout: float | None = None) -> None:
        """Nor to wait for."""


def _open_app(arguments: argparse.Namespace, ready: Mapping[str, Trace] = MappingProxyType({})) -> int:
    """The app on a terminal; hands in what the screens may not know: how traces are read and found. Those in ``ready``
    are read already."""
    gc.disable()  # until the app has started: what is imported stays, and looking through it takes a tenth of the time
    # Where something was painted just now Textual waits for its next frame, up to 17 ms twice a key while a file loads:
    # at 240 a second the slowest letter in a hundred takes 26 ms instead of 41. Nothing is painted more often for it.
    os.environ.setdefault("TEXTUAL_FPS", "240")
    from ..loaders.ingest.process import Ingest

    def ingest(path: str) -> Ingest:
        return Ingest(
            path, worker=arguments.worker, use_cache=not arguments.no_cache, align_s=arguments.align,
            capture=arguments.capture,
        )

    begun = {path: ingest(path) for path in arguments.runs if path not in ready}
    for one in begun.values():
        with contextlib.suppress(OSError):  # which it meets again, and tells, when the app starts it
            one.begin()  # it reads while the screen is still being imported

    def opener(path: str) -> Opening:
        return _Ready(ready[path]) if path in ready else begun.pop(path) if path in begun else ingest(path)

    from ..tui.app.app import run
    from ..tui.app.start import Start
    from ..tui.session.settings import BadSettings, load

    try:
        settings = load(theme=arguments.theme, ascii=arguments.ascii)
    except BadSettings as error:
        raise UsageError(str(error)) from error

    def discover(folder: Path) -> Iterator[TraceFound]:
        from ..loaders.ingest.discovery import discover

        return discover(folder)

    def recorded(info: Info, rank: int | None, offset: int, name: str) -> dict[str, object]:
        from ..loaders.ingest.event_arguments import arguments

        return arguments(info, rank, offset, name)

    start = Start(
        view=arguments.view or "", resume=arguments.resume, watch=arguments.watch, cycle=arguments.cycle,
        per=arguments.per, options=scope_of(arguments),
    )
    return run(arguments.runs, opener, discover, settings, start, recorded)


COMMAND = Command("open", "Open one run or two; with no terminal, print the report.", _arguments, open_runs_in_app)
