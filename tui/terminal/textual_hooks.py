"""Every private part of Textual this project touches, and what happens where it does not fit.

Frames and keys are the two things Textual has no public hook for: ``HookedApp`` receives each update before Textual
writes it, ``quiet`` replaces the input thread, which in Textual wakes ten times a second. ``fits`` says whether the
installed version is one these hooks were tested with (both ends run in ``make test-deep``); with any other, Textual
paints and reads keys its own way and everything else still works. No other file uses a private name of Textual:
``tests/tui/terminal/test_textual_hooks.py`` keeps it so.

What must stay true of the driver: a lone Escape is told from the start of a sequence after the usual delay; there is at
most one input thread, whatever signals come in whatever order; a terminal that is gone ends the app as a dropped link
does, and no bytes end the thread before.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import textual
from textual import constants, events
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

try:
    from textual._compositor import ChopsUpdate, LayoutUpdate
    from textual._styles_cache import StylesCache
    from textual._xterm_parser import XTermParser
except ImportError:  # a version that moved them: ``fits`` is False, and the names are only bases and type checks
    ChopsUpdate = LayoutUpdate = StylesCache = XTermParser = object  # type: ignore[misc,assignment]

OLDEST, NEWEST = (8, 2, 5), (8, 2, 8)
"""The versions the hooks were tested with. 8.2.5 is the first whose themes say themselves whether they are ANSI."""


@cache
def fits() -> bool:
    """Whether the installed Textual is one of those versions, with all private parts where they were."""
    parts = (App, "_display"), (App, "_close_messages_no_wait"), (XTermParser, "_sequence_to_key_events")
    return within(Path(textual.__file__).parent.parent) and all(hasattr(owner, name) for owner, name in parts)


def within(packages: Path) -> bool:
    """Whether the Textual of that folder of packages lies between the two versions.

    The version is read from the name of the installer's dist-info folder: importlib.metadata takes 15 ms.
    """
    notes = [note.name.removeprefix("textual-").removesuffix(".dist-info")
             for note in packages.glob("textual-*.dist-info")]
    try:
        versions = [tuple(map(int, text.split("."))) for text in notes or [textual.__version__]]
    except ValueError:  # a pre-release
        return False
    return all(OLDEST <= version <= NEWEST for version in versions)


class HookedApp(App[None]):
    """An App that is given each update of the screen instead of Textual writing it."""

    by_difference = False
    """Whether ``paint`` writes; else Textual does."""
    crash: str | None = None
    """What is to be printed once the screen is gone, where the app failed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by_difference = fits() and os.name == "posix"

    def paint(self, strips: Iterator[tuple[int, int, Strip]]) -> None:
        """Write an update: row, column and content of everything repainted."""

    def textual_painted(self) -> None:
        """Textual wrote something itself, so the terminal may show anything."""

    def crash_report(self, error: BaseException | None) -> str | None:
        """What is printed after the app failed; None leaves Textual's traceback."""
        return None

    @property
    def driver(self) -> Driver | None:
        """What writes to the terminal, once the app has started."""
        driver: Driver | None = getattr(self, "_driver", None)
        return driver

    @property
    def paints(self) -> bool:
        """Whether a frame may be written now."""
        return self.is_running and not getattr(self, "_closed", False)

    @property
    def painting_is_held(self) -> bool:
        """Whether a batch of updates is under way, of which no frame is written yet."""
        return bool(getattr(self, "_batch_count", 0))

    @property
    def synchronised_output(self) -> bool:
        """Whether the terminal knows mode 2026; False until it said so."""
        return bool(getattr(self, "_sync_available", False))

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if not self.by_difference or not isinstance(renderable, (LayoutUpdate, ChopsUpdate)):
            if renderable is not None:
                self.textual_painted()
            super()._display(screen, renderable)
            return
        try:
            driver = self.driver
            if self.painting_is_held or not self.paints or driver is None or driver.is_headless:
                return
            if driver.is_inline:
                self.by_difference = False
                super()._display(screen, renderable)
                return
            try:
                self.paint(_strips(renderable))
            except Exception:
                # better an app that sends more bytes than none: from here on Textual paints
                self.by_difference = False
                self.refresh(layout=True)
                if os.environ.get("WARPLENS_STRICT"):
                    raise
        finally:
            self.post_display_hook()

    def _fatal_error(self) -> None:
        self.crash = self.crash_report(getattr(self, "_exception", None))
        if self.crash is None:
            super()._fatal_error()
            return
        self.bell()
        self.exit(return_code=1)


