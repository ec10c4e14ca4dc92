"""Finds and opens the recordings made while a run's graphs were captured: named, in the folder where serving frameworks
put them, or other traces of the run's folder that were recorded during a capture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from msgspec.structs import replace

from ..errors import Unreadable
from ..trace import Trace
from .job.files import CAPTURES
from .stream import Source

MOST_CAPTURES = 64
_SEARCHED = 8 << 20
"""Bytes of other traces of the folder, as stored, that are searched for captures, the smallest first: a capture is one
step's launches, and searching 100 MB of text takes a third of a second."""
_BLOCK = 4 << 20
_CAPTURING = b"StreamBeginCapture"
Open = Callable[[str], tuple[Trace, ...]]
"""As ``opening.open_run``."""


def with_captures(run: Trace, path: Path | None, capture: str | None, open_run: Open) -> Trace:
    """The run with its captures: the one named, else those in the folder ``capture_traces`` beside its file and, if
    the run replays graphs, the traces beside it that begin a stream capture."""
    if capture or path is None:
        files = [Path(capture)] if capture else []
    else:
        files = _in(path.parent / CAPTURES)
        others = [file for file in _in(path.parent) if file.name != path.name]
        if others and run.replays_graphs():
            files = sorted([*files, *_capturing(others)])
    return replace(run, captures=cache(partial(_opened, tuple(files), open_run))) if files else run


def _in(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if ".json" in file.name and file.is_file())
    except OSError:
        return []


def _capturing(files: Sequence[Path]) -> list[Path]:
    """Those of the files that hold the beginning of a stream capture."""
    matching, room = [], _SEARCHED
    for size, file in sorted((file.stat().st_size, file) for file in files):
        room -= size
        if room < 0:
            break
        rest = b""
        try:
            with Source(file) as source:
                while block := source.read(_BLOCK):
                    if _CAPTURING in rest + block:
                        matching.append(file)
                        break
                    rest = block[-len(_CAPTURING):]
        except (OSError, Unreadable):
            continue
    return matching


def _opened(files: Sequence[Path], open_run: Open) -> tuple[Trace | Unreadable, ...]:
    """The traces of the captures, in order of file; the error for each unreadable one."""
    read: list[Trace | Unreadable] = []
    for file in files[:MOST_CAPTURES]:
        try:
            read += open_run(str(file))
        except Unreadable as error:
            read.append(error)
    return (*read, *(Unreadable(file, f"is not among the first {MOST_CAPTURES}") for file in files[MOST_CAPTURES:]))
