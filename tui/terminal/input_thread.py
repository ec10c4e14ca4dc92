"""Waiting for keys without looking for them: an app nobody touches uses no CPU at all.

Textual's input thread looks ten times a second whether it should end and whether the rest of an escape sequence is
overdue. Here it sleeps until there is input or the end, and looks at the clock only for a while after input. What must
stay true: a lone Escape is told from the start of a sequence after the same delay as ever; a terminal that is gone ends
the app as a dropped link does, and no bytes make this thread end before; where Textual is not the version known to work
this way, it keeps its own thread.
"""

from __future__ import annotations

import os
import select
import signal
from codecs import getincrementaldecoder
from functools import cache
from typing import Any

from textual import constants
from textual._xterm_parser import XTermParser
from textual.driver import Driver

from .textual_version import tested

LOOKS = 2
"""How often after input it is asked whether an Escape was all; each time after the delay of an Escape."""


@cache
def quiet(driver: type[Driver]) -> type[Driver]:
    """The driver class with an input thread that sleeps while nothing comes in; as it is where that is unknown."""
    if not tested() or driver.__name__ != "LinuxDriver":
        return driver
    from textual.drivers.linux_driver import LinuxDriver

    class Quiet(LinuxDriver):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._ear, self._bell = os.pipe()

        def start_application_mode(self) -> None:
            if self._ear < 0:  # a suspend closed them
                self._ear, self._bell = os.pipe()
            LinuxDriver.start_application_mode(self)

        def run_input_thread(self) -> None:
            parser = XTermParser(self._debug)
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
                    parser = XTermParser(self._debug)

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
