"""Output to the terminal: only changed cells, and no frame before the terminal has processed the previous one.

Textual repaints every cell of a refreshed region and queues frames without limit; over a slow link that means seconds
of stale pages. ``Wired`` tracks what the terminal shows and what it should show. A frame is the difference, followed by
a query (whether mode 2026 is supported, as Textual asks at startup); until the reply arrives, further changes only
update the wanted content. Invariants: nothing is sent if nothing changed; a terminal that never replies does not block
output; where ``textual_hooks`` does not fit the installed Textual, Textual paints.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import COLOR_SYSTEMS
from textual import events, messages
from textual.driver import Driver
from textual.filter import LineFilter
from textual.strip import Strip

from . import sanitiser, screen_diff
from .textual_hooks import HookedApp, quiet

PATIENCE = 2.0
"""Seconds after which a frame without a reply no longer delays the next one."""

BETWEEN = 0.1
"""Seconds between two frames while keys are held back."""
_BEGIN, _END, _QUESTION = "\x1b[?2026h", "\x1b[?2026l", "\x1b[?2026$p"
_SMALL = 200
"""Frames of at most this many characters are sent without synchronised-output brackets against tearing."""
_PRINTABLE = sanitiser.Printable()


class TerminalPicture:
    """The content the terminal shows, and the content it should show."""

    def __init__(self, pens: screen_diff.Pens) -> None:
        self.pens = pens
        self.width = self.height = 0
        self._wanted: list[screen_diff.Row] = []
        self._shown: list[screen_diff.Row] | None = None
        self._changed: set[int] = set()
        self._cursor = 0, 0

    def resize(self, width: int, height: int) -> None:
        """Set the size; after a change the terminal's content is unknown."""
        if (width, height) != (self.width, self.height):
            self.width, self.height = width, height
            self._wanted = [screen_diff.blank(width) for _ in range(height)]
            self.forget()

    def forget(self) -> None:
        """The terminal's content is unknown: repaint everything next time."""
        self._shown = None
        self._changed = set(range(self.height))

    def lay(self, y: int, x: int, strip: Strip) -> None:
        """Set part of a line of the wanted content."""
        if 0 <= y < self.height:
            screen_diff.lay(self._wanted[y], x, screen_diff.cells(list(strip), self.pens))
            self._changed.add(y)

    def difference(self, erase_with_background: bool, cursor: tuple[int, int]) -> str:
        """The output that updates the terminal, assumed to be sent. ``cursor`` (column, row) is where text is typed."""
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


class Wired(HookedApp):
    """An App that sends only differences. Use it as a base class; there is nothing to call."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._picture: TerminalPicture | None = None
        self._sent_at: float | None = None  # when the frame without a reply was sent
        self._painted_at = 0.0
        self._ignored = 0  # consecutive queries without a reply
        self._waiting = False
        self._erase = not os.environ.get("TERM", "").startswith("screen") or bool(os.environ.get("TMUX"))

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Where Textual paints, control characters are removed here; in our frames that happens per cell."""
        filters = super().get_line_filters()
        return filters if self.by_difference else [*filters, _PRINTABLE]

    def get_driver_class(self) -> type[Driver]:
        """The platform's driver, with its output filtered by ``outgoing``."""
        return sanitiser.guarded(quiet(super().get_driver_class()))

    def textual_painted(self) -> None:
        """Textual wrote something itself: the terminal's content is unknown."""
        if self._picture is not None:
            self._picture.forget()

    def paint(self, strips: Iterator[tuple[int, int, Strip]]) -> None:
        """Apply an update to the wanted content and send the difference, unless the terminal lags behind."""
        if self._picture is None:
            system = COLOR_SYSTEMS[self.console.color_system or "truecolor"]
            self._picture = TerminalPicture(screen_diff.Pens(system))
        self._picture.resize(*self.size)
        for y, x, strip in strips:
            self._picture.lay(y, x, strip)
        self._paint()

    def _paint(self) -> None:
        """Send what changed, unless the reply to the previous frame is pending."""
        driver = self.driver
        assert self._picture is not None and driver is not None
        if (self._picture.width, self._picture.height) != self.size:
            return  # the terminal was resized, and nothing has been drawn for the new size yet
        now = time.monotonic()
        if self.is_behind and now - self._painted_at < BETWEEN:
            return
        if self._sent_at is not None:
            if now - self._sent_at < PATIENCE:
                if not self._waiting:
                    self._waiting = True
                    self.set_timer(PATIENCE + 0.05, self._give_up)
                return
            self._ignored += 1
        self._sent_at = None
        cursor = self.size.clamp_offset(self.cursor_position)  # a prompt may have been cut off on the left
        self._painted_at = now
        body = self._picture.difference(self._erase, (cursor.x, cursor.y))
        if not body:
            return
        if self.synchronised_output:
            if len(body) > _SMALL:
                body = _BEGIN + body + _END
            if self._ignored < 2:
                body += _QUESTION
                self._sent_at = now
        driver.write(body)
        driver.flush()

    def caught_up(self) -> None:
        """Paint what the keys typed ahead have changed."""
        if self._picture is not None and self.by_difference and self.paints:
            self._paint()

    def _give_up(self) -> None:
        self._waiting = False
        if self._sent_at is not None and self._picture is not None and self.paints:
            self._paint()

    def on_terminal_supports_synchronized_output(self, message: messages.TerminalSupportsSynchronizedOutput) -> None:
        """The terminal replied: it has processed the last frame."""
        self._sent_at, self._ignored = None, 0
        if self._picture is not None and self.by_difference and self.paints:
            self._paint()

    def on_resize(self, event: events.Resize) -> None:
        """A new size, or a resume after a suspend: the terminal's content is unknown."""
        self._sent_at = None
        if self._picture is not None and self.by_difference:
            self._picture.forget()
            if event.size == (self._picture.width, self._picture.height):
                self._paint()
