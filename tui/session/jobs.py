"""Questions in the background: a job runs in a thread, its answer comes back as a message, late answers are dropped.

Every runner has a generation number. A new question of the same runner, or ^C, raises it, and an answer that carries an
older number is ignored: that is what cancelling a running query means here, since a query cannot be interrupted. It
goes on behind the scenes, but no more than one such beside the one wanted: further questions wait, and of those only
the newest is ever computed.
Threads are kept for the next question (each new one would bring memory pools of its own), one more is started when all
are at work, and all are daemons, so that leaving the app never waits for one.
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
"""Seconds from which it is worth saying that something is being asked: a frame that says so delays the answer's."""

AT_ONCE = 2
"""Questions of one runner that are computed at the same time: the one wanted, and one nobody waits for any more."""

TURN = 0.001
"""Seconds a thread keeps the interpreter when the screen wants it; Python's own 5 ms, some times a frame, are felt."""

_runners: WeakSet[QueryRunner] = WeakSet()


class _Threads:
    """As many daemon threads as there ever were jobs at once."""

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
    """Whether a question is still being computed; then leaving must not wait for the interpreter to wind down."""
    return _threads.running > 0


def waiting(app: App[Any]) -> bool:
    """Whether any question of this app has not been answered yet."""
    return any(runner.busy and runner.app is app for runner in _runners)


class Answered(Message):
    """The answer of a job: its value, or the exception it raised."""

    def __init__(self, runner: QueryRunner, generation: int, then: Callable[[Any], None], value: Any) -> None:
        super().__init__()
        self.runner, self.generation, self.then, self.value = runner, generation, then, value

    def deliver(self) -> None:
        """Hand the value on, unless a newer question was asked meanwhile."""
        self.runner.deliver(self)


class Slow(Message):
    """A question has been asked for so long that it is worth saying so."""


class QueryRunner:
    """Somebody who asks one thing at a time: ``busy`` until it is answered, ``slow`` when that takes long."""

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
        """Run ``job`` in a thread; call ``then`` on the screen's with its value, or with the exception it raised."""
        self._start(self._next_generation(), job, then)

    def ask_after(
        self, seconds: float, job: Callable[[], Any], then: Callable[[Any], None], slow: Callable[[], None]
    ) -> None:
        """The same once nothing else was asked for so long: for what follows a key that may be held down.

        ``slow`` is called where the answer is long in coming.
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
        """Called by the app for each answer."""
        if answer.generation == self._generation:
            self.busy = self.slow = False
            answer.then(answer.value)

    def drop(self) -> bool:
        """Ignore what is being asked; True where something was."""
        was = self.busy
        with self._lock:
            self._next = None
        self._next_generation()
        self.busy = self.slow = False
        return was
