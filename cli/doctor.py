"""The command ``doctor``: capabilities of installation, machine and terminal; for a file, how it was interpreted."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..library import UsageError
from .arguments import FINE, Command, open_runs, opening_arguments

if TYPE_CHECKING:
    from ..loaders.trace import Trace

_WIDTH = 110


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="a file or folder: what was read, dropped and assumed")
    parser.add_argument(
        "--environment", action="store_true",
        help="print the environment, command line and machine recorded with RUN; they may hold secrets, so no other "
        "command shows or exports them",
    )
    opening_arguments(parser)


def _doctor(arguments: argparse.Namespace) -> int:
    from ..loaders.ingest.doctor import facts

    if arguments.environment:
        return _environment(arguments)
    if arguments.run is None:
        _tell((("warplens", __version__), *facts()))
        return FINE
    from ..loaders.converted import verified

    tables = verified(Path(arguments.run))
    runs = open_runs([arguments.run], arguments)
    from ..analysis.core.callers import links_of
    from ..loaders.ingest.doctor import run_facts

    if tables:
        _tell([("hashes", f"the bytes of all {tables} tables are what convert wrote")])
    _tell(run_facts(runs, frozenset(number for number, run in enumerate(runs) if _refused(run)), links_of))
    _tell(line for run in runs for line in _operators(run))
    return FINE


def _refused(run: Trace) -> bool:
    """Whether captures beside the run leave kernels of its graphs without an operator."""
    from ..analysis.core.callers import callers_of

    callers = callers_of(run)
    return callers is not None and callers.joined is not None and not callers.joined.complete


def _operators(run: Trace) -> Iterable[tuple[str, str]]:
    """Lines on graph replays: the joined capture, and how to record one so that their kernels get operators."""
    from ..analysis.core.callers import callers_of

    callers = callers_of(run)
    if callers is None:
        return
    if callers.joined is not None:
        for one in callers.joined.facts:
            yield "capture", f"{one['file']}: " + (
                f"refused, {one['refused']}" if one["refused"] else f"{one['matched']:,} of {one['of']:,} kernels")
    if callers.replayed:
        time, nobody = run.kernels.select("dur_ns").collect()["dur_ns"], callers.frame["op"].is_null()
        share = int(time.filter(nobody).sum()) / max(1, int(time.sum()))
        yield "operators", (
            f"none for {share:.0%} of the device time: {callers.replayed:,} launches were replayed by graphs. Profile "
            "their capture as well (with record_shapes=True) and put that file into capture_traces/ beside this one, "
            "or name it with --capture")


def _environment(arguments: argparse.Namespace) -> int:
    """Print the recorded environment of every file of the run."""
    from ..loaders.environment import recorded
    from ..loaders.errors import Unreadable
    from ..loaders.ingest.event_arguments import file_of

    if arguments.run is None:
        raise UsageError("--environment needs a run: warplens doctor RUN --environment")
    for run in open_runs([arguments.run], arguments):
        for rank in run.info.facts.get("files") or [None]:
            try:
                file = file_of(run.info, rank)
            except Unreadable as error:
                _tell((("file", error.path), ("environment", error.reason)))
                continue
            rows = list(recorded(Path(file))) if Path(file).is_file() else []
            _tell((("file", str(file)), *(rows or [("environment", "not recorded, or in no place warplens reads")])))
    return FINE


def _tell(lines: Iterable[tuple[str, str]]) -> None:
    """Print names and values; long values wrap in their own column."""
    from ..analysis.core.text import display

    for name, value in lines:
        lines_of = textwrap.wrap(display(value), _WIDTH, break_long_words=False, break_on_hyphens=False)  # copyable
        for at, part in enumerate(lines_of or [""]):
            print(f"{name if at == 0 else '':<12} {part}")


COMMAND = Command(
    "doctor", "Show what this installation, machine and terminal can do; with RUN, what was read, dropped and "
    "assumed.", _arguments, _doctor,
)
