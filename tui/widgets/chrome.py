"""The lines around a view: header, tabs, load progress and footer, drawn from plain state.

They hold no logic: the screen sets their text, which is always Content made of display text, never markup.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence

from textual.app import RenderResult
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from ...analysis.core import units
from ...analysis.core.text import cut, display
from ...analysis.views import Entry
from ..list import cells
from ..session.opening import Run
from ..session.themes import content_style

WARNING = "⚠"
TAB_LEFT, TAB_RIGHT = "▐", "▌"


class Line(Widget):
    """One line of text with a left part, which may be cut, and a right part, which is never cut."""

    DEFAULT_CSS = "Line { height: 1; width: 1fr; }"
    can_focus = False

    def __init__(self, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._left, self._right = Content(""), Content("")

    def show_text(self, left: Content, right: Content | None = None) -> None:
        """Set the text."""
        right = right if right is not None else Content("")
        if (left.plain, left.spans, right.plain, right.spans) != (
            self._left.plain, self._left.spans, self._right.plain, self._right.spans,
        ):
            self._left, self._right = left, right
            self.refresh()

    def render(self) -> RenderResult:
        """Both parts, the left one cut if necessary."""
        return fitted(self._left, self._right, self.size.width)


def fitted(left: Content, right: Content, width: int) -> Content:
    """Both parts in ``width`` cells; the right one is dropped if too little of the left one would remain."""
    room = width - right.cell_length
    if room < min(left.cell_length, width // 2):
        return left.truncate(width, ellipsis=True)
    left = left.truncate(room, ellipsis=True)
    return Content.assemble(left, " " * (room - left.cell_length), right)


NARROW = 72
"""Cells of the header from which the key beside the current activity has room."""


class Header(Line):
    """Title, open runs, current activity, number of warnings, and the help key."""

    DEFAULT_CSS = "Header { height: 1; color: $foreground; }"

    def show_state(self, text: str, warnings: int, busy: str, help_key: str) -> None:
        """``text`` describes the open runs; ``busy`` the running task, '' for none."""
        parts: list[tuple[str, str]] = []
        if busy:  # where both have no room the key is left out: that a question is open is never
            parts.append((f" {busy if self.size.width >= NARROW else busy.partition(' ^')[0]} ", "$accent"))
        if warnings:
            parts.append((f" {WARNING} {warnings} ", "bold $warning"))
        parts.append((f" {help_key} help ", content_style("dim")))
        right = Content.assemble(*parts)
        text = _brief(text, self.size.width - right.cell_length - 11)
        self.show_text(Content.assemble((" warplens ", f"bold {content_style('focus')}"), " ", text), right)


_ASIDE = re.compile(r" \([^()]*\)")


def _brief(headline: str, room: int) -> str:
    """The headline without the clauses at its end, then without the parentheses, that do not fit."""
    while len(headline) > room and " · " in headline:
        headline = headline.rpartition(" · ")[0]
    return headline if len(headline) <= room else _ASIDE.sub("", headline)


class Tabs(Line):
    """The views that have something to show, by key; the current one is highlighted. A click opens a view. The last tab
    counts the views that have no tab in sight; it opens the palette with them."""

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, view: str) -> None:
            super().__init__()
            self.view = view

    class MoreChosen(Message):
        """The tab that counts the views out of sight was clicked."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        super().__init__()
        self._all = list(entries)
        self._entries = list(self._all)  # until it is known which have data
        self.more: tuple[str, ...] = ()
        """The views with data that have no tab in sight, by name."""
        self._spans: list[tuple[int, int, str]] = []
        self._current = ""

    def choose(self, view: str) -> None:
        """Highlight that view as the current one."""
        if view != self._current:
            self._current = view
            self.refresh()

    def offer(self, names: Container[str]) -> None:
        """Show tabs for these views only, plus the current one."""
        entries = [entry for entry in self._all if entry.name in names]
        if entries != self._entries:
            self._entries = entries
            self.refresh()

    def render(self) -> RenderResult:
        """Titles as far as they fit; long ones are abbreviated first, then the last ones reduced to their keys, then
        left to the last tab."""
        key, here_style, quiet = content_style("focus"), f"reverse bold {content_style('focus')}", content_style("dim")
        shown = [one for one in self._all if (one.key and one in self._entries) or one.name == self._current]
        names, dropped = self._names(shown), list[Entry]()
        while sum(len(name) + 2 + bool(name) for name in names) + 1 > self._room(len(dropped)) and len(shown) > 1:
            at = max(at for at, one in enumerate(shown) if one.name != self._current)
            dropped.append(shown.pop(at))
            names = self._names(shown)
        self.more = tuple(one.name for one in self._entries if one not in shown)
        result, self._spans, at, gap = list[tuple[str, str]](), [], 0, (" ", "")
        for entry, name in zip(shown, names, strict=True):
            here = entry.name == self._current
            if here:
                result += [(TAB_LEFT, key), (f"{entry.key} {name}".strip(), here_style)]
            else:
                result += [gap, (entry.key, key), (f" {name}" if name else "", quiet)]
            gap = (TAB_RIGHT, key) if here else (" ", "")
            self._spans.append((at, at + len(name) + 1 + len(entry.key) + bool(name and entry.key), entry.name))
            at = self._spans[-1][1]
        result.append(gap)
        if self.more:
            text = f" {len(self.more)} more"
            self._spans.append((at + 1, at + 2 + len(text), ""))
            result += [("…", key), (text, quiet)]
        return Content.assemble(*result).truncate(self.size.width)

    def _room(self, dropped: int) -> int:
        """The cells for tabs, beside the last tab if there is one."""
        hidden = dropped + sum(not one.key for one in self._entries)
        return self.size.width - (len(f"… {hidden} more") + 1 if hidden else 0)

    def _names(self, shown: Sequence[Entry]) -> list[str]:
        """The text of each tab at the current width."""
        names, brief = [one.title for one in shown], [one.short or one.title for one in shown]
        saves = sorted(range(len(shown)), key=lambda at: len(brief[at]) - len(names[at]))
        others = [at for at in reversed(range(len(shown))) if shown[at].name != self._current]
        for at, name in [*((at, brief[at]) for at in saves), *((at, "") for at in others)]:
            if sum(len(one) + 2 + bool(one) for one in names) + 1 <= self._room(0):
                break
            names[at] = name
        return names

    def on_click(self, event: Click) -> None:
        """Open the view under the pointer."""
        for start, stop, view in self._spans:
            if start <= event.x < stop:
                self.post_message(self.Chosen(view) if view else self.MoreChosen())


