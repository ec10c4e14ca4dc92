"""Reads a trace in a separate ingest process, so that the screen never blocks.

A parsing thread would hold the GIL for seconds, and a malicious file that crashes a parser must not crash the app.
``worker`` sends messages over a pipe, and a thread here turns them into events. ``cancel`` kills the worker; a second
pipe, the lifeline, ends it when this process dies. Tables already on disk need no process. Nothing heavy is imported:
frames are opened when ``traces`` of an event is read.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..events import Event, Failed, FirstRows, Loaded, Progress
from ..in_place import in_place
from . import cache, failures, spill

if TYPE_CHECKING:
    from ..trace import Trace

HEADER = struct.Struct("<I")  # Precedes each message on the pipe: its length in bytes.


class Ingest:
    """One load: call ``start`` once, ``cancel`` any time. Events arrive on a background thread, none after ``cancel``.

    ``begin`` may be called before ``start`` to begin reading while the receiver of the events is not ready yet.
    """

    def __init__(
        self, path: str, *, worker: int | None = None, use_cache: bool = True, align_s: float | None = None,
        capture: str | None = None,
    ) -> None:
        self.path, self._worker, self._use_cache, self._align_s = path, worker, use_cache, align_s
        self._capture = capture
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = self._messages = -1
        self._entry: cache.CacheEntry | None = None
        self._in_place = False
        self._cancelled = threading.Event()
        self._reader: threading.Thread | None = None

    def begin(self) -> None:
        """Start the worker unless the input is cached or opened in place; sends no events yet. Raises OSError."""
        if self._cancelled.is_set() or self._entry is not None or self._process is not None or self._in_place:
            return
        self._in_place = self.path != "-" and in_place(Path(self.path)) is not None
        if self._in_place:
            return
        as_one = not os.path.isdir(self.path) or (self._worker is None and self._align_s is None)
        if as_one and self._use_cache and self.path != "-":
            cached = cache.find(self.path)
            if cached is not None and cached.origin.alone:
                self._entry = cached
                return
        spill.clean_up_at_the_end()
        self._messages, theirs = os.pipe()
        end, self._lifeline = os.pipe()
        order = {
            "path": self.path, "worker": self._worker, "use_cache": self._use_cache, "align_s": self._align_s,
        }
        root = str(Path(__file__).parents[3])
        folders = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        try:
            # -P: do not import modules from the working directory, which may hold untrusted files.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "warplens.loaders.ingest.worker", str(theirs), str(end)],
                stdin=subprocess.DEVNULL if self.path != "-" else None,
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("WARPLENS_DEBUG") else subprocess.DEVNULL,
                pass_fds=(theirs, end),
                start_new_session=True,
                # The worker multiplies no matrices; OpenBLAS would still start one thread per core.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(folders), "OPENBLAS_NUM_THREADS": "1"},
            )
        except OSError:
            for descriptor in (self._messages, self._lifeline):
                os.close(descriptor)
            self._messages = self._lifeline = -1
            raise
        finally:
            for descriptor in (theirs, end):
                os.close(descriptor)
        body = json.dumps(order).encode()
        os.write(self._lifeline, HEADER.pack(len(body)) + body)

    def start(self, on_event: Callable[[Event], None]) -> None:
        """Call ``begin`` if needed; ``on_event`` receives events up to one Loaded or Failed. Raises OSError."""
        self.begin()
        if self._process is not None:
            self._reader = threading.Thread(target=self._listen, args=(on_event,), name="ingest", daemon=True)
        elif self._entry is not None and not self._cancelled.is_set():
            opened = {"shown": self.path, "files": [self.path], "directories": [str(self._entry.directory)]}
            keeper = spill.Keeper([self._entry.directory])
            loaded = Loaded(partial(_traces, opened, self._worker, self._capture, keeper))
            self._reader = threading.Thread(target=on_event, args=(loaded,), daemon=True)
        elif self._in_place and not self._cancelled.is_set():
            self._reader = threading.Thread(target=self._open, args=(on_event,), daemon=True)
        if self._reader is not None:
            self._reader.start()

    def cancel(self) -> None:
        """Stop at once: kill the worker; its temporary directories are removed. Does nothing if it has ended."""
        self._cancelled.set()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the last event has been delivered or, after ``cancel``, cleanup has finished."""
        if self._reader is not None:
            self._reader.join(timeout)

    def _open(self, on_event: Callable[[Event], None]) -> None:
        """Open tables in place, in this process; starting another would take longer."""
        from ..errors import Unreadable
        from ..native.allocator import return_freed
        from .job.files import Request
        from .opening import ingest

        return_freed()
        try:
            opened = ingest(self.path, Request(self._use_cache, align_s=self._align_s))
        except Unreadable as error:
            event: Event = Failed(f"{error.path}: {error.reason}.", error.advice)
        except Exception as error:  # a bug here, not in a loader: those errors are Unreadable already
            event = Failed(f"{self.path}: could not be opened ({type(error).__name__}).", "Report this.")
        else:
            keeper = spill.Keeper(opened.directories)
            event = Loaded(lambda: _with_keeper(opened.traces(self._worker, self._capture), keeper))
        if not self._cancelled.is_set():
            on_event(event)

    def _listen(self, on_event: Callable[[Event], None]) -> None:
        assert self._process is not None
        ended = False
        try:
            with os.fdopen(self._messages, "rb") as pipe:
                while not ended and (message := _next(pipe)) is not None and not self._cancelled.is_set():
                    event = self._event(message)
                    ended = isinstance(event, (Loaded, Failed))
                    on_event(event)
        finally:
            os.close(self._lifeline)
            if not ended and self._cancelled.is_set():
                self._process.kill()
            status = self._process.wait()
            if not ended:  # directories of a killed worker: unlocked by its death, so a sweep removes them
                spill.sweep(spill.place())
                spill.sweep(cache.path())
        if not ended and not self._cancelled.is_set():
            failure = failures.ended(self.path, status)
            on_event(Failed(f"{failure.path}: {failure.reason}.", failure.advice))

    def _event(self, message: dict[str, Any]) -> Event:
        kind = message.pop("event")
        if kind == "progress":
            return Progress(**message)
        if kind == "failed":
            return Failed(**message)
        spill.expect(len(message["directories"]))
        keeper = spill.Keeper(map(Path, message["directories"]))
        if kind == "first":
            count, of = message.pop("read", 0), message.pop("of", 0)
            return FirstRows(partial(_traces, message, None, None, keeper), count, of)
        return Loaded(partial(_traces, message, self._worker, self._capture, keeper))


