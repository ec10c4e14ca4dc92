"""All private parts of Textual that this project uses, and the fallback where they do not fit.

Textual has no public hook for frames and keys: ``HookedApp`` receives each update before Textual writes it, and
``quiet`` replaces the input thread, which in Textual wakes ten times a second. ``fits`` says whether the installed
version is in the range these hooks were tested with (both ends run in ``make test-deep``); with any other, Textual
paints and reads keys itself and everything else still works. No other file uses a private name of Textual, which
``tests/tui/terminal/test_textual_hooks.py`` checks.

Keys and pastes go through ``keyboard.TypeAhead``, one after another; everything else is posted at once.

Invariants of the driver: a lone Escape is told from the start of a sequence after the usual delay; there is at most one
input thread, whatever the order of signals; a terminal that is gone ends the app like a dropped connection; no input
bytes end the thread.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import textual
from textual import constants, events
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip

from .keyboard import Pastes, TypeAhead, TypedAhead

try:
    from textual._compositor import ChopsUpdate, LayoutUpdate
    from textual._styles_cache import StylesCache
    from textual._xterm_parser import XTermParser
except ImportError:  # names moved in another version: ``fits`` is False, and these serve only as bases and type checks
    ChopsUpdate = LayoutUpdate = StylesCache = XTermParser = object  # type: ignore[misc,assignment]

OLDEST, NEWEST = (8, 2, 5), (8, 2, 8)
"""The range the hooks were tested with. 8.2.5 is the first version whose themes declare whether they are ANSI."""


@cache
def fits() -> bool:
    """Whether the installed Textual is in that range and has all private parts where they were."""
    parts = (App, "_display"), (App, "_close_messages_no_wait"), (XTermParser, "_sequence_to_key_events")
    return within(Path(textual.__file__).parent.parent) and all(hasattr(owner, name) for owner, name in parts)


def within(packages: Path) -> bool:
    """Whether the Textual in that site-packages folder is between the two versions.

    The version is read from the name of its dist-info folder: importlib.metadata takes 15 ms.
    """
    notes = [note.name.removeprefix("textual-").removesuffix(".dist-info")
             for note in packages.glob("textual-*.dist-info")]
    try:
        versions = [tuple(map(int, text.split("."))) for text in notes or [textual.__version__]]
    except ValueError:  # a pre-release
        return False
    return all(OLDEST <= version <= NEWEST for version in versions)


class HookedApp(TypedAhead):
    """An App whose ``paint`` gets each update of the screen, instead of Textual writing it."""

    by_difference = False
    """Whether ``paint`` writes; else Textual does."""
    crash: str | None = None
    """Text to print after the screen has closed, if the app failed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by_difference = fits() and os.name == "posix"

    def paint(self, strips: Iterator[tuple[int, int, Strip]]) -> None:
        """Write an update: row, column and content of everything repainted."""

    def textual_painted(self) -> None:
        """Textual wrote something itself, so the terminal's content is unknown."""

    def crash_report(self, error: BaseException | None) -> str | None:
        """The text to print after the app failed; None prints Textual's traceback."""
        return None

    def as_active(self) -> AbstractContextManager[None]:
        """The context in which this app is the active one, for a task begun elsewhere."""
        return self._context()

    def forget_keys(self) -> None:
        """Discard keys that were typed ahead."""
        forget = getattr(self.driver, "forget_keys", None)
        if forget is not None:
            forget()

    @property
    def driver(self) -> Driver | None:
        """The driver that writes to the terminal, once the app has started."""
        driver: Driver | None = getattr(self, "_driver", None)
        return driver

    @property
    def paints(self) -> bool:
        """Whether a frame may be written now."""
        return self.is_running and not getattr(self, "_closed", False)

    @property
    def painting_is_held(self) -> bool:
        """Whether a batch of updates is in progress, during which no frame is written."""
        return bool(getattr(self, "_batch_count", 0))

    @property
    def synchronised_output(self) -> bool:
        """Whether the terminal supports mode 2026; False until it has replied."""
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
                # sending more bytes is better than crashing: from here on Textual paints
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
    """Empty Textual's style cache, which would keep every line drawn in an overlay alive; no-op where it is gone."""
    with suppress(AttributeError):
        StylesCache.get_inner_outer.cache_clear()