def _strips(update: LayoutUpdate | ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
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


def drop_style_cache() -> None:
    """Empty Textual's cache of styles, which would hold on to every line drawn in an overlay; nothing elsewhere."""
    with suppress(AttributeError):
        StylesCache.get_inner_outer.cache_clear()


def tolerant(palette: type[Any]) -> type[Any]:
    """The command palette without five failures: a page turned before its list has a layout or where it has no room; a
    key before its parts are there; a click on an entry that has just gone; Enter twice before it closes, which closes
    a second screen; commands that arrive after it was closed."""
    from textual.css.query import NoMatches
    from textual.widgets import OptionList

    original: Any = getattr(palette, "_action_command_list", None)
    down: Any = getattr(palette, "_action_cursor_down", None)
    if original is None or down is None:
        return palette
    click: Any = OptionList._on_click

    async def click_on_a_line(self: OptionList, event: events.Click) -> None:
        with suppress(IndexError):  # the list has changed since the line under the pointer was drawn
            await click(self, event)

    OptionList._on_click = click_on_a_line  # type: ignore[method-assign]

    class Tolerant(palette):  # type: ignore[misc]
        def _action_command_list(self, action: str) -> None:
            with suppress(KeyError, IndexError, NoMatches):
                original(self, action)

        def _action_cursor_down(self) -> None:
            with suppress(NoMatches):
                down(self)

        def run_worker(self, *args: Any, **options: Any) -> Any:
            return super().run_worker(*args, **options | {"exit_on_error": False})

        def dismiss(self, result: Any = None) -> Any:
            return super().dismiss(result) if self.app.screen is self else AwaitComplete.nothing()

    return Tolerant


LOOKS = 2
"""Timeouts after input before the thread sleeps again, each one Escape delay long."""
INTRODUCERS = "[]OP_^X"
"""What turns a preceding Escape into the start of a sequence. Any other key, however close behind, is a key."""


class Keys(XTermParser):
    """Textual's parser without Alt: Escape and a key that arrive together are Escape and that key."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        escaped = len(sequence) == 2 and sequence[0] == "\x1b" and sequence[1] not in INTRODUCERS
        if escaped or alt:
            yield events.Key("escape", "\x1b")
        yield from super()._sequence_to_key_events(sequence[1:] if escaped else sequence)


@cache
def quiet(driver: type[Driver]) -> type[Driver]:
    """The driver class with an input thread that sleeps without input; unchanged where the hooks do not fit."""
    if not fits() or driver.__name__ != "LinuxDriver":
        return driver
    from textual.drivers.linux_driver import LinuxDriver

    class Quiet(LinuxDriver):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._file = next((file for file in (sys.__stderr__, sys.__stdout__) if file and file.isatty()), self._file)
            self._wake_read, self._wake_write = os.pipe()
            self._suspended = False
            loop = asyncio.get_running_loop()  # between two callbacks of it the terminal is ours or not, never halfway
            loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
            loop.add_signal_handler(signal.SIGCONT, self._sigcont_application)

        @property
        def _has_terminal(self) -> bool:
            return self._key_thread is not None and self._key_thread.is_alive()

        def start_application_mode(self) -> None:
            if self._wake_read < 0:  # a suspend closed them
                self._wake_read, self._wake_write = os.pipe()
            LinuxDriver.start_application_mode(self)
            self._suspended = not self._has_terminal  # in the background: the next SIGCONT tries again
            # Textual's handler can be interrupted by itself, and then the older size is reported last
            asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._terminal_resized)

        def _terminal_resized(self) -> None:
            if not self._in_band_window_resize:
                size = Size(*self._get_terminal_size())
                self._app.post_message(events.Resize(size, size))

        def stop_application_mode(self) -> None:
            super().stop_application_mode()
            self._suspended = False

        def suspend_application_mode(self) -> None:
            super().suspend_application_mode()
            self._suspended = True

        def _sigtstp_application(self, *_: Any) -> None:
            if self._has_terminal:
                super()._sigtstp_application()
            else:
                os.kill(os.getpid(), signal.SIGSTOP)

        def _sigcont_application(self, *_: Any) -> None:
            if not self._auto_restart:
                return
            if self._has_terminal:  # SIGSTOP: a shell may have left the terminal in any state
                self.suspend_application_mode()
            if self._suspended:
                self.resume_application_mode()

        def run_input_thread(self) -> None:
            parser = Keys(self._debug)
            decode = getincrementaldecoder("utf-8")("replace").decode
            looks = 0
            while True:
                patience = constants.ESCAPE_DELAY if looks else None
                ready = select.select([self.fileno, self._wake_read], [], [], patience)[0]
                if self._wake_read in ready:
                    os.read(self._wake_read, 64)
                    return
                looks -= 1
                if ready:
                    looks = LOOKS
                    try:
                        data = os.read(self.fileno, 4096)
                    except OSError:
                        data = b""
                    if not data:
                        os.kill(os.getpid(), signal.SIGHUP)
                        return
                try:
                    for event in parser.feed(decode(data)) if ready else ():
                        self.process_message(event)
                    for event in parser.tick():
                        self.process_message(event)
                except Exception:  # bytes no terminal sends: start afresh after them
                    parser = Keys(self._debug)

        def disable_input(self) -> None:
            if self._wake_read < 0:
                return
            os.write(self._wake_write, b"!")
            super().disable_input()
            while select.select([self._wake_read], [], [], 0)[0]:  # the thread had ended already
                os.read(self._wake_read, 64)

        def close(self) -> None:
            super().close()
            if self._wake_read >= 0:
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._wake_read = self._wake_write = -1

    Quiet.__name__ = Quiet.__qualname__ = driver.__name__
    return Quiet
