"""What travels to the terminal: only cells that changed, and no frame the terminal has not caught up to.

Textual repaints every cell of what it refreshes and queues frames without end; over a slow link that is seconds of
stale pages. ``Wired`` keeps a picture of what the terminal shows and of what it should show. A frame is the difference,
and asks the terminal a question at its end (whether it knows mode 2026, the one Textual asks at start); until that is
answered later changes only change the picture. What must stay true: nothing is sent when nothing changed; a terminal
that never answers is never waited for; where Textual is not as expected, it paints as it always does.

This is the only file that knows how Textual paints (``App._display`` of the pinned version).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.color import ColorSystem
from textual import events, messages
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen
from textual.strip import Strip

from . import sanitiser, screen_diff
from .input_thread import quiet
from .textual_version import tested

PATIENCE = 2.0
"""Seconds after which an unanswered frame holds up the next one no longer."""

_BEGIN, _END, _QUESTION = "\x1b[?2026h", "\x1b[?2026l", "\x1b[?2026$p"
_SMALL = 200
"""Characters under which a frame is so short that it needs no brackets against tearing."""
_PRINTABLE = sanitiser.Printable()


def supported() -> bool:
    """Whether Textual paints the way this file expects."""
    return (
        tested()
        and hasattr(App, "_display")
        and all(hasattr(App, name) for name in ("post_display_hook", "_begin_update"))
        and os.name == "posix"
    )


class TerminalPicture:
    """What the terminal shows, and what it should."""

    def __init__(self, pens: screen_diff.Pens) -> None:
        self.pens = pens
        self.width = self.height = 0
        self._wanted: list[screen_diff.Row] = []
        self._shown: list[screen_diff.Row] | None = None
        self._changed: set[int] = set()
        self._cursor = 0, 0

    def resize(self, width: int, height: int) -> None:
        """Another size: nothing is known any more."""
        if (width, height) != (self.width, self.height):
            self.width, self.height = width, height
            self._wanted = [screen_diff.blank(width) for _ in range(height)]
            self.forget()

    def forget(self) -> None:
        """The terminal may show anything: paint all of it next time."""
        self._shown = None
        self._changed = set(range(self.height))

    def lay(self, y: int, x: int, strip: Strip) -> None:
        """Part of a line as it should be."""
        if 0 <= y < self.height:
            screen_diff.lay(self._wanted[y], x, screen_diff.cells(strip._segments, self.pens))
            self._changed.add(y)

    def difference(self, erase_with_background: bool, cursor: tuple[int, int]) -> str:
        """What brings the terminal up to date; it is taken to be sent. ``cursor`` (column, row) is where input goes."""
        writer = screen_diff.Writer(self.pens, self.width, self.height, erase_with_background)
        shown = self._shown
        if shown is None:
            writer.clear()
            shown = [screen_diff.blank(self.width) for _ in range(self.height)]
        elif len(self._changed) > 4 and (move := screen_diff.shift(shown, self._wanted)) is not None:
            writer.scroll(*move)
            shown = screen_diff.scrolled(shown, *move)
            self._changed.update(range(move[0], move[1]))
        for y in sorted(self._changed):
            writer.row(y, shown[y], self._wanted[y])
            shown[y] = list(self._wanted[y][0]), list(self._wanted[y][1])
        self._changed.clear()
        self._shown = shown
        body = writer.result()
        if cursor != self._cursor or (body and cursor != (0, 0)):
            self._cursor = cursor
            body += f"\x1b[{cursor[1] + 1};{cursor[0] + 1}H"
        return body


class Wired(App[None]):
    """An App that paints by differences. Give it as a base class; there is nothing to call."""

    _by_difference = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._picture: TerminalPicture | None = None
        self._by_difference = supported()
        self._asked: float | None = None  # when the frame the terminal has not answered for was sent
        self._ignored = 0  # questions in a row that nobody answered
        self._waiting = False
        self._erase = not os.environ.get("TERM", "").startswith("screen") or bool(os.environ.get("TMUX"))

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Where Textual paints, its lines are made harmless here; ours are, cell by cell, in any case."""
        filters = super().get_line_filters()
        return filters if self._by_difference else [*filters, _PRINTABLE]

    def get_driver_class(self) -> type[Driver]:
        """The platform's driver behind the filter on everything that leaves."""
        return sanitiser.guarded(quiet(super().get_driver_class()))

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if not self._by_difference or not isinstance(renderable, (LayoutUpdate, ChopsUpdate)):
            if self._picture is not None and renderable is not None:
                self._picture.forget()
            super()._display(screen, renderable)
            return
        try:
            driver = self._driver
            if self._batch_count or not self._running or self._closed or driver is None or driver.is_headless:
                return
            if driver.is_inline:
                self._by_difference = False
                super()._display(screen, renderable)
                return
            try:
                self._take(renderable)
                self._paint()
            except Exception:
                # better an app that sends more bytes than none: from here on Textual paints
                self._by_difference = False
                self.refresh(layout=True)
                if os.environ.get("WARPLENS_STRICT"):
                    raise
        finally:
            self.post_display_hook()

    def _take(self, update: LayoutUpdate | ChopsUpdate) -> None:
        if self._picture is None:
            self._picture = TerminalPicture(screen_diff.Pens(self.console._color_system or ColorSystem.TRUECOLOR))
        self._picture.resize(*self.size)
        for y, x, strip in _pieces(update):
            self._picture.lay(y, x, strip)

    def _paint(self) -> None:
        """Send what changed, or wait for the answer to what was sent before."""
        assert self._picture is not None and self._driver is not None
        if (self._picture.width, self._picture.height) != self.size:
            return  # the terminal has another size already, and nothing was drawn for it yet
        now = time.monotonic()
        if self._asked is not None:
            if now - self._asked < PATIENCE:
                if not self._waiting:
                    self._waiting = True
                    self.set_timer(PATIENCE + 0.05, self._give_up)
                return
            self._ignored += 1
        self._asked = None
        body = self._picture.difference(self._erase, (self.cursor_position.x, self.cursor_position.y))
        if not body:
            return
        if self._sync_available:
            if len(body) > _SMALL:
                body = _BEGIN + body + _END
            if self._ignored < 2:
                body += _QUESTION
                self._asked = now
        self._driver.write(body)
        self._driver.flush()

    def _give_up(self) -> None:
        self._waiting = False
        if self._asked is not None and self._picture is not None and self._running:
            self._paint()

    def on_terminal_supports_synchronized_output(self, message: messages.TerminalSupportsSynchronizedOutput) -> None:
        """The terminal has caught up."""
        self._asked, self._ignored = None, 0
        if self._picture is not None and self._by_difference and self._running and not self._closed:
            self._paint()

    def on_resize(self, event: events.Resize) -> None:
        """Another size, or the same terminal anew after a suspend: it may show anything."""
        self._asked = None
        if self._picture is not None and self._by_difference:
            self._picture.forget()
            if event.size == (self._picture.width, self._picture.height):
                self._paint()


def _pieces(update: LayoutUpdate | ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Row, column and content of everything an update repaints."""
    if isinstance(update, LayoutUpdate):
        for y, line in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in line:
                if strip is not None:
                    yield y, x, strip
                    x += strip.cell_length
        return
    for y, left, right in update.spans:
        for end, (x, piece) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if piece is not None and x <= right and end > left:
                yield y, x, piece
