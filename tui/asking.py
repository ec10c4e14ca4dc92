"""Questions in the background: a job runs in a thread, its answer comes back as a message, late answers are dropped.

Every asker has a generation number. A new question of the same asker, or ^C, raises it, and an answer that carries an
older number is ignored: that is what cancelling a running query means here, since a query cannot be interrupted. The
threads are daemons, so that leaving the app never waits for one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from textual.message import Message

if TYPE_CHECKING:
    from textual.app import App

_working: set[threading.Thread] = set()
_askers: WeakSet[Asker] = WeakSet()


def anything_working() -> bool:
    """Whether a thread of any asker still computes; then leaving must not wait for the interpreter to wind down."""
    return any(thread.is_alive() for thread in tuple(_working))


def waiting(app: App[Any]) -> bool:
    """Whether any question of this app has not been answered yet."""
    return any(asker.busy and asker.app is app for asker in _askers)


class Answered(Message):
    """The answer of a job: its value, or the exception it raised."""

    def __init__(self, asker: Asker, generation: int, then: Callable[[Any], None], value: Any) -> None:
        super().__init__()
        self.asker, self.generation, self.then, self.value = asker, generation, then, value

    def deliver(self) -> None:
        """Hand the value on, unless a newer question was asked meanwhile."""
        self.asker.deliver(self)


class Asker:
    """Somebody who asks one thing at a time."""

    def __init__(self, app: App[Any]) -> None:
        self.app = app
        self._generation = 0
        self.busy = False
        _askers.add(self)

    def ask(self, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run ``job`` in a thread; call ``then`` on the screen's with its value, or with the exception it raised."""
        self._generation += 1
        self.busy = True
        generation = self._generation

        def work() -> None:
            try:
                value = job()
            except Exception as error:
                value = error
            _working.discard(threading.current_thread())
            self.app.post_message(Answered(self, generation, then, value))

        thread = threading.Thread(target=work, name="question", daemon=True)
        _working.add(thread)
        thread.start()

    def deliver(self, answer: Answered) -> None:
        """Called by the app for each answer."""
        if answer.generation == self._generation:
            self.busy = False
            answer.then(answer.value)

    def drop(self) -> bool:
        """Ignore what is being asked; True where something was."""
        was = self.busy
        self._generation += 1
        self.busy = False
        return was
