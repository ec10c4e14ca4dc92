"""Background work of the app: exports, copies, finding cycles, watching a folder.

Each task runs in a thread, named in the header; ^C discards its result. This is the base class of the app, in a file
of its own so that opening and showing runs can be read without it.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from ...analysis.core import units
from ...analysis.core.text import display
from ...loaders import files
from ..session import programs, resume
from ..session.exporting import clipboard_text, new_file
from ..session.jobs import QueryRunner
from ..session.keys import spelled
from ..session.messages import (
    ActionRequest,
    CopyRequest,
    CycleStepped,
    RecordingRequest,
    ScopeChanged,
    StopRequest,
    TaskRequest,
    TextCopied,
    ViewRequest,
    WarningsRequest,
)
from ..session.opening import Found
from ..session.session import Session
from ..session.watch import EVERY, Watch
from ..terminal import clipboard
from ..terminal.painting import PaintFailed
from ..terminal.textual_hooks import HookedApp
from .screen import MainScreen
from .start import Start

_ENDING = [
    getattr(signal, name) for name in (
        "SIGHUP", "SIGTERM", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU"
    ) if hasattr(signal, name)
]
"""Signals whose default action terminates the process."""
_HANDS_OFF = 0.5
"""Seconds between two looks at whether a new recording can be shown without disturbing anybody."""
_LONGEST_END = 3.0
"""Seconds a shutdown may take: after that the process exits without restoring a terminal that accepts no output."""


class Background(HookedApp):
    """Runs tasks in threads and handles their results."""

    session: Session
    main: MainScreen
    start: Start
    recordings: Sequence[str] = ()
    keys_in_force: Mapping[str, str]

    def __init__(self) -> None:
        super().__init__()
        self.tasks: dict[QueryRunner, str] = {}
        self.offers: list[Found] = []

    def on_load(self) -> None:
        """Install the signal handlers before Textual takes over the terminal."""
        self.mind_signals()

    def mind_signals(self) -> None:
        """Shut down in order on any terminating signal: terminal restored, loads stopped.

        Handlers run in the main thread at any point, not between two callbacks of the event loop: it may be blocked in
        a write to a terminal that accepts no more output. Then an alarm signal ends the process instead of the loop.
        """
        if threading.current_thread() is not threading.main_thread() or os.name != "posix":
            return
        loop, first = asyncio.get_running_loop(), 0

        def end(number: int, frame: object) -> None:
            nonlocal first
            if first and number == signal.SIGALRM:
                self._end_at_once(first)
            first = first or number
            programs.end_program()
            signal.setitimer(signal.ITIMER_REAL, _LONGEST_END)
            with suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(self._ended_by, first)

        for number in _ENDING:
            signal.signal(number, end)

    def _ended_by(self, number: int) -> None:
        self.exit(return_code=128 + number)

    def _end_at_once(self, number: int) -> NoReturn:
        self.stop_all()
        files.drop_unfinished()
        resume.keep(self.session)
        atexit.unregister(logging.shutdown)  # it would block on the terminal as well
        atexit._run_exitfuncs()
        os._exit(128 + number)

    def stop_all(self) -> None:
        """Stop all loads, so that no process is left behind."""
        for one in self.session.inputs:
            one.stop()

    def on_view_request(self, event: ViewRequest) -> None:
        """Another view was requested."""
        self.main.open_view(event.view, by_key=True)

    def on_action_request(self, event: ActionRequest) -> None:
        """A key's action was chosen by name, in the palette."""
        node = {"pane": self.main.pane, "screen": self.main}.get(event.place, self.main.focused)
        if node is not None:
            self.call_later(node.run_action, event.action)

    def on_scope_changed(self, event: ScopeChanged) -> None:
        """Query the current view again in the new scope."""
        self.main.inputs_changed()

    def on_stop_request(self, event: StopRequest) -> None:
        """Stop loads and tasks, and discard the queries of the current view."""
        pane = self.main.pane
        stopped = [run.name for run in self.session.inputs if run.stop()]
        stopped += [name for runner, name in self.tasks.items() if runner.drop()]
        self.tasks.clear()
        if pane is not None:
            pane.due = None
            if any([runner.drop() for runner in pane.runners]):
                stopped.append(pane.entry.title)
        names = ", ".join(display(name, 40) for name in stopped)
        self.notify(f"Stopped: {names}" if stopped else "Nothing to cancel; q quits.", markup=False)
        self.main.inputs_changed()

    def on_task_request(self, event: TaskRequest) -> None:
        """A pane has a background task."""
        self.run_task(event.name, event.job, event.then)

    def on_copy_request(self, event: CopyRequest) -> None:
        """Compute a pane's table and copy it as markdown."""
        self._copy(lambda: clipboard_text(event.job(), event.view))

    def on_text_copied(self, event: TextCopied) -> None:
        """Copy a pane's text."""
        self._copy(lambda: (event.text, "warplens-command.txt"))

    def _copy(self, make: Callable[[], tuple[str, str]]) -> None:
        """Make a text and the name of a file for it, and copy the text."""
        def job() -> tuple[str, str, bool | None]:
            text, name = make()
            return text, name, clipboard.in_tmux(text, os.environ)

        self.run_task("copying", job, self._take_copy)

    def run_task(self, name: str, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run ``job`` in the background, shown as ``name`` in the header; ^C discards its result."""
        runner = QueryRunner(self)

        def take(value: Any) -> None:
            self.tasks.pop(runner, None)
            self.main.update_lines()
            then(value)

        self.tasks[runner] = name
        runner.ask(job, take)
        self.main.update_lines()

    def on_slow(self) -> None:
        """A query takes long: the header shows it."""
        self.main.update_lines()

    def watch_folder(self, watch: Watch) -> None:
        """From now on, offer traces that appear in the folder."""
        runner = QueryRunner(self)

        def look() -> None:
            if not runner.busy:
                runner.ask(watch.look, self._offer)

        self.set_interval(EVERY, look)

    def _offer(self, value: Any) -> None:
        if isinstance(value, Exception):
            return
        for trace in value:
            self.offers.insert(0, trace)
            name, key = display(trace.path.name, 60), spelled(self.keys_in_force["open_trace"])
            self.notify(f"New trace: {name}, {units.size(trace.bytes or 0)}. {key} opens it.", timeout=20, markup=False)

    def on_recording_request(self, event: RecordingRequest) -> None:
        """Record the job once more."""
        if self.start.recorder is None:
            self.notify("R records again where warplens record … --open opened the app.", markup=False)
            return
        reason = self.start.recorder.again()
        self.notify(f"Not recorded: {display(reason, 200)}" if reason else "Recording again…", markup=False)

    def take_recording(self, path: Path | None, reason: str) -> None:
        """A recording came, or why none did; while an overlay or a prompt is open it waits."""
        if reason:
            self.notify(display(reason, 300), severity="warning", markup=False)
        if path is None:
            return
        if len(self.screen_stack) > 1 or self.main.prompt.display:
            self.set_timer(_HANDS_OFF, lambda: self.take_recording(path, ""))
            return
        self.show_recording(str(path))
        self.notify(f"New recording: {display(path.name, 60)}", markup=False)

    def show_recording(self, path: str) -> None:
        """Show it beside the one before."""
        raise NotImplementedError

    def on_cycle_stepped(self, event: CycleStepped) -> None:
        """Step the scope of each run by position in its list of cycles; unscoped, go to the first or last cycle."""
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
            self.main.inputs_changed()

        self.run_task("looking for cycles", job, take)

    def on_warnings_request(self, event: WarningsRequest) -> None:
        """Show the whole answer, the warnings about the inputs, and the notes of the current view."""
        from ..overlays.overlay import WarningsScreen

        sections = [(display(trace.info.label, 60), list(trace.info.warnings) or ["no problems in this input"])
                    for trace in self.session.traces]
        pane = self.main.pane
        told = None if pane is None else getattr(pane, "exported", pane.table)
        if pane is not None and told is not None and (lines := told.facts.get("lines")):
            whole = [f"{one['mark']} {one['long']}" for one in lines]
            sections.insert(0, (f"{pane.entry.title}: the whole answer", whole))
        if pane is not None and pane.table is not None and pane.table.notes:
            sections.append((f"{pane.entry.title}: notes", list(pane.table.notes)))
        if self.main.not_drawn:
            sections.append(("Drawing", [self.main.not_drawn]))
        self.push_screen(WarningsScreen(sections or [("Nothing is open", ["o opens a trace"])]))

    def on_paint_failed(self, event: PaintFailed) -> None:
        """Something could not be drawn: the warnings say so, once per recording."""
        if not self.main.not_drawn:
            self.main.not_drawn = f"A value of this recording could not be drawn ({display(event.reason, 200)})."
            self.main.update_lines()

    def _take_copy(self, value: Any) -> None:
        """Say where the text is: with tmux, else send it to the terminal's clipboard, else write a file."""
        if isinstance(value, Exception):
            self.notify(display(str(value), 300), severity="error", markup=False)
            return
        text, name, in_tmux = value
        lines = units.counted(len(text.splitlines()), "line", "lines")
        sequence = clipboard.sequence(text, os.environ) if in_tmux is None else None
        if in_tmux:
            self.notify(f"Copied {lines} to tmux's buffer and the terminal's clipboard.", markup=False)
            return
        if sequence is not None and self.driver is not None:
            self.driver.write(sequence)
            self.driver.flush()
            self.notify(f"Sent {lines} to the terminal's clipboard.", markup=False)
            return
        try:
            written = new_file(Path(name), [text.encode()])
        except OSError as error:
            self.notify(f"Not copied: {display(str(error), 200)}", severity="error", markup=False)
            return
        self.notify(f"{lines} written to {display(str(written))}.", markup=False)


def neighbour(numbers: list[int], now: int | None, step: int) -> int | None:
    """The number ``step`` places from ``now``, clamped to the list; the first or last if ``now`` is not in it."""
    if not numbers:
        return None
    if now not in numbers:
        return numbers[0] if step > 0 else numbers[-1]
    return numbers[max(0, min(len(numbers) - 1, numbers.index(now) + step))]
