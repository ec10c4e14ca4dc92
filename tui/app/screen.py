"""The screen everything happens on: lines around, one pane a view, a prompt at the bottom.

Panes are made when their view is first opened and stay, hidden, so that coming back is instant. The screen knows
nothing of what a view shows; it opens views, closes overlays and keeps the lines around the pane true.
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
from ..session.messages import PickerWanted, RunsWanted, StopWanted, WarningsWanted
from ..session.paths import split_paths
from ..session.session import Session
from ..terminal.textual_hooks import drop_style_cache
from ..widgets.chrome import Footer, Header, Loading, Tabs
from ..widgets.prompt import Prompt


class Panes(Container):
    """Where the panes are."""

    BLANK = True


class MainScreen(Screen[None]):
    """Views of what is open."""

    BLANK = True
    """As a pane is, and for the same reason."""
    AUTO_FOCUS = ""
    """None: it would be the hidden prompt, which would swallow what is typed before the first view is there."""

    DEFAULT_CSS = """
    MainScreen { layout: vertical; }
    MainScreen #panes { height: 1fr; }
    MainScreen.zoomed Tabs, MainScreen.zoomed Header { display: none; }
    MainScreen.zoomed Picture, MainScreen.zoomed SidePanel { display: none; }
    MainScreen.small Tabs { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("screen"), *view_bindings()]

    def __init__(self, session: Session, keys: Mapping[str, str], tasks: Mapping[Any, str]) -> None:
        """``keys`` in force by their names; ``tasks`` are those under way, as the app keeps them."""
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

    def compose(self) -> ComposeResult:
        """Lines above, panes, lines below."""
        yield self.header
        yield self.tabs
        yield self.reading
        yield self.panes
        yield self.prompt
        yield self.footer

    def on_mount(self) -> None:
        """The first frame says what this is."""
        self._offering = QueryRunner(self.app)
        self.tell()

    def on_screen_resume(self) -> None:
        """An overlay closed: Textual's cache of styles would hold on to every line that was drawn in it."""
        drop_style_cache()

    def open_view(self, name: str) -> None:
        """Show that view, making its pane if it has none yet."""
        entry = next((entry for entry in VIEWS if entry.name == name), None)
        if entry is None or not self.panes.is_attached:  # a key that comes while a signal ends the app
            return
        self.session.visit(name)
        self._show(entry)

    def _show(self, entry: Entry) -> None:
        pane = next((pane for pane in self.panes.query_children(TablePane) if pane.entry is entry), None)
        if pane is None:
            pane = pane_class(entry.name)(entry, self.session)
            self.panes.mount(pane)
        if self.pane is not None and self.pane is not pane:
            if self.prompt.display:
                self.prompt.action_drop()  # what it takes is of the pane that goes
            self.pane.display = False
        self.pane, pane.display = pane, True
        self.tabs.choose(entry.name)
        self.arriving += 1
        pane.call_after_refresh(self._arrive, pane)
        self.tell()

    def _arrive(self, pane: TablePane) -> None:
        """The pane is there: it may take keys and ask its question."""
        self.arriving -= 1
        if pane is self.pane:
            if not self.prompt.display:
                self.set_focus(pane.focused_part)
            pane.wake()

    def action_view(self, name: str) -> None:
        """A number was pressed; that of the view shown asks it for whatever it takes."""
        if self.pane is not None and self.pane.entry.name == name:
            self.pane.asked_again()
        else:
            self.open_view(name)

    def action_back(self) -> None:
        """The view before."""
        name = self.session.back()
        if name is None:
            if self.session.opened_from:
                self.app.post_message(RunsWanted([self.session.opened_from]))
            else:
                self.app.bell()
            return
        self._show(next(entry for entry in VIEWS if entry.name == name))

    def on_tabs_chosen(self, event: Tabs.Chosen) -> None:
        """A tab was clicked."""
        self.open_view(event.view)

    def news(self) -> None:
        """What is open has changed: ask again."""
        self.reading.watch_runs(self.session.inputs)
        if self.pane is not None:
            self.pane.wake()
        self._offer()
        self.tell()

    def _offer(self) -> None:
        """A tab for each view that what is open can answer, once all of it is read; every key works all the same."""
        runs = self.session.traces
        if self.session.partial or not runs or self._offering is None:
            return

        def take(value: Any) -> None:
            if not isinstance(value, Exception):
                self.tabs.offer(value)

        self._offering.ask(lambda: {entry.name for entry in answerable(runs)}, take)

    def forget(self) -> None:
        """Other runs are opened: no pane shows, or asks anything about, rows of those before."""
        self.headline, self.warnings = "", ()
        for pane in self.panes.query_children(TablePane):
            for runner in pane.runners:
                runner.drop()
            pane.forget()

    def on_table_pane_changed(self) -> None:
        """A pane has something new to say."""
        self.tell()

    def tell(self) -> None:
        """Make the lines around the pane true."""
        pane = self.pane
        slow = pane is not None and any(runner.slow for runner in pane.runners)
        doing = [*self._running_tasks.values(), *(["computing"] if slow else [])]
        busy = f"{doing[0][:1].upper()}{doing[0][1:]}… ^C cancels" if doing else ""
        self.header.tell(
            header_text(self.session, self.headline), len(self.warnings), busy, spelled(self.keys_of("help"))
        )
        if pane is not None:
            pane.caption(frame_text(
                self.session, pane.entry, pane.state, pane.view, pane.shown, pane.subject, self.size.width < 100
            ))
        self.footer.keys([
            (spelled(self.keys_of(key.name)).replace("Enter", "⏎"), pane.key_label(key), gives_way(key))
            for key in footer(pane.wanted())
        ] if pane is not None else [])

    def keys_of(self, name: str) -> str:
        """The keys in force for something, after the user's settings."""
        return self._keys[name]

    def on_resize(self) -> None:
        """What gives way on a small terminal."""
        self.set_class(self.size.height < 16, "small")
        self.tell()

    def on_prompt_said(self, event: Prompt.Said) -> None:
        """Text was typed for the pane, or a path to open."""
        if event.kind == "open":
            if event.final:
                self.close_prompt()
                self.app.post_message(RunsWanted(split_paths(event.text)))
        elif self.pane is not None:
            self.pane.said(event.kind, event.text, event.final)

    def on_prompt_dropped(self, event: Prompt.Dropped) -> None:
        """Nothing was wanted."""
        if self.pane is not None:
            self.pane.unsaid(event.kind)
            self.set_focus(self.pane.focused_part)
        self.close_prompt()

    def ask_for(self, kind: Any, text: str = "", placeholder: str = "", helper: Any = None) -> None:
        """Take a line of text; ``helper`` completes it and knows what was typed before."""
        self.footer.display = False
        self.prompt.open(kind, text, placeholder, helper)

    def refuse(self, reason: str) -> None:
        """The text cannot be taken: say why at the prompt, which stays."""
        self.prompt.fail(reason)

    def close_prompt(self) -> None:
        """Back to the list."""
        self.prompt.close()
        self.footer.display = True
        if self.pane is not None:
            self.set_focus(self.pane.focused_part)

    def action_escape(self) -> None:
        """Clear the search, then the filter; never more."""
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
        """The next part of the view that moves: the list, and what is drawn where not all of it is in sight."""
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
        """The list alone, or all again."""
        self.toggle_class("zoomed")

    def action_warnings(self) -> None:
        """What was wrong in the input."""
        self.app.post_message(WarningsWanted())

    def action_open(self) -> None:
        """Another trace."""
        self.app.post_message(PickerWanted())

    def action_palette(self) -> None:
        """Every command by name."""
        self.app.action_command_palette()

    def action_help(self) -> None:
        """Keys and columns of this view."""
        from ..overlays.help import HelpScreen

        if self.pane is not None:
            pane = self.pane
            self.app.push_screen(HelpScreen(pane.entry, pane.table, self._keys, pane.wanted()))

    def action_stop(self) -> None:
        """Stop what is running: loads first, then the question being asked."""
        self.app.post_message(StopWanted())

    def action_suspend(self) -> None:
        """To the shell."""
        self.app.action_suspend_process()

    def action_quit_or_close(self) -> None:
        """Nothing is open over this screen, so leave."""
        self.app.exit()