def _next(pipe: Any) -> dict[str, Any] | None:
    """The next message; None at the end of the pipe, even if that is in the middle of a message."""
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (size,) = HEADER.unpack(header)
    body = pipe.read(size)
    if len(body) < size:
        return None
    message: dict[str, Any] = json.loads(body)
    return message


def _traces(
    opened: dict[str, Any], worker: int | None, capture: str | None, keeper: spill.Keeper
) -> tuple[Trace, ...]:
    from ..errors import Unreadable
    from ..native.allocator import return_freed
    from .opening import Opened

    return_freed()
    directories = tuple(Path(directory) for directory in opened["directories"])
    try:
        unread = tuple(opened.get("unread", ()))
        files, align_s = tuple(opened["files"]), opened.get("align_s")
        result = Opened(opened["shown"], files, directories, unread=unread, align_s=align_s)
        return _with_keeper(result.traces(worker, capture), keeper)
    except Unreadable:
        raise
    except Exception as error:
        for directory in directories:
            cache.drop(directory)
        reason = f"its cached tables are damaged and were deleted ({type(error).__name__})"
        raise Unreadable(opened["shown"], reason, "Open it again: they are rebuilt from the recording.") from None


def _with_keeper(traces: tuple[Trace, ...], keeper: spill.Keeper) -> tuple[Trace, ...]:
    from msgspec.structs import replace

    return tuple(replace(trace, keeper=keeper) for trace in traces)
