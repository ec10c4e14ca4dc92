"""A real pseudo-terminal with the app in it. Waits for conditions, never for time; answers what a terminal answers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import threading
import time
from pathlib import Path

from screen import Terminal

QUESTION = b"\x1b[?2026$p"
ANSWER = b"\x1b[?2026;2$y"
LIMIT = 90.0
"""Seconds; only what fails waits so long, and a busy machine is no failure."""


class Session:
    """A process in a terminal of that size. ``answers`` says whether the terminal knows mode 2026."""

    def __init__(
        self, command: list[str], width: int = 120, height: int = 40, answers: bool = True,
        folder: Path | None = None, **env: str,
    ) -> None:
        root = Path(__file__).resolve().parents[2]
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "TEXTUAL_ANIMATIONS": "none",
                       "PYTHONPATH": str(root / ".dev"), "WARPLENS_STRICT": "1", **env}
        for name in ("COLUMNS", "LINES", "NO_COLOR", "TMUX"):
            environment.pop(name, None)
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            os.chdir(folder or ".")
            os.execvpe(command[0], command, environment)
        self.answers = answers
        self._screen, self._played = Terminal(width, height), 0
        self.reading = threading.Event()
        self.reading.set()
        self._data = bytearray()
        self._lock = threading.Condition()
        self._answered = 0
        self.questions = 0
        self.alive = True
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            self.reading.wait()
            try:
                ready, _, _ = select.select([self._fd], [], [], 0.05)
            except (OSError, ValueError):  # closed meanwhile
                return
            if not ready or not self.reading.is_set():
                continue
            try:
                chunk = os.read(self._fd, 65536)
            except OSError:
                chunk = b""
            with self._lock:
                self.alive = bool(chunk)
                self._data += chunk
                count = self._data.count(QUESTION)
                new, self.questions = count - self.questions, count
                self._lock.notify_all()
            if not chunk:
                return
            for _ in range(new if self.answers else 0):
                with contextlib.suppress(OSError):  # a test closed it meanwhile
                    os.write(self._fd, ANSWER)

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def send(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    @property
    def sent(self) -> int:
        """Bytes that came out so far."""
        with self._lock:
            return len(self._data)

    def since(self, start: int) -> bytes:
        with self._lock:
            return bytes(self._data[start:])

    def until(self, condition: object, start: int = 0) -> bytes:
        """What came after ``start``, once it holds the bytes or fulfils the function of it."""
        end = time.monotonic() + LIMIT
        with self._lock:
            while time.monotonic() < end:
                data = bytes(self._data[start:])
                if condition(data) if callable(condition) else condition in data:
                    return data
                if not self.alive:
                    break
                self._lock.wait(0.05)
        raise AssertionError(f"never came: {condition!r} in {bytes(self._data[start:])[-600:]!r}")

    def insist(self, shown: bytes, *keys: bytes) -> None:
        """Until that is sent; the keys again and again, for what is asked in the background comes when it comes.

        At growing distances, whatever is painted meanwhile: of a key that opens and closes, two that came before one
        frame show nothing, and what they paint must not ask for the next two."""
        start, end, pause = self.sent, time.monotonic() + LIMIT, 0.3
        while shown not in self.since(start):
            assert self.alive and time.monotonic() < end, f"never came: {shown!r} in {self.since(start)[-600:]!r}"
            for key in keys:
                self.send(key)
                with self._lock:
                    self._lock.wait_for(lambda: shown in self._data[start:], pause)
            pause = min(1.5 * pause, 3.0)

    def settle(self, shown: bytes) -> None:
        """Until it shows that and asks after each frame: go down and up until the start-up's question was answered."""
        self.until(shown)
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            for key in (b"j", b"g"):  # keys before the list has the focus go nowhere, so ask again
                self.send(key)
                with self._lock:
                    self._lock.wait_for(lambda: self._data.endswith(QUESTION), 0.3)
            if self.since(0).endswith(QUESTION):
                for keys, row in ((b"gjj", 3), (b"g", 1)):  # none of the keys above can have led to row 3
                    self.send(keys)
                    self.until(lambda data, row=row: self.cursor_on(row))
                return
        raise AssertionError("it never asked")

    def cursor_on(self, row: int) -> bool:
        """Whether the list's cursor is on that line of the screen and the frame is complete."""
        data = self.since(0)
        if not data.endswith(QUESTION):
            return False
        screen = Terminal(120, 40)
        screen.play(data.decode())
        return screen.text()[row + 1].startswith("│▌")  # below the border

    def frame(self, keys: bytes) -> bytes:
        """Send keys that make one frame; everything it sent, up to the question at its end."""
        start = self.sent
        self.send(keys)
        return self.until(lambda data: data.endswith(QUESTION), start)

    def screen(self) -> str:
        """What is to be read on the terminal after the last whole frame."""
        data = self.since(self._played)
        whole = data.rfind(QUESTION) + len(QUESTION) if QUESTION in data else 0
        self._screen.play(data[:whole].decode())
        self._played += whole
        return "\n".join(self._screen.text())

    def until_shown(self, *texts: str) -> str:
        """The screen, once it shows all of them, and nothing of what stands after ``not``."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            shown = self.screen()
            if all((text.removeprefix("not ") in shown) != text.startswith("not ") for text in texts):
                return shown
            with self._lock:
                if not self.alive:
                    break
                self._lock.wait(0.05)
        raise AssertionError(f"never shown: {texts!r} on\n{self.screen()}")

    def ended(self) -> bytes:
        """All it sent, once the process has closed the terminal."""
        end = time.monotonic() + LIMIT
        with self._lock:
            self._lock.wait_for(lambda: not self.alive, end - time.monotonic())
            assert not self.alive, f"still there: {bytes(self._data[-600:])!r}"
            return bytes(self._data)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # a test waited for it
            os.waitpid(self.pid, 0)
        self.reading.set()


def list_app(*arguments: str, **options: object) -> Session:
    """The small app around the list."""
    here = Path(__file__).parent / "list_app.py"
    return Session([sys.executable, str(here), *arguments], **options)
