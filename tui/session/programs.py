"""The user's own programs on the app's terminal: ``$EDITOR`` for a text, ``$PAGER`` to read one."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ...loaders import files


class NoProgram(Exception):
    """The program is not there or could not be run; the message says which."""


def edited(text: str, suffix: str) -> str:
    """The text as it is when the editor ends, without trailing blank lines; the app must be suspended. Raises
    NoProgram."""
    with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
        path = Path(folder) / f"text{suffix}"
        path.write_text(text + "\n" if text else "", encoding="utf-8")
        status = _run([*_words(("VISUAL", "EDITOR"), ("vi", "nano")), str(path)], None)
        if status:
            raise NoProgram(f"The editor ended with status {status}; the text is as before.")
        return path.read_text(encoding="utf-8", errors="replace").strip()


def paged(text: str) -> None:
    """Show the text in the pager; the app must be suspended. Raises NoProgram."""
    _run(_words(("PAGER",), ("less", "more")), text)


def _words(variables: Sequence[str], otherwise: Sequence[str]) -> list[str]:
    """The command of the first variable that is set, else the first program that is there."""
    given = next((value for name in variables if (value := os.environ.get(name, "").strip())), "")
    try:
        words = shlex.split(given)
    except ValueError:
        raise NoProgram(f"${variables[-1]} is no command line: {given}") from None
    for name in [words[0]] if words else otherwise:
        path = name if os.path.isabs(name) and os.access(name, os.X_OK) else files.program(name)
        if path is not None:
            return [path, *words[1:]]
    raise NoProgram(f"No {words[0] if words else ' or '.join(otherwise)} is installed; ${variables[-1]} names another.")


_LOOK_S = 0.1
"""Seconds between two looks at pending signals: the one that runs their handlers is the thread that waits here, and a
signal that reaches another thread does not wake it."""
_running: list[subprocess.Popen[str]] = []


def end_program() -> None:
    """The app is told to end: so is the program that has its terminal, and waiting for it returns."""
    for program in _running:
        with suppress(OSError):
            program.terminate()


def _run(command: list[str], text: str | None) -> int:
    """The program's exit status. While it runs, ^C and ^Z are its own."""
    try:
        with _keys_of_its_own():
            program = subprocess.Popen(
                command, stdin=None if text is None else subprocess.PIPE, text=True, encoding="utf-8", errors="replace")
            _running.append(program)
            try:
                return _status(program, text)
            finally:
                _running.remove(program)
    except OSError as error:
        raise NoProgram(f"{command[0]} cannot be run: {error.strerror or error}.") from None


def _status(program: subprocess.Popen[str], text: str | None) -> int:
    while True:
        with suppress(subprocess.TimeoutExpired):
            program.communicate(text, timeout=_LOOK_S)
            return program.returncode
        text = None  # what is left of it goes on by itself


@contextmanager
def _keys_of_its_own() -> Iterator[None]:
    """^C and ^Z reach every process on the terminal. asyncio would end the app for ^C: here a handler that does
    nothing, not SIG_IGN, which the program would inherit. ^Z stops the app at once, or the shell would wait for it."""
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTSTP)}
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
            signal.siginterrupt(number, False)  # as asyncio sets it
