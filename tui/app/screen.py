"""The main screen: header and tabs, one pane per view, prompt and footer at the bottom.

A pane is created when its view is first opened and then only hidden, so that going back is instant. The screen knows
nothing of a view's content: it opens views, handles the prompt and updates the lines around the pane.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import Screen

from ...analysis.views import VIEWS, Entry, answerable
from ..panes import pane_class
from ..panes.picture import Picture
from ..panes.status_text import frame_text, header_text
from ..panes.table import TablePane
from ..session.jobs import QueryRunner
from ..session.keys import bindings, footer, gives_way, spelled, view_bindings
from ..session.messages import (
    PickerRequest,
    RecordingRequest,
    RunListRequest,
    RunsRequest,
    StopRequest,
    WarningsRequest,
)
from ..session.paths import split_paths
from ..session.session import Session
from ..terminal.textual_hooks import drop_style_cache
from ..widgets.chrome import Footer, Header, Loading, Tabs
from ..widgets.prompt import Prompt


class Panes(Container):
    """Container of the panes."""

    BLANK = True


class MainScreen(Screen[None]):
    """The views of the open runs."""

    BLANK = True
    """For the same reason as ``AnsweredPane.BLANK``."""
    AUTO_FOCUS = ""
    """None: Textual would focus the hidden prompt, which would swallow keys typed before the first view is there."""

    DEFAULT_CSS = """
    MainScreen { layout: vertical; }
    MainScreen #panes { height: 1fr; }
    MainScreen.zoomed Tabs, MainScreen.zoomed Header { display: none; }
    MainScreen.zoomed Picture, MainScreen.zoomed SidePanel { display: none; }
    MainScreen.small Tabs { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("screen"), *view_bindings()]

    def __init__(self, session: Session, keys: Mapping[str, str], tasks: Mapping[Any, str]) -> None:
        """``keys``: key name → keys in effect; ``tasks``: the app's live mapping of running tasks to their names."""
        super().__init__()
        self.session, self._keys, self._running_tasks = session, keys, tasks
        self.header, self.tabs, self.reading = Header(), Tabs(VIEWS), Loading()
        self.footer, self.prompt = Footer(), Prompt()
        self.panes = Panes(id="panes")
        self.pane: TablePane | None = None
        self._offering: QueryRunner | None = None
        self.arriving = 0
        self.headline = ""
        self.warnings: tuple[str, ...] = ()
        self.not_drawn = ""

    def compose(self) -> ComposeResult:
        """Header, tabs and load progress above the panes; prompt and footer below."""
        yield self.header
        yield self.tabs
        yield self.reading
        yield self.panes
        yield self.prompt
        yield self.footer

    def on_mount(self) -> None:
        """Fill the header for the first frame."""
        self._offering = QueryRunner(self.app)
        self.update_lines()

    def on_screen_resume(self) -> None:
        """An overlay closed: drop Textual's style cache, which would keep every line drawn in it alive."""
        drop_style_cache()

    def open_view(self, name: str, by_key: bool = False) -> None:
        """Show that view, creating its pane on first use; ``by_key``: the user asked for it by its key or name."""
        entry = next((entry for entry in VIEWS if entry.name == name), None)
        if entry is None or not self.panes.is_attached:  # not attached: a key pressed while a signal ends the app
            return
        self.session.visit(name)
        self._show(entry, by_key)

    def _show(self, entry: Entry, by_key: bool = False) -> None:
        pane = next((pane for pane in self.panes.query_children(TablePane) if pane.entry is entry), None)
        if pane is None:
            pane = pane_class(entry.name)(entry, self.session)
            self.panes.mount(pane)
        if self.pane is not None and self.pane is not pane:
            if self.prompt.display:
                self.prompt.action_drop()  # its input was meant for the pane that is hidden now
            self.pane.display = False
        self.pane, pane.display = pane, True
        self.tabs.choose(entry.name)
        self.arriving += 1
        pane.call_after_refresh(self._arrive, pane, by_key)
        self.update_lines()

    def _arrive(self, pane: TablePane, by_key: bool) -> None:
        """The pane is mounted: focus it and let it run its query."""
        self.arriving -= 1
        if pane is self.pane:
            if not self.prompt.display:
                self.set_focus(pane.focused_part)
            pane.query_if_stale()
            if by_key:
                pane.opened_by_key()

    def action_view(self, name: str) -> None:
        """Open a view by its key; the key of the current view is passed to its pane."""
        if self.pane is not None and self.pane.entry.name == name:
            self.pane.view_key_repeated()
        else:
            self.open_view(name, by_key=True)

    def action_back(self) -> None:
        """Return to the previous view, else to the history that the runs were opened from."""
        name = self.session.back()
        if name is None:
            if self.session.opened_from:
                self.app.post_message(RunsRequest([self.session.opened_from]))
            else:
                self.app.bell()
            return
        self._show(next(entry for entry in VIEWS if entry.name == name))

    def on_tabs_chosen(self, event: Tabs.Chosen) -> None:
        """A tab was clicked."""
        self.open_view(event.view)

    def on_tabs_more_chosen(self) -> None:
        """The last tab was clicked."""
        self.action_more()

    def action_more(self) -> None:
        """Choose among the views that have no tab in sight."""
        if self.tabs.more:
            self.app.open_palette(self.tabs.more)  # type: ignore[attr-defined]
        else:
            self.notify("Every view with data has a tab.", markup=False)

    def inputs_changed(self) -> None:
        """Inputs or scope changed: update the current view, tabs and lines."""
        self.reading.watch_runs(self.session.inputs)
        if self.pane is not None:
            self.pane.query_if_stale()
        self._offer()
        self.update_lines()

    def _offer(self) -> None:
        """Once everything is loaded, show a tab for each view these runs can answer; keys work for all views."""
        runs = self.session.traces
        if self.session.partial or not runs or self._offering is None:
            return

        def take(value: Any) -> None:
            if not isinstance(value, Exception):
                self.tabs.offer(value)

        self._offering.ask(lambda: {entry.name for entry in answerable(runs)}, take)

    def forget(self) -> None:
        """Other runs are being opened: clear every pane and discard its queries."""
        self.headline, self.warnings, self.not_drawn = "", (), ""
        for pane in self.panes.query_children(TablePane):
            for runner in pane.runners:
                runner.drop()
            pane.forget()

    def on_answered_pane_changed(self) -> None:
        """Something changed in a pane that the lines around it show."""
        self.update_lines()

    def update_lines(self) -> None:
        """Update the header, the border of the rows and the footer."""
        pane = self.pane
        slow = pane is not None and any(runner.slow for runner in pane.runners)
        doing = [*self._running_tasks.values(), *(["computing"] if slow else [])]
        busy = f"{doing[0][:1].upper()}{doing[0][1:]}… ^C cancels" if doing else ""
        self.header.show_state(
            header_text(self.session, self.headline), len(self.warnings) + bool(self.not_drawn), busy,
            spelled(self.keys_of("help"))
        )
        if pane is not None:
            pane.caption(frame_text(
                self.session, pane.entry, pane.state, pane.view, pane.shown, pane.subject, self.size.width < 100
            ))
        self.footer.keys([
            (spelled(self.keys_of(key.name)).replace("Enter", "⏎"), pane.key_label(key), gives_way(key))
            for key in footer(pane.footer_keys())
        ] if pane is not None else [])

    def keys_of(self, name: str) -> str:
        """The keys in effect for a key name, user settings included."""
        return self._keys[name]

    def on_resize(self) -> None:
        """Hide what does not fit a small terminal."""
        self.set_class(self.size.height < 16, "small")
        self.update_lines()

    def on_prompt_edited(self, event: Prompt.Edited) -> None:
        """Prompt input for the pane, or paths to open."""
        if event.kind == "open":
            if event.final:
                self.close_prompt()
                self.app.post_message(RunsRequest(split_paths(event.text)))
        elif self.pane is not None:
            self.pane.prompt_changed(event.kind, event.text, event.final)

    def on_prompt_cancelled(self, event: Prompt.Cancelled) -> None:
        """The prompt was cancelled."""
        if self.pane is not None:
            self.pane.prompt_cancelled(event.kind)
            self.set_focus(self.pane.focused_part)
        self.close_prompt()

    @property
    def is_deciding(self) -> bool:
        """Whether the prompt is open only until its last input has been judged."""
        return bool(self.prompt.display) and self.pane is not None and self.pane.is_deciding

    def ask_for(self, kind: Any, text: str = "", placeholder: str = "", helper: Any = None) -> None:
        """Open the prompt; ``helper`` provides completions and earlier input."""
        self.footer.display = False
        self.prompt.open(kind, text, placeholder, helper)

    def refuse(self, reason: str) -> None:
        """Reject the input: show the reason at the prompt, which stays open."""
        self.prompt.fail(reason)

    def close_prompt(self) -> None:
        """Close the prompt and focus the pane."""
        self.prompt.close()
        self.footer.display = True
        if self.pane is not None:
            self.set_focus(self.pane.focused_part)

    def action_escape(self) -> None:
        """End one of these, the first that is active: zoom, the pane's own mode, the search, the filter."""
        pane = self.pane
        if pane is None:
            return
        if self.has_class("zoomed"):
            self.remove_class("zoomed")
        elif pane.leave():
            return
        elif pane.state.search:
            pane.search("")
        elif pane.state.arrangement.filter:
            pane.change(filter="", invert=False)

    def action_focus_pane(self, step: int) -> None:
        """Focus the next part of the view: the list, or a picture that is cut off and can scroll."""
        for picture in self.query(Picture):
            picture.can_focus = picture.cut
        if len(self.focus_chain) < 2:
            self.notify("Nothing else to focus here.", markup=False)
            return
        if step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def action_maximise(self) -> None:
        """Show the list alone, or everything again."""
        self.toggle_class("zoomed")

    def action_warnings(self) -> None:
        """Show the warnings about the inputs."""
        self.app.post_message(WarningsRequest())

    def action_open(self) -> None:
        """Open another trace."""
        self.app.post_message(PickerRequest())

    def action_recordings(self) -> None:
        """List the open recordings."""
        self.app.post_message(RunListRequest())

    def action_record(self) -> None:
        """Record the job once more."""
        self.app.post_message(RecordingRequest())

    def action_palette(self) -> None:
        """Open the palette of all commands."""
        self.app.action_command_palette()

    def action_help(self) -> None:
        """Show the keys and columns of this view."""
        from ..overlays.help import HelpScreen

        if self.pane is not None:
            pane = self.pane
            self.app.push_screen(HelpScreen(pane.entry, pane.table, self._keys, pane.footer_keys()))

    def action_stop(self) -> None:
        """Cancel what is running: loads, tasks, the current query."""
        self.app.post_message(StopRequest())

    def action_suspend(self) -> None:
        """Suspend to the shell."""
        self.app.action_suspend_process()

    def action_quit_or_close(self) -> None:
        """Quit: no overlay is open here."""
        self.app.exit()
