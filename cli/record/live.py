"""Recording again and again: every so many seconds, or when the app asks, in a thread beside it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ..arguments import Failure
from .road import Ask, Result, Road, Stopped

_LAST = 2.0
"""Seconds the app waits for a recording that is given up."""
_LOOK = 0.1
"""Seconds between two looks at whether the app wants a recording."""


class Rounds:
    """The recordings of one command, the newest ``keep`` of them."""

    def __init__(self, road: Road, ask: Ask, every: float | None, keep: int) -> None:
        """``every``: s from the begin of one recording to the next; None: only when ``again`` is called."""
        self._road, self._ask, self._every, self._keep = road, ask, every, keep
        self._begun_at = time.monotonic()
        self._wanted = threading.Event()
        self.is_recording = False
        self.recordings = deque[Result]()
        self.asked = 0

    def next(self) -> Result:
        """Record once, now. Raises Failure, Stopped."""
        self._begun_at, self.is_recording = time.monotonic(), True
        try:
            recording = self._road.record(self._ask)
        finally:
            self.is_recording = False
        self.asked = recording.asked if not self.recordings else self.asked + recording.asked
        if recording.files:
            self.recordings.append(recording)
            while len(self.recordings) > self._keep:
                _remove(self.recordings.popleft())
        return recording

    def wait(self) -> bool:
        """Wait until the next one is due; False if none will be."""
        while not self._road.over and not self._road.stopping.is_set():
            if self._wanted.is_set():
                self._wanted.clear()
                return True
            left = None if self._every is None else self._begun_at + self._every - time.monotonic()
            if left is not None and left <= 0:
                return True
            self._road.idle(_LOOK if left is None else min(_LOOK, left))
        return False

    def want(self) -> None:
        """Record as soon as possible; from any thread."""
        self._wanted.set()


def _remove(recording: Result) -> None:
    """Remove the files of an old recording, which this command wrote."""
    for file in recording.files:
        with contextlib.suppress(OSError):
            file.unlink()
    if len(recording.files) > 1:
        with contextlib.suppress(OSError):
            recording.files[0].parent.rmdir()


class Live:
    """The app's recorder: tells it of every new recording, and records again when it asks."""

    def __init__(self, rounds: Rounds, road: Road) -> None:
        self._rounds, self._road = rounds, road
        self._thread: threading.Thread | None = None

    def start(self, on_recorded: Callable[[Path | None, str], None]) -> None:
        """From now on call ``on_recorded`` on a thread of its own: with a new recording, or None and why there is
        none."""
        self._thread = threading.Thread(target=self._run, args=(on_recorded,), daemon=True, name="recorder")
        self._thread.start()

    def again(self) -> str:
        """Record once more. Returns why that cannot be, or an empty text."""
        if self._rounds.is_recording:
            return "a recording is under way"
        if over := self._road.over:
            return over
        self._rounds.want()
        return ""

    def stop(self) -> None:
        """Give up what is being recorded, and leave the job alone."""
        self._road.stopping.set()
        if self._thread is not None:
            self._thread.join(_LAST)
        self._road.close()  # here, because the app may end the process

    def _run(self, on_recorded: Callable[[Path | None, str], None]) -> None:
        with contextlib.suppress(Stopped):
            while self._rounds.wait():
                try:
                    recording = self._rounds.next()
                except Failure as error:
                    on_recorded(None, error.message)
                    continue
                on_recorded(recording.path if recording.files else None, recording.reason)
        if self._road.over:
            on_recorded(None, self._road.over)
