"""What the app does beside the view shown: exports, copies, looking for cycles, watching a folder.

Each task runs in a thread under a name the header shows; ^C stops waiting for it. The base of the app, apart from it
so that opening and showing runs is one file and this another.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from ...analysis.core import units
from ...analysis.core.text import display
from ..session import resume
from ..session.exporting import copied, new_file
from ..session.jobs import QueryRunner
from ..session.keys import spelled
from ..session.messages import (
    ActionWanted,
    CopyWanted,
    CycleStepped,
    ScopeChanged,
    StopWanted,
    TaskWanted,
    TextCopied,
    ViewWanted,
    WarningsWanted,
)
from ..session.opening import Found
from ..session.session import Session
from ..session.watch import EVERY, Watch
from ..terminal import clipboard
from ..terminal.textual_hooks import HookedApp
from .screen import MainScreen

_ENDING = [
    getattr(signal, name) for name in (
        "SIGHUP", "SIGTERM", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU"
    ) if hasattr(signal, name)
]
"""Signals whose default is the end of the process, at once."""
_LONGEST_END = 3.0
"""Seconds until it ends without giving the terminal back, where the terminal does not take that."""


class Background(HookedApp):
    """Tasks in threads, and what comes of them."""

    session: Session
    main: MainScreen
    keys_in_force: Mapping[str, str]

    def __init__(self) -> None:
        super().__init__()
        self.tasks: dict[QueryRunner, str] = {}
        self.offers: list[Found] = []

    def on_load(self) -> None:
        """Before the terminal is taken: signals."""
        self.mind_signals()

    def mind_signals(self) -> None:
        """Whatever would end a process ends this one in order: the terminal given back, what it started stopped.

        The handlers run in the main thread wherever it is, not between two callbacks of the loop: it may be waiting to
        write to a terminal that takes nothing any more, and then an alarm ends what the loop cannot.
        """
        if threading.current_thread() is not threading.main_thread() or os.name != "posix":
            return
        loop, first = asyncio.get_running_loop(), 0

        def end(number: int, frame: object) -> None:
            nonlocal first
            if first and number == signal.SIGALRM:
                self._end_at_once(first)
            first = first or number
            signal.setitimer(signal.ITIMER_REAL, _LONGEST_END)
            with suppress(RuntimeError):  # the loop has ended already
                loop.call_soon_threadsafe(self._ended_by, first)

        for number in _ENDING:
            signal.signal(number, end)

    def _ended_by(self, number: int) -> None:
        self.exit(return_code=128 + number)

    def _end_at_once(self, number: int) -> NoReturn:
        self.stop_all()
        resume.keep(self.session)
        atexit.unregister(logging.shutdown)  # it would wait for the terminal as well
        atexit._run_exitfuncs()
        os._exit(128 + number)

    def stop_all(self) -> None:
        """Leave no process behind."""
        for one in self.session.inputs:
            one.stop()

    def on_view_wanted(self, event: ViewWanted) -> None:
        """Somebody wants to see another view."""
        self.main.open_view(event.view)

    def on_action_wanted(self, event: ActionWanted) -> None:
        """A key's action was chosen by its name."""
        node = self.main.pane if event.place == "pane" else self.main
        if node is not None:
            self.call_later(node.run_action, event.action)

    def on_scope_changed(self, event: ScopeChanged) -> None:
        """Ask what is shown again, in the new scope."""
        self.main.news()

    def on_stop_wanted(self, event: StopWanted) -> None:
        """Stop what is running: loads, else the question being asked."""
        pane = self.main.pane
        stopped = [run.name for run in self.session.inputs if run.stop()]
        stopped += [name for runner, name in self.tasks.items() if runner.drop()]
        self.tasks.clear()
        if pane is not None and any([runner.drop() for runner in pane.runners]):
            stopped.append(pane.entry.title)
        names = ", ".join(display(name, 40) for name in stopped)
        self.notify(f"Stopped: {names}" if stopped else "Nothing to cancel; q quits.", markup=False)
        self.main.news()

    def on_task_wanted(self, event: TaskWanted) -> None:
        """A pane has something to do beside the view."""
        self.run_task(event.name, event.job, event.then)

    def on_copy_wanted(self, event: CopyWanted) -> None:
        """A pane has a table to copy."""
        self.run_task("copying", lambda: copied(event.job(), event.view), self._take_copy)

    def on_text_copied(self, event: TextCopied) -> None:
        """A pane has a text to copy."""
        self._take_copy((event.text, "warplens-command.txt"))

    def run_task(self, name: str, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Do something beside the view, in the background; it is shown as ``name`` and ^C stops waiting for it."""
        runner = QueryRunner(self)

        def take(value: Any) -> None:
            self.tasks.pop(runner, None)
            self.main.tell()
            then(value)

        self.tasks[runner] = name
        runner.ask(job, take)
        self.main.tell()

    def on_slow(self) -> None:
        """An answer is long in coming."""
        self.main.tell()

    def watch_folder(self, watch: Watch) -> None:
        """Offer what appears in a folder, from now on."""
        runner = QueryRunner(self)

        def look() -> None:
            if not runner.busy:
                runner.ask(watch.look, self._offer)

        self.set_interval(EVERY, look)

    def _offer(self, value: Any) -> None:
        if isinstance(value, Exception):
            return
        for found in value:
            self.offers.insert(0, found)
            name, key = display(found.path.name, 60), spelled(self.keys_in_force["open_trace"])
            self.notify(f"New trace: {name}, {units.size(found.bytes or 0)}. {key} opens it.", timeout=20, markup=False)

    def on_cycle_stepped(self, event: CycleStepped) -> None:
        """The cycle before or after the one in scope, by place in each run; from no scope the first or the last."""
        traces, session = self.session.traces, self.session

        def job() -> list[list[int]]:
            from ...analysis.contract.options import SIDES
            from ...analysis.overview.headline import cycle_numbers

            return [cycle_numbers(trace, session.options, side) for trace, side in zip(traces, SIDES, strict=False)]

        def take(value: Any) -> None:
            if isinstance(value, Exception) or not any(value):
                self.notify("No cycles found in this run.", markup=False)
                return
            now = (session.cycle, session.cycle_b)
            moved = [neighbour(numbers, at, event.step) for numbers, at in zip(value, now, strict=False)]
            session.scope(moved[0], moved[1] if len(moved) > 1 else None, session.rank, session.rank_b)
            self.main.news()

        self.run_task("looking for cycles", job, take)

    def on_warnings_wanted(self, event: WarningsWanted) -> None:
        """What was wrong in the inputs, and the notes of the view."""
        from ..overlays.overlay import WarningsScreen

        sections = [(display(trace.info.label, 60), list(trace.info.warnings) or ["no problems in this input"])
                    for trace in self.session.traces]
        pane = self.main.pane
        if pane is not None and pane.table is not None and pane.table.notes:
            sections.append((f"{pane.entry.title}: notes", list(pane.table.notes)))
        self.push_screen(WarningsScreen(sections or [("Nothing is open", ["o opens a trace"])]))

    def _take_copy(self, value: Any) -> None:
        """Give markdown to the terminal's clipboard, or write it to a file where none would take it."""
        if isinstance(value, Exception):
            self.notify(display(str(value), 300), severity="error", markup=False)
            return
        text, name = value
        sequence = clipboard.sequence(text, os.environ)
        if sequence is not None and self.driver is not None:
            self.driver.write(sequence)
            self.driver.flush()
            self.notify(f"Copied {units.counted(len(text.splitlines()), 'line', 'lines')}.", markup=False)
            return
        written = new_file(Path(name), [text.encode()])
        self.notify(f"No clipboard here; written to {display(str(written))}", markup=False)


def neighbour(numbers: list[int], now: int | None, step: int) -> int | None:
    """The number ``step`` places from ``now``, kept inside; the first or last where there is no now."""
    if not numbers:
        return None
    if now not in numbers:
        return numbers[0] if step > 0 else numbers[-1]
    return numbers[max(0, min(len(numbers) - 1, numbers.index(now) + step))]
