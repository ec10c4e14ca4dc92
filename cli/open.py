"""The command ``open``, the default without a command name: the app on a terminal, else the report.

The app is imported only here, and only when it is shown. It is handed the functions that read and find traces, which
screens must not import themselves.
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
    from ..tui.session.opening import Opening, Recorder


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a file, a directory of ranks, or - for stdin")
    app_arguments(parser)


def app_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the app: initial view, theme, scope."""
    parser.add_argument("--view", choices=[entry.name for entry in VIEWS], help="the view to begin with")
    parser.add_argument("--resume", action="store_true", help="continue where you left this run or pair")
    parser.add_argument("--watch", metavar="DIR", help="offer new traces that a profiler writes to this folder")
    parser.add_argument("--theme", metavar="NAME", help="colours: dark, light, colour-blind, terminal, monochrome")
    parser.add_argument("--ascii", action="store_true", help="no box, block or arrow glyphs")
    opening_arguments(parser)
    scope_arguments(parser)
    view_arguments(parser)


def open_runs_in_app(arguments: argparse.Namespace) -> int:
    """Run the app, or print the report if there is no suitable terminal."""
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
    """Run the app on a history whose runs are already read."""
    arguments = arguments or _defaults()
    arguments.runs, arguments.view = [run.info.label], None
    return _open_app(arguments, {run.info.label: run})


def open_recording_in_app(path: str, recorder: Recorder) -> int:
    """Run the app on a recording; those that ``recorder`` makes later are shown beside the one before."""
    arguments = _defaults()
    arguments.runs = [path]
    return _open_app(arguments, recorder=recorder)


def _defaults() -> argparse.Namespace:
    """The app's options as they are when none is given."""
    parser = argparse.ArgumentParser()
    app_arguments(parser)
    return parser.parse_args([])


class _Ready(Struct):
    """An ``Opening`` of a run that is already loaded."""

    run: Trace

    def start(self, on_event: Callable[[Event], None]) -> None:
        """Report the run as loaded at once."""
        on_event(Loaded(lambda: (self.run,)))

    def cancel(self) -> None:
        """Nothing to cancel."""

    def wait(self, timeout: float | None = None) -> None:
        """Nothing to wait for."""


def _open_app(
    arguments: argparse.Namespace, ready: Mapping[str, Trace] = MappingProxyType({}), recorder: Recorder | None = None,
) -> int:
    """Run the app on a terminal and hand it the functions that read and find traces. Runs in ``ready`` are loaded."""
    gc.disable()  # until the app has started: imported modules stay, and scanning them takes a tenth of the start
    # Right after a repaint Textual waits for its next frame, up to 17 ms twice per key while a file loads: at 240 FPS
    # the p99 of a typed letter is 26 ms instead of 41. It does not repaint more often.
    os.environ.setdefault("TEXTUAL_FPS", "240")
    from ..loaders.ingest.process import Ingest

    def ingest(path: str) -> Ingest:
        return Ingest(
            path, worker=arguments.worker, use_cache=not arguments.no_cache, align_s=arguments.align,
            capture=arguments.capture,
        )

    started = {path: ingest(path) for path in arguments.runs if path not in ready}
    for one in started.values():
        with contextlib.suppress(OSError):  # raised again, and shown, when the app starts it
            one.begin()  # it reads while the app is still being imported

    def opener(path: str) -> Opening:
        return _Ready(ready[path]) if path in ready else started.pop(path) if path in started else ingest(path)

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
        per=arguments.per, options=scope_of(arguments), recorder=recorder,
    )
    return run(arguments.runs, opener, discover, settings, start, recorded)


COMMAND = Command("open", "Open one run or two; with no terminal, print the report.", _arguments, open_runs_in_app)
