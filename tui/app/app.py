"""The app: paints its first frame at once, opens runs in the background, and holds the state all screens share.

Importing it loads Textual and nothing heavy; polars is imported in a thread after the first frame, while the inputs
are read in separate processes. Invariant: the UI thread never waits for any of them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from rich.console import Console
from textual.binding import BindingType
from textual.filter import LineFilter
from textual.reactive import Initialize, Reactive

from ...analysis.core import units
from ...analysis.core.text import display
from ...loaders import files
from ..list import glyphs
from ..session import resume, themes
from ..session.jobs import TURN, Answered, QueryRunner, anything_working, waiting
from ..session.keys import remapped
from ..session.messages import PickerRequest, RunListRequest, RunsRequest, TerminalRequest
from ..session.opening import Discover, Opener, Recorded, Run
from ..session.programs import NoProgram
from ..session.session import MOST_OPEN, Session
from ..session.settings import Settings
from ..session.watch import Watch
from ..terminal.writer import Wired
from .background import Background
from .crash import crash_report, report_failed_inputs
from .screen import MainScreen
from .start import Start, collect_again, first_view, warm_up

if TYPE_CHECKING:
    from textual.command import Provider
    from textual.screen import Screen
    from textual.theme import Theme


def _commands() -> type[Provider]:
    from ..overlays.palette import Commands

    return Commands


def _chosen_theme(app: Any) -> str:
    name: str = app.settings.theme
    return name


FIRST_ROWS = 2.0
"""Seconds that keys wait for the first rows of the runs."""
_OPENING = ("view(", "palette", "help", "more")
"""Actions that open something and need no row of the recording."""
_PATIENCE = 0.4
"""Seconds the headline's query waits for the view's first answer before it starts anyway."""


class WarplensApp(Wired, Background):
    """Terminal microscope for one or two runs."""

    TITLE = "warplens"
    ENABLE_COMMAND_PALETTE = True
    ALLOW_SELECT = False
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = []
    theme: Reactive[str] = Reactive(Initialize(_chosen_theme))
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_commands}

    def __init__(
        self, runs: Sequence[str], opener: Opener, discover: Discover | None = None, settings: Settings | None = None,
        start: Start | None = None, recorded: Recorded | None = None,
    ) -> None:
        self.settings = settings or Settings()  # before Textual builds its styles, which need the theme
        super().__init__()
        self.opener, self.discover, self.recorded = opener, discover, recorded
        self.keys_in_force = remapped(self.settings.keys)
        self.start = start or Start()
        self.session = Session(thresholds=self.settings.thresholds, per=self.start.per, extra=dict(self.start.options))
        self.session.scope(self.start.cycle, self.start.cycle)
        self.session.inputs = self.session.reopening.runs(runs)
        self.session.add(runs)
        self.main = MainScreen(self.session, self.keys_in_force, self.tasks)
        self.headlines = QueryRunner(self)
        self.begun, self.chosen = False, ""
        self._opened_at = 0.0
        self._due = False
        self._headline_due = False
        self._ticking: Any = None
        self._piped: list[Run] = []

    def get_theme(self, theme_name: str) -> Theme | None:
        """A warplens theme, else one of Textual's."""
        return themes.theme(theme_name) if theme_name in themes.names() else super().get_theme(theme_name)

    def get_default_screen(self) -> Screen[Any]:
        """The main screen, always the same object."""
        return self.main

    @property
    def busy(self) -> bool:
        """Whether a query is unanswered or about to be asked."""
        untold = any(run.state == "loading" and run not in self.main.reading.runs for run in self.session.inputs)
        return waiting(self) or not self.begun or self.main.arriving > 0 or self._headline_due or untold

    @property
    def has_view(self) -> bool:
        """Whether a first view or the picker is there; for ``FIRST_ROWS`` s after opening also wait for rows."""
        return self._is_open and (bool(self.session.traces) or not self.session.loading or (
            time.monotonic() - self._opened_at > FIRST_ROWS))

    @property
    def _is_open(self) -> bool:
        return self.begun and (self.screen is not self.main or self.main.pane is not None)

    def can_obey(self, key: str) -> bool:
        """As ``has_view``; a key that opens another view, the palette or the help, or is typed there, needs no rows."""
        if self.has_view or not self._is_open:
            return self.has_view
        if self.screen is not self.main:
            return True
        bound = self.screen.active_bindings.get(key)
        return bound is not None and not self.main.prompt.display and bound.binding.action.startswith(_OPENING)

    @property
    def takes_keys(self) -> bool:
        """Whether the view, prompt or panel that the last key opened is there, and its input was accepted or not."""
        if self.screen is self.main:
            return self.main.arriving == 0 and not self.main.is_deciding
        return not any(worker.node is self.screen and worker.is_running for worker in self.workers)

    def on_mount(self) -> None:
        """Paint the first frame; ``post_display_hook`` then opens the runs."""
        self.set_keymap(self.settings.keymap)
        self._due = True

    def post_display_hook(self) -> None:
        """Open the runs as soon as the first frame is out, without waiting for the second."""
        super().post_display_hook()
        if self._due and not self.painting_is_held:
            self._due = False
            self.call_later(self._begin)

    def _begin(self) -> None:
        self.begun = True
        for name in themes.names():
            self.register_theme(themes.theme(name))
        if self.session.inputs:
            resume.restore_notes(self.session)
            if self.start.resume and not resume.restore(self.session):
                self.notify("Nothing to resume: these runs were not open before.", markup=False)
            self._open_all()
        else:
            self.pick()
        QueryRunner(self).ask(warm_up, collect_again)
        if self.start.recorder is not None:
            self.recordings = [run.path for run in self.session.inputs]
            self.start.recorder.start(self._tell_recorded)
        if self.start.watch is not None and self.discover is not None:
            self.watch_folder(Watch(Path(self.start.watch), self.discover))

    def action_command_palette(self) -> None:
        """Open the palette of all commands."""
        self.open_palette()

    def open_palette(self, views: Sequence[str] = ()) -> None:
        """Open the palette of all commands, or of these views alone."""
        from ..overlays.palette import Palette, of_views

        if not any(isinstance(screen, Palette) for screen in self.screen_stack):
            self.push_screen(Palette(providers=[of_views(views)]) if views else Palette())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, and with the setting ``ascii`` one that replaces non-ASCII glyphs."""
        filters = super().get_line_filters()
        return [*filters, glyphs.Plain()] if self.settings.ascii else filters

    def _open_all(self) -> None:
        self.chosen = wanted = self.session.current or self.start.view or self.settings.view
        self.session.current = ""
        self._opened_at = time.monotonic()
        self.main.open_view(
            first_view(wanted, len(self.session.inputs)), by_key=bool(self.start.view) and not self.start.resume)
        self._load()

    def _load(self) -> None:
        """Start reading the runs that are not being read yet."""
        for run in self.session.inputs:
            run.open(self.opener, self._tell_arrived)
            if run.state != "loading":
                self._arrived(run)
        self.main.inputs_changed()
        self._ticking = self.set_interval(0.1, self._tick)

    def _tell_arrived(self, run: Run) -> None:
        """Called on the reading thread for every event of the run except progress."""
        if self.is_running:
            self.call_later(self._arrived, run)

    def on_runs_request(self, event: RunsRequest) -> None:
        """Paths were typed, or a row that stands for runs was opened."""
        self.open_runs(event.paths, event.opened_from)

    def open_runs(self, paths: Sequence[str], opened_from: str = "", view: str = "", in_place: bool = False) -> None:
        """Show these recordings, two at most, in that view. The ones shown before stay open; beyond ``MOST_OPEN``
        none is added, unless ``in_place``."""
        if not self.session.add(paths[:2], in_place or bool(opened_from)):
            self.notify(f"{MOST_OPEN} recordings are open; O lists them, x there closes one.", markup=False)
            return
        self.session.opened_from = opened_from
        self.stop_all()
        resume.keep(self.session)
        piped = [run for run in self.session.inputs if run.path == "-" and run.traces] or self._piped
        self._piped = piped  # standard input is read only once
        self.session.inputs = [piped[0] if piped and run.path == "-" else run
                               for run in self.session.reopening.runs(paths[:2])]
        self.session.views.clear()
        resume.restore_notes(self.session)
        self.session.history, self.session.current = [], view
        self.session.subject = "both"
        self.session.scope(None, None)
        self.main.forget()
        self._open_all()

    def _tell_recorded(self, path: Path | None, reason: str) -> None:
        """Called on the recorder's thread."""
        if self.is_running:
            self.call_later(self.take_recording, path, reason)

    def show_recording(self, path: str) -> None:
        """Show a new recording beside the one before, in the view that is open and as it is arranged."""
        session, before = self.session, self.recordings[-1:]
        self.recordings = [*before, path]
        kept = {name: state.arrangement for name, state in session.views.items()}
        self.open_runs([*before, path], view="" if len(session.inputs) < 2 else session.current, in_place=True)
        for name, arrangement in kept.items():
            session.state(name).arrangement = arrangement

    def _tick(self) -> None:
        self.main.reading.watch_runs(self.session.inputs)
        if not self.session.loading and self._ticking is not None:
            self._ticking.stop()
            self._ticking = None

    def _arrived(self, run: Run) -> None:
        if run not in self.session.inputs:
            return
        self.session.epoch += 1
        if not self.session.loading and not self.session.traces:
            self.forget_keys()  # they were meant for what could not be read
        if self.main.prompt.display:
            pass  # its input is meant for the view it was opened in
        elif not self.session.loading and len(self.session.traces) == 1 and self.session.current == "diff":
            self.main.open_view(first_view("overview", 1))  # the second run could not be opened
        elif not self.session.loading and self.session.current in ("overview", "diff") and (views := self._elsewhere):
            self.session.current = ""  # keeps a view the user never chose out of the history
            self.main.open_view(first_view(views[0], 1))
        elif self._two_in_one and not self.chosen and self.session.current == "overview":
            self.main.open_view(first_view("", 2))
        if self.session.traces:
            self._headline_due = True
            self.set_timer(_PATIENCE, self._ask_headline)
        self.main.inputs_changed()

    @property
    def _elsewhere(self) -> tuple[str, ...]:
        """Views to open instead if the user chose none and the first view has no answer (no device work, no times)."""
        from ...analysis.query.answering import explained, without_device_work

        views = without_device_work(self.session.traces) or explained(self.session.traces)
        return views if not self.chosen or views == ("history",) else ()

    @property
    def _two_in_one(self) -> bool:
        """Whether one input holds two runs."""
        return len(self.session.inputs) < len(self.session.traces)

    def _take_headline(self, value: Any) -> None:
        if isinstance(value, Exception):
            return
        self.main.headline, self.main.warnings = value
        self.main.update_lines()

    def on_answered(self, event: Answered) -> None:
        """The answer of a background query arrived."""
        if isinstance(event.value, FileNotFoundError):
            self._read_removed()
        event.deliver()
        self._ask_headline()

    def _read_removed(self) -> None:
        """Read again each run whose tables were removed, as with the cache; what is shown of it stays as it is."""
        removed = [run for run in self.session.inputs if run.path != "-" and not all(
            trace.is_readable() for trace in run.traces)]
        if removed:
            self.session.inputs = [Run(run.path) if run in removed else run for run in self.session.inputs]
            names = " and ".join(display(run.name, 40) for run in removed)
            self.notify(f"The cached tables of {names} were removed: reading again.", markup=False)
            self._load()

    def _ask_headline(self) -> None:
        """Ask for the headline, after the view's rows: run together, the two queries would delay each other."""
        if self._headline_due and self.session.traces:
            self.headlines.ask(_headline(self.session.traces), self._take_headline)
        self._headline_due = False

    def on_picker_request(self, event: PickerRequest) -> None:
        """The key that opens another trace was pressed."""
        self.pick()

    def on_run_list_request(self, event: RunListRequest) -> None:
        """The key that lists the open recordings was pressed."""
        from ..overlays.runs import RunsScreen

        if self.session.recordings:
            self.push_screen(RunsScreen(self.session, self.open_runs, self.close_run))
        else:
            self.notify("No recording is open; o opens one.", markup=False)

    def close_run(self, path: str) -> bool:
        """Close an open recording; if it is shown, the other one is, or the one opened last. False for the last one."""
        session = self.session
        if len(session.recordings) < 2:
            return False
        shown = [run.path for run in session.inputs]
        session.recordings = [one for one in session.recordings if one != path]
        if path in shown:
            self.open_runs([one for one in shown if one != path] or session.recordings[-1:])
        return True

    def on_terminal_request(self, event: TerminalRequest) -> None:
        """Another program wants the terminal for a while."""
        from textual.app import SuspendNotSupported

        value: Any
        try:
            with self.suspend():
                value = event.job()
        except SuspendNotSupported:
            value = NoProgram("This terminal cannot be given to another program.")
        except NoProgram as error:
            value = error
        self.refresh(layout=True)
        event.then(value)

    def pick(self) -> None:
        """Show the picker: traces found here and traces opened before."""
        from ..overlays.picker import PickerScreen

        def chosen(paths: list[str] | None) -> None:
            shown = [run.path for run in self.session.inputs]
            if paths and len(paths) == 1 and len(shown) == 1 and self.session.current == "diff" and paths != shown:
                self.open_runs([*shown, *paths])  # the diff asked for a second one
            elif paths:
                self.open_runs(paths)
            elif not self.session.inputs:
                self.exit()

        self.push_screen(PickerScreen(self.discover, resume.recent(), self.offers), chosen)

    def take_input(self) -> None:
        """Start reading ``-`` from standard input; read keys from /dev/tty unless standard input is a free terminal."""
        if os.isatty(0) and "-" not in [run.path for run in self.session.inputs]:
            return
        for run in self.session.inputs:
            if run.path == "-":
                run.open(self.opener, self._tell_arrived)
        terminal = os.open("/dev/tty", os.O_RDWR)
        os.dup2(terminal, 0)
        os.close(terminal)

    def crash_report(self, error: BaseException | None) -> str | None:
        """The text to print after a crash; None prints Textual's own traceback."""
        return None if os.environ.get("WARPLENS_DEBUG") else crash_report(error)


