"""The process that reads a trace: ``python -m warplens.loaders.ingest.worker MESSAGES LIFELINE``.

``process.Ingest`` starts it.

MESSAGES and LIFELINE are inherited pipe descriptors. The order (path and options) comes first on the lifeline; when the
lifeline ends, whoever gave the order is gone or content, and so are we. Directories that are handed over stay locked by
this process until then, so that nobody takes them for left behind.
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

_INTERVAL_S = 0.05  # Progress is told at most this often.
_SMALL = 4 << 20  # A file below this many bytes is read before its first rows could be written and shown.
_NICE = 5
"""How far reading stands back behind the screen, which needs little and at once: while both cores read 2 GB the slowest
letter in a hundred takes 25 ms instead of 46, and the first rows come no later."""


class Teller:
    """Writes messages to the pipe, whole, from whichever thread."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._lock = pipe, threading.Lock()
        self._due = 0.0

    def tell(self, event: str, **fields: Any) -> None:
        """Send one message; where nobody listens any more, end."""
        body = json.dumps({"event": event, **fields}).encode()
        data = memoryview(HEADER.pack(len(body)) + body)
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._pipe, data) :]
            except BrokenPipeError:
                _end()

    def progress(self, done: int, total: int, events: int) -> None:
        """Tell how far it is, unless it was told a moment ago."""
        now = time.monotonic()
        if now >= self._due or done == total:
            self._due = now + _INTERVAL_S
            self.tell("progress", done=done, total=total, events=events)


def main(messages: int, lifeline: int) -> None:
    """Read the order, read the input, say what came of it, and wait to be let go."""
    _stand_back()
    order = _order(lifeline)
    watcher = threading.Thread(target=_watch, args=(lifeline,), daemon=True)
    watcher.start()
    teller = Teller(messages)
    try:
        _read(order, teller)
    except Unreadable as error:
        teller.tell("failed", message=f"{error.path}: {error.reason}.", advice=error.advice)
    except Exception as error:  # of ours, not of a loader: those are sentences already
        traceback.print_exc()
        reason = f"{order['path']}: could not be read ({type(error).__name__})."
        teller.tell("failed", message=reason, advice="Report this; WARPLENS_DEBUG=1 shows where it happened.")
    watcher.join()


def _stand_back() -> None:
    """Let the app's process go first; where Linux shares its processors among sessions, let the app's session."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(_NICE)
        Path("/proc/self/autogroup").write_text(str(_NICE))


def _read(order: dict[str, Any], teller: Teller) -> None:
    gc.disable()  # modules are here to stay: looking for dead ones among them is a tenth of the start
    from .. import schema
    from . import store
    from .job.files import Request
    from .opening import Opened, ingest

    schema.empty("kernels")  # polars, which is imported in half the time before threads read
    gc.freeze()
    gc.enable()

    def first_rows(trace: Trace) -> None:
        folder = spill.directory()
        store.write_preview(trace, folder)
        spill.hand_over(folder)
        teller.tell("first", shown=order["path"], files=[order["path"]], directories=[str(folder)])

    def some_read(files: Sequence[Path], directories: Sequence[Path], of: int) -> None:
        names = tuple(map(str, files))
        preview = Opened(order["path"], names, tuple(directories))
        if not preview.says_its_ranks():
            return  # whose they are may depend on the names of all of them
        with contextlib.suppress(Unreadable):
            preview.traces()
            for directory in directories:
                spill.hand_over(directory)
            paths = [str(directory) for directory in directories]
            teller.tell("first", shown=order["path"], files=names, directories=paths, read=len(names), of=of)

    small = os.path.isfile(order["path"]) and os.path.getsize(order["path"]) < _SMALL
    request = Request(
        order["use_cache"], True, True, teller.progress, None if small else first_rows, order["align_s"],
        some_read if order["worker"] is None else None, order["worker"] is None and order["align_s"] is None,
    )
    opened = ingest(order["path"], request)
    if order["worker"] is not None or len(opened.files) > 1:
        opened.traces(order["worker"])  # what cannot be put together or picked is told here, not when asked for
    for directory in opened.directories:
        spill.hand_over(directory)
    directories = [str(directory) for directory in opened.directories]
    teller.tell(
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
