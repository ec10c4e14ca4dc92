"""The user's own programs on the app's terminal: ``$EDITOR`` for a text, ``$PAGER`` to read one."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
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


def _run(command: list[str], text: str | None) -> int:
    try:
        done = subprocess.run(command, input=text, text=True, encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise NoProgram(f"{command[0]} cannot be run: {error.strerror or error}.") from None
    return done.returncode