def _headline(traces: tuple[Any, ...]) -> Any:
    def job() -> tuple[str, tuple[str, ...]]:
        from ...analysis.overview.headline import headline

        return headline(traces), tuple(warning for trace in traces for warning in trace.info.warnings)

    return job


def run(
    paths: Sequence[str], opener: Opener, discover: Discover | None = None, settings: Settings | None = None,
    start: Start | None = None, recorded: Recorded | None = None,
) -> int:
    """Run the app on these inputs and return the exit status; ends the process here if a query is still running."""
    chosen = settings or Settings()
    drawn = themes.for_colours(chosen.theme, Console(force_terminal=True).color_system)
    app = WarplensApp(paths, opener, discover, replace(chosen, theme=drawn), start, recorded)
    units.use(app.settings.units)
    sys.setswitchinterval(TURN)
    app.take_input()
    app.run()
    if app.crash is not None:
        print(app.crash, file=sys.stderr)  # not with Rich, which crops lines to the width of a narrow terminal
    app.stop_all()
    if app.start.recorder is not None:
        app.start.recorder.stop()
    resume.keep(app.session)
    for run_ in app.session.inputs:
        run_.wait_for_end()
    code = app.return_code or report_failed_inputs(app.session.inputs)
    if anything_working():
        files.drop_unfinished()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