class Footer(Line):
    """The keys of the current view, always in the same order; if not all fit, the least important are dropped."""

    _keys: Sequence[tuple[str, str, int]] = ()

    def keys(self, keys: Sequence[tuple[str, str, int]]) -> None:
        """Set (key, word, priority for dropping: highest first, 0 never)."""
        if list(keys) != self._keys:
            self._keys = list(keys)
            self.refresh()

    def render(self) -> RenderResult:
        """As many keys as fit."""
        shown = list(self._keys)
        while sum(len(key) + len(word) + 3 for key, word, _ in shown) > self.size.width + 1:
            worst = max(shown, key=lambda one: one[2])
            if not worst[2]:
                break
            shown.remove(worst)
        style, quiet = f"bold {content_style('focus')}", content_style("dim")
        result = [piece for key, word, _ in shown for piece in ((f" {key}", style), (f" {word} ", quiet))]
        return Content.assemble(*result).truncate(self.size.width)


class Loading(Widget):
    """One line per run that is loading or failed: bytes, events, rate and time left, or what to do."""

    DEFAULT_CSS = "Loading { height: auto; display: none; }"

    def __init__(self) -> None:
        super().__init__()
        self.runs: Sequence[Run] = ()
        self._lines = 0  # of the last layout

    def watch_runs(self, runs: Sequence[Run]) -> None:
        """Show the runs whose load is worth mentioning."""
        self.runs = [run for run in runs if run.is_worth_showing]
        if self.runs or self.display:
            self.display = bool(self.runs)
            lines, self._lines = self._lines, self._height()
            self.refresh(layout=lines != self._lines)

    def render(self) -> RenderResult:
        """The line of each run."""
        return Content("\n").join(_line(run, self.size.width or 80) for run in self.runs)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """One line per run, two for a failed one with advice."""
        return self._height()

    def _height(self) -> int:
        return sum(2 if run.state == "failed" and run.advice else 1 for run in self.runs)


def _line(run: Run, width: int) -> Content:
    name = display(run.name, max(12, width // 4))
    if run.state == "failed":
        line = Content.assemble(f" {WARNING} ", (cut(display(run.message), width - 4), "bold $error"))
        if run.advice:
            line = Content.assemble(line, "\n   ", (cut(display(run.advice), width - 4), "$foreground"))
        return line
    if run.state == "stopped":
        state = f"  {'showing the rows read so far' if run.traces else 'nothing was read'}; o opens again"
        return Content.assemble(f" {name}  ", ("stopped", "$warning"), state)
    parts: list[tuple[str, str]] = [(f" {name}  ", "bold")]
    if run.of:
        parts.append((f"{run.read:,} of {run.of:,} ranks read  ", ""))
    if run.total:
        parts += [(cells.bar(run.done / run.total, 20), "$primary"), (f" {run.done / run.total:4.0%}  ", "")]
        parts.append((f"{units.size(run.done)} of {units.size(run.total)}  ", "dim"))
    elif run.done:
        parts.append((f"{units.size(run.done)}  ", "dim"))
    else:
        parts.append(("opening  ", "dim"))
    if run.events:
        parts.append((f"{units.count(run.events)} events  ", "dim"))
    if run.rate:
        parts.append((f"{units.rate(run.rate)}  ", "dim"))
        if run.seconds_left is not None:
            parts.append((f"{run.seconds_left:.0f} s left  ", "dim"))
    parts.append(("^C cancels", "dim"))
    return Content.assemble(*parts).truncate(width, ellipsis=True)
