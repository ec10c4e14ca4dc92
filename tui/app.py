"""The app: paints its frame at once, opens runs in the background, and keeps what every screen shares.

Importing it loads Textual and nothing heavy; the column engine is imported in a thread after the first frame, while the
inputs are being read in processes of their own. What must stay true: the screen never waits for anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segments
from textual.app import App
from textual.binding import BindingType

from ..analysis.text import display
from ..analysis.views import VIEWS
from . import clipboard, resume, themes
from .asking import Answered, Asker, anything_working, waiting
from .crash import crash_lines
from .exporting import new_file
from .keys import remapped
from .main import MainScreen
from .opening import Discover, Found, Opener, Run
from .session import Session
from .settings import Settings

if TYPE_CHECKING:
    from textual.command import Provider


def _commands() -> type[Provider]:
    from .palette import Commands

    return Commands


@dataclass(frozen=True)
class Start:
    """How the app begins: view, scope, whether to go on where it was left, and what every question is asked with.

    ``options`` are fields of ``analysis.options.Options``.
    """

    view: str = ""
    resume: bool = False
    watch: str | None = None
    cycle: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class WarplensApp(App[None]):
    """Terminal microscope for one or two runs."""

    TITLE = "warplens"
    ENABLE_COMMAND_PALETTE = True
    ALLOW_SELECT = False
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = []
    COMMANDS: ClassVar[set[Callable[[], type[Provider]]]] = {_commands}  # type: ignore[assignment]

    def __init__(
        self, runs: Sequence[str], opener: Opener, discover: Discover | None = None, settings: Settings | None = None,
        start: Start | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings or Settings()
        self.opener, self.discover = opener, discover
        self.keys_in_force = remapped(self.settings.keys)
        self.start = start or Start()
        self.session = Session(thresholds=self.settings.thresholds, extra=dict(self.start.options))
        self.session.scope(self.start.cycle, self.start.cycle if len(runs) > 1 else None)
        self.session.inputs = [Run(path) for path in runs]
        self.main = MainScreen(self.session)
        self.errands = Asker(self)
        self.headlines = Asker(self)
        self.offers: list[Found] = []
        self._ticking: Any = None

    @property
    def busy(self) -> bool:
        """Whether a question has not been answered yet."""
        return waiting(self)

    def on_mount(self) -> None:
        """Paint, then open."""
        for name in themes.names():
            self.register_theme(themes.theme(name))
        self.theme = self.settings.theme
        self.set_keymap(self.settings.keymap)
        self.push_screen(self.main)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        if self.session.inputs:
            self._open_all()
        else:
            self.pick()
        self.headlines.ask(_warm_up, lambda value: None)

    def _open_all(self) -> None:
        self.main.open_view(first_view(self.start.view or self.settings.view, len(self.session.inputs)))
        for run in self.session.inputs:
            run.open(self.opener, self._tell_arrived)
        self.main.news()
        self._ticking = self.set_interval(0.1, self._tick)

    def _tell_arrived(self, run: Run) -> None:
        """From the reading thread: something other than progress happened to the run."""
        self.call_later(self._arrived, run)

    def open_runs(self, paths: Sequence[str]) -> None:
        """Open these instead of what is open."""
        self.stop()
        self.session.inputs = [Run(path) for path in paths[:2]]
        self.session.views.clear()
        self.session.scope(None, None)
        self.main.headline, self.main.warnings = "", ()
        self._open_all()

    def _tick(self) -> None:
        self.main.reading.watch_runs(self.session.inputs)
        if not self.session.loading and self._ticking is not None:
            self._ticking.stop()
            self._ticking = None

    def _arrived(self, run: Run) -> None:
        if run not in self.session.inputs:
            return
        self.session.epoch += 1
        if self.session.traces:
            self.headlines.ask(_headline(self.session.traces), self._take_headline)
        self.main.news()

    def _take_headline(self, value: Any) -> None:
        if isinstance(value, Exception):
            return
        self.main.headline, self.main.warnings = value
        self.main.tell()

    def stop(self) -> None:
        """Stop what is running: loads, else the question being asked."""
        stopped = [run for run in self.session.inputs if run.stop()]
        pane = self.main.pane
        if not stopped and pane is not None and pane.asker.drop():
            self.notify("Stopped.", markup=False)
        elif not stopped:
            self.notify("Nothing is running; q quits.", markup=False)
        self.main.news()

    def on_answered(self, event: Answered) -> None:
        """An answer came back from a thread."""
        event.deliver()

    def scope_changed(self) -> None:
        """Ask what is shown again, in the new scope."""
        self.main.news()

    def pick(self) -> None:
        """Choose what to open from what is here and what was open before."""
        from .picker import PickerScreen

        def chosen(paths: list[str] | None) -> None:
            if paths:
                self.open_runs(paths)
            elif not self.session.inputs:
                self.exit()

        self.push_screen(PickerScreen(self.discover, resume.recent(), self.offers), chosen)

    def stop_all(self) -> None:
        """Leave no process behind."""
        for one in self.session.inputs:
            one.stop()

    def step_cycle(self, step: int) -> None:
        """The cycle before or after the one in scope, by place in each run; from no scope the first or the last."""
        traces, session = self.session.traces, self.session

        def job() -> list[list[int]]:
            from ..analysis.headline import cycle_numbers

            return [cycle_numbers(trace, session.options) for trace in traces]

        def take(value: Any) -> None:
            if isinstance(value, Exception) or not any(value):
                self.notify("No cycles were found in this run.", markup=False)
                return
            now = (session.cycle, session.cycle_b)
            moved = [neighbour(numbers, at, step) for numbers, at in zip(value, now, strict=False)]
            session.scope(moved[0], moved[1] if len(moved) > 1 else None)
            self.scope_changed()

        self.errands.ask(job, take)

    def show_warnings(self) -> None:
        """What was wrong in the inputs, and the notes of the view."""
        from .overlay import WarningsScreen

        sections = [(display(trace.info.label, 60), list(trace.info.warnings) or ["nothing was wrong in this input"])
                    for trace in self.session.traces]
        pane = self.main.pane
        if pane is not None and pane.table is not None and pane.table.notes:
            sections.append((f"{pane.entry.title}: notes", list(pane.table.notes)))
        self.push_screen(WarningsScreen(sections or [("Nothing is open", ["o opens a trace"])]))

    def take_copy(self, value: Any) -> None:
        """Give markdown to the terminal's clipboard, or write it to a file where none would take it."""
        if isinstance(value, Exception):
            self.notify(display(str(value), 300), severity="error", markup=False)
            return
        text, name = value
        sequence = clipboard.sequence(text, os.environ)
        if sequence is not None and self._driver is not None:
            self._driver.write(sequence)
            self._driver.flush()
            self.notify(f"Copied {len(text.splitlines())} lines.", markup=False)
            return
        written = new_file(Path(name), text.encode())
        self.notify(f"No clipboard takes this here; written to {display(str(written))}", markup=False)

    def _fatal_error(self) -> None:
        """Say what failed and where in our code; never the data or the locals a rich traceback would print."""
        self.bell()
        self._exit_renderables.append(Segments(crash_lines(self._exception)))
        self._close_messages_no_wait()


