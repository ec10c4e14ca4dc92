"""The driver between app and terminal: waits for keys without polling, and survives stop, continue and hang-up.

Textual's input thread looks ten times a second whether it should end and whether the rest of an escape sequence is
overdue. Here it sleeps until there is input or the end, and looks at the clock only for a while after input. What must
stay true: a lone Escape is told from the start of a sequence after the same delay as ever; one that a key follows is
Escape and that key; there is one input thread at most, whatever signals come in whatever order; a terminal that is gone
ends the app as a dropped link does, and no bytes make this thread end before; where Textual is not the version known to
work this way, it keeps its own driver.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable
from functools import cache
from typing import Any

from textual import constants, events
from textual._xterm_parser import XTermParser
from textual.driver import Driver

from .textual_version import tested

LOOKS = 2
"""How often after input it is asked whether an Escape was all; each time after the delay of an Escape."""


INTRODUCERS = "[]OP_^X"
"""What turns an Escape before it into the beginning of a sequence. Any other key, however close behind, is a key."""


class Keys(XTermParser):
    """Textual's parser where no key needs Alt: Escape and a key that come together are Escape and that key."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        escaped = len(sequence) == 2 and sequence[0] == "\x1b" and sequence[1] not in INTRODUCERS
        if escaped or alt:
            yield events.Key("escape", "\x1b")
        yield from super()._sequence_to_key_events(sequence[1:] if escaped else sequence)


@cache
def quiet(driver: type[Driver]) -> type[Driver]:
    """The driver class with an input thread that sleeps while nothing comes in; as it is where that is unknown."""
    if not tested() or driver.__name__ != "LinuxDriver":
        return driver
    from textual.drivers.linux_driver import LinuxDriver

    class Quiet(LinuxDriver):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._file = next((file for file in (sys.__stderr__, sys.__stdout__) if file and file.isatty()), self._file)
            self._ear, self._bell = os.pipe()
            self._suspended = False
            loop = asyncio.get_running_loop()  # between two callbacks of it the terminal is ours or not, never halfway
            loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
            loop.add_signal_handler(signal.SIGCONT, self._sigcont_application)

        @property
        def _has_terminal(self) -> bool:
            return self._key_thread is not None and self._key_thread.is_alive()

        def start_application_mode(self) -> None:
            if self._ear < 0:  # a suspend closed them
                self._ear, self._bell = os.pipe()
            LinuxDriver.start_application_mode(self)
            self._suspended = not self._has_terminal  # in the background: the next SIGCONT tries again

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
            if self._has_terminal:  # stopped without being asked: a shell may have left the terminal in any state
                self.suspend_application_mode()
            if self._suspended:
                self.resume_application_mode()

        def run_input_thread(self) -> None:
            parser = Keys(self._debug)
            decode = getincrementaldecoder("utf-8")("replace").decode
            looks = 0
            while True:
                patience = constants.ESCAPE_DELAY if looks else None
                ready = select.select([self.fileno, self._ear], [], [], patience)[0]
                if self._ear in ready:
                    os.read(self._ear, 64)
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
                except Exception:  # bytes no terminal sends: what came before them is forgotten
                    parser = Keys(self._debug)

        def disable_input(self) -> None:
            if self._ear < 0:
                return
            os.write(self._bell, b"!")
            super().disable_input()
            while select.select([self._ear], [], [], 0)[0]:  # nobody was there to hear it
                os.read(self._ear, 64)

        def close(self) -> None:
            super().close()
            if self._ear >= 0:
                os.close(self._ear)
                os.close(self._bell)
                self._ear = self._bell = -1

    Quiet.__name__ = Quiet.__qualname__ = driver.__name__
    return Quiet
