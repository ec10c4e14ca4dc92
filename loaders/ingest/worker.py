"""The ingest process: ``python -m warplens.loaders.ingest.worker MESSAGES LIFELINE``, started by ``process.Ingest``.

MESSAGES and LIFELINE are inherited pipe descriptors. The first message on the lifeline is the order (path and options);
when the lifeline is closed, the parent has ended or has all it needs, and this process exits. Until then it keeps the
locks of directories it hands over, so that no sweep removes them.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Unreadable
from . import spill
from .process import HEADER

if TYPE_CHECKING:
    from ..trace import Trace

_INTERVAL_S = 0.05  # Minimum interval between progress messages.
_SMALL = 4 << 20  # A smaller file, in bytes, is fully read before its first rows could be written and shown.
_NICE = 5
"""Niceness of the ingest process, so that the screen stays responsive: while both cores read 2 GB, the p99 latency of a
keystroke is 25 ms instead of 46, and the first rows appear no later."""


class MessageWriter:
    """Writes complete messages to the pipe. Thread-safe."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._lock = pipe, threading.Lock()
        self._due = 0.0

    def send(self, event: str, **fields: Any) -> None:
        """Send one message; exits the process if the reader is gone."""
        body = json.dumps({"event": event, **fields}).encode()
        data = memoryview(HEADER.pack(len(body)) + body)
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._pipe, data) :]
            except BrokenPipeError:
                _end()

    def progress(self, done: int, total: int, events: int) -> None:
        """Send progress, at most every ``_INTERVAL_S`` seconds and at the end."""
        now = time.monotonic()
        if now >= self._due or done == total:
            self._due = now + _INTERVAL_S
            self.send("progress", done=done, total=total, events=events)


def main(messages: int, lifeline: int) -> None:
    """Read the order and the input, send the result, and wait until the lifeline is closed."""
    _stand_back()
    order = _order(lifeline)
    watcher = threading.Thread(target=_watch, args=(lifeline,), daemon=True)
    watcher.start()
    teller = MessageWriter(messages)
    try:
        _read(order, teller)
    except Unreadable as error:
        teller.send("failed", message=f"{error.path}: {error.reason}.", advice=error.advice)
    except Exception as error:  # a bug here, not in a loader: those errors are Unreadable already
        traceback.print_exc()
        reason = f"{order['path']}: could not be read ({type(error).__name__})."
        teller.send("failed", message=reason, advice="Report this; WARPLENS_DEBUG=1 shows where it happened.")
    watcher.join()


def _stand_back() -> None:
    """Lower this process's priority below the app's, including its autogroup's on Linux, which schedules sessions."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(_NICE)
        Path("/proc/self/autogroup").write_text(str(_NICE))


def _read(order: dict[str, Any], teller: MessageWriter) -> None:
    gc.disable()  # imported modules are permanent; collecting during imports takes a tenth of the startup time
    from .. import schema
    from . import store
    from .job.files import Request
    from .opening import Opened, ingest

    schema.empty("kernels")  # imports polars now, in half the time it takes once threads are reading
    gc.freeze()
    gc.enable()

    def first_rows(trace: Trace) -> None:
        folder = spill.directory()
        store.write_preview(trace, folder)
        spill.hand_over(folder)
        teller.send("first", shown=order["path"], files=[order["path"]], directories=[str(folder)])

    def some_read(files: Sequence[Path], directories: Sequence[Path], of: int) -> None:
        names = tuple(map(str, files))
        preview = Opened(order["path"], names, tuple(directories))
        if not preview.has_distinct_ranks():
            return  # the rank assignment may depend on the names of all files
        with contextlib.suppress(Unreadable):
            preview.traces()
            for directory in directories:
                spill.hand_over(directory)
            paths = [str(directory) for directory in directories]
            teller.send("first", shown=order["path"], files=names, directories=paths, read=len(names), of=of)

    small = os.path.isfile(order["path"]) and os.path.getsize(order["path"]) < _SMALL
    request = Request(
        order["use_cache"], True, True, teller.progress, None if small else first_rows, order["align_s"],
        some_read if order["worker"] is None else None, order["worker"] is None and order["align_s"] is None,
    )
    opened = ingest(order["path"], request)
    if order["worker"] is not None or len(opened.files) > 1:
        opened.traces(order["worker"])  # report a failing merge or selection now, not when the traces are opened
    for directory in opened.directories:
        spill.hand_over(directory)
    directories = [str(directory) for directory in opened.directories]
    teller.send(
        "loaded", shown=opened.shown, files=opened.files, directories=directories,
        unread=opened.unread, align_s=opened.align_s,
    )


def _order(lifeline: int) -> dict[str, Any]:
    (size,) = HEADER.unpack(os.read(lifeline, HEADER.size))
    body = b""
    while len(body) < size and (more := os.read(lifeline, size - len(body))):
        body += more
    order: dict[str, Any] = json.loads(body)
    return order


def _watch(lifeline: int) -> None:
    while os.read(lifeline, 1):
        pass
    _end()


def _end() -> None:
    spill.remove_all()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