def neighbour(numbers: list[int], now: int | None, step: int) -> int | None:
    """The number ``step`` places from ``now``, kept inside; the first or last where there is no now."""
    if not numbers:
        return None
    if now not in numbers:
        return numbers[0] if step > 0 else numbers[-1]
    return numbers[max(0, min(len(numbers) - 1, numbers.index(now) + step))]


def first_view(wanted: str, inputs: int) -> str:
    """The view to begin with: the one wanted, else what most people open the app for; one that exists."""
    names = [entry.name for entry in VIEWS]
    preferred = [wanted, "diff" if inputs > 1 else "overview", "overview", "kernels"]
    return next((name for name in preferred if name in names), names[0])


def _warm_up() -> None:
    """Import what the first question needs while the input is being read."""
    from ..analysis import table

    assert table


def _headline(traces: tuple[Any, ...]) -> Any:
    def job() -> tuple[str, tuple[str, ...]]:
        from ..analysis.headline import headline

        return headline(traces), tuple(warning for trace in traces for warning in trace.info.warnings)

    return job


def run(
    paths: Sequence[str], opener: Opener, discover: Discover | None = None, settings: Settings | None = None,
    start: Start | None = None,
) -> int:
    """Open the app on these inputs; returns the exit status. Leaves no process and no thread behind."""
    app = WarplensApp(paths, opener, discover, settings, start)
    app.run()
    app.stop_all()
    code = app.return_code or 0
    if anything_working():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