def tolerant(palette: type[Any]) -> type[Any]:
    """The command palette without five failures: paging before its list has a layout or where it has no room; a key
    before its parts are mounted; a click on an entry that was just removed; a second Enter before it closes, which
    would close another screen; commands that arrive after it closed."""
    from textual.css.query import NoMatches
    from textual.widgets import OptionList

    original: Any = getattr(palette, "_action_command_list", None)
    down: Any = getattr(palette, "_action_cursor_down", None)
    if original is None or down is None:
        return palette
    click: Any = OptionList._on_click

    async def click_on_a_line(self: OptionList, event: events.Click) -> None:
        with suppress(IndexError):  # the list changed after the clicked line was drawn
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


LONGEST_PAUSE = 5.0
"""Seconds after the last byte of a paste whose end never comes."""
LOOKS = 2
"""Timeouts after input until the thread blocks again, each one Escape delay long."""
INTRODUCERS = "[]OP_^X"
"""Characters that, after Escape, begin a sequence. Any other key right after Escape is a key of its own."""


class Keys(XTermParser):
    """Textual's parser without Alt: Escape and a key that arrive together are Escape and that key.

    ^J is Enter: so the terminal passes on an Enter typed before the app switched its line editing off.
    """

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        sequence = "\r" if sequence == "\n" else sequence
        escaped = len(sequence) == 2 and sequence[0] == "\x1b" and sequence[1] not in INTRODUCERS
        if escaped or alt:
            yield events.Key("escape", "\x1b")
        yield from super()._sequence_to_key_events(sequence[1:] if escaped else sequence)


@cache
def quiet(driver: type[Driver]) -> type[Driver]:
    """The driver class with an input thread that blocks without input; unchanged where the hooks do not fit."""
    if not fits() or driver.__name__ != "LinuxDriver":
        return driver
    from textual.drivers.linux_driver import LinuxDriver

    class Quiet(LinuxDriver):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._file = next((file for file in (sys.__stderr__, sys.__stdout__) if file and file.isatty()), self._file)
            self._wake_read, self._wake_write = os.pipe()
            self._suspended = False
            self._typed = TypeAhead(self._app)  # type: ignore[arg-type]
            loop = asyncio.get_running_loop()  # between its callbacks the terminal is never half taken over
            loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
            loop.add_signal_handler(signal.SIGCONT, self._sigcont_application)

        @property
        def _has_terminal(self) -> bool:
            return self._key_thread is not None and self._key_thread.is_alive()

        def start_application_mode(self) -> None:
            if self._wake_read < 0:  # closed by a suspend
                self._wake_read, self._wake_write = os.pipe()
            LinuxDriver.start_application_mode(self)
            self._suspended = not self._has_terminal  # running in the background: the next SIGCONT tries again
            # Textual's handler can be interrupted by itself, and would then report the older size last
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
            if self._has_terminal:  # after SIGSTOP, since when a shell may have changed the terminal's state
                self.suspend_application_mode()
            if self._suspended:
                self.resume_application_mode()

        def process_message(self, message: Message) -> None:
            if isinstance(message, (events.Key, events.Paste)):
                message.set_sender(self._app)
                with suppress(RuntimeError):  # the loop is closed already
                    self._loop.call_soon_threadsafe(self._typed.take, message)
            else:
                super().process_message(message)

        def forget_keys(self) -> None:
            self._typed.forget()

        def run_input_thread(self) -> None:
            parser, pastes = Keys(self._debug), Pastes()
            decode = getincrementaldecoder("utf-8")("replace").decode
            looks = 0
            while True:
                patience = constants.ESCAPE_DELAY if looks else LONGEST_PAUSE if pastes.inside else None
                ready = select.select([self.fileno, self._wake_read], [], [], patience)[0]
                if self._wake_read in ready:
                    os.read(self._wake_read, 64)
                    return
                if not ready and not looks:
                    self.process_message(events.Paste(pastes.rest()))
                    continue
                looks = max(0, looks - 1)
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
                    for is_paste, text in pastes.feed(decode(data)) if ready else ():
                        for event in [events.Paste(text)] if is_paste else parser.feed(text):
                            if is_paste or not isinstance(event, events.Paste):
                                self.process_message(event)
                    for event in parser.tick():
                        self.process_message(event)
                    if not ready:
                        pastes.pause()
                except Exception:  # bytes that no terminal sends: start over after them
                    parser = Keys(self._debug)

        def disable_input(self) -> None:
            if self._wake_read < 0:
                return
            os.write(self._wake_write, b"!")
            super().disable_input()
            while select.select([self._wake_read], [], [], 0)[0]:  # drain the pipe if the thread had ended already
                os.read(self._wake_read, 64)

        def close(self) -> None:
            self._typed.end()
            super().close()
            if self._wake_read >= 0:
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._wake_read = self._wake_write = -1

    Quiet.__name__ = Quiet.__qualname__ = driver.__name__
    return Quiet
