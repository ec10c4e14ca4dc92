"""Background queries: a job runs in a thread, its answer comes back as a message, stale answers are dropped.

Every runner has a generation number. A new question to the same runner, or ^C, increments it, and an answer with an
older number is ignored. That is all cancelling can mean here, since a running query cannot be interrupted: it runs on
in the background. At most one such abandoned query runs beside the current one; further questions queue, and only the
newest of them is ever computed.
Threads are reused (each new one would allocate memory pools of its own); another one starts only when all are busy.
All are daemons, so quitting the app never waits for one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from textual.message import Message

if TYPE_CHECKING:
    from textual.app import App

SLOW = 0.15
"""Seconds after which to show that a query is running: drawing that frame delays the one with the answer."""

AT_ONCE = 2
"""Questions one runner computes at the same time: the current one and one abandoned."""

TURN = 0.001
"""Interpreter switch interval, s: waiting for Python's default 5 ms several times a frame is noticeable."""

_runners: WeakSet[QueryRunner] = WeakSet()


class _Threads:
    """A pool of daemon threads, as many as there were concurrent jobs at the peak."""

    def __init__(self) -> None:
        self.running = 0
        self._idle = 0
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()

    def run(self, job: Callable[[], None]) -> None:
        with self._lock:
            self.running += 1
            if self._idle:
                self._idle -= 1
            else:
                threading.Thread(target=self._work, name="questions", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            with self._lock:
                self.running -= 1
                self._idle += 1


_threads = _Threads()


def anything_working() -> bool:
    """Whether a query is still being computed; then the app must exit without waiting for interpreter shutdown."""
    return _threads.running > 0


def waiting(app: App[Any]) -> bool:
    """Whether any question of this app is still unanswered."""
    return any(runner.busy and runner.app is app for runner in _runners)


class Answered(Message):
    """The result of a job: its value, or the exception it raised."""

    def __init__(self, runner: QueryRunner, generation: int, then: Callable[[Any], None], value: Any) -> None:
        super().__init__()
        self.runner, self.generation, self.then, self.value = runner, generation, then, value

    def deliver(self) -> None:
        """Pass the value to ``then``, unless a newer question was asked meanwhile."""
        self.runner.deliver(self)


class Slow(Message):
    """A query has been running for ``SLOW`` seconds: show that it is running."""


class QueryRunner:
    """Asks one question at a time: ``busy`` until it is answered, ``slow`` once it has taken ``SLOW`` seconds."""

    def __init__(self, app: App[Any]) -> None:
        self.app = app
        self._generation = 0
        self._lock = threading.Lock()
        self._running = 0
        self._next: Callable[[], None] | None = None
        self._due: asyncio.TimerHandle | None = None
        self._on_slow: Callable[[], None] | None = None
        self.busy = self.slow = False
        _runners.add(self)

    def ask(self, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run ``job`` in a thread; call ``then`` on the UI thread with its value or the exception it raised."""
        self._start(self._next_generation(), job, then)

    def ask_after(
        self, seconds: float, job: Callable[[], Any], then: Callable[[Any], None], slow: Callable[[], None]
    ) -> None:
        """``ask`` once no other question came for that many seconds: debounces keys that may be held down.

        ``slow`` is called if the answer takes longer than ``SLOW``.
        """
        generation = self._next_generation()

        def begin() -> None:
            self._on_slow = slow
            self._start(generation, job, then)

        self._due = asyncio.get_running_loop().call_later(seconds, begin)

    def _next_generation(self) -> int:
        self._generation += 1
        self.busy, self.slow = True, False
        self._on_slow = None
        if self._due is not None:
            self._due.cancel()
            self._due = None
        return self._generation

    def _start(self, generation: int, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        def work() -> None:
            try:
                value = job()
            except Exception as error:
                value = error
            except BaseException as error:  # a panic of polars, which is no Exception: the thread must answer
                value = RuntimeError(str(error))
            with suppress(RuntimeError):  # the app is gone, and its loop with it
                self.app.post_message(Answered(self, generation, then, value))

        self.app.set_timer(SLOW, lambda: self._tell_slow(generation))
        with self._lock:
            if self._running == AT_ONCE:
                self._next = work
                return
            self._running += 1
        _threads.run(lambda: self._run(work))

    def _run(self, work: Callable[[], None] | None) -> None:
        while work is not None:
            work()
            with self._lock:
                work, self._next = self._next, None
                self._running -= work is None

    def _tell_slow(self, generation: int) -> None:
        if self.busy and generation == self._generation:
            self.slow = True
            if self._on_slow is not None:
                self._on_slow()
            self.app.post_message(Slow())

    def deliver(self, answer: Answered) -> None:
        """Called by the app for each answer; stale ones are ignored."""
        if answer.generation == self._generation:
            self.busy = self.slow = False
            answer.then(answer.value)

    def drop(self) -> bool:
        """Discard the current question; True if there was one."""
        was = self.busy
        with self._lock:
            self._next = None
        self._next_generation()
        self.busy = self.slow = False
        return was
