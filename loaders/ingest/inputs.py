"""What the user named, made into regular files: existence, rights, kinds of file, standard input.

Nothing here blocks on something that will never come: a FIFO without a writer, a socket and a device are refused, a
stream is copied to a temporary file first, so that every loader sees a file it can seek in.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import Unreadable

_CHUNK = 1 << 20


def regular(name: str, spool: Callable[[], Path], progress: Callable[[int, int, int], None]) -> Path:
    """The file or directory to read for ``name``; a stream is first copied into ``spool()``. Raises Unreadable."""
    if name == "-":
        return _standard_input(spool, progress)
    path = Path(name).expanduser()
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        broken = path.is_symlink()
        reason = "is a link to a file that does not exist" if broken else "no such file or directory"
        raise Unreadable(name, reason, "Check the name; `warplens` alone lists what is here.") from None
    except PermissionError:
        raise Unreadable(name, "may not be read (permission denied)", _RIGHTS) from None
    except (OSError, ValueError) as error:
        raise Unreadable(name, _clause(error), "Check the name.") from None
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        if not os.access(path, os.R_OK):
            raise Unreadable(name, "may not be read (permission denied)", _RIGHTS)
        return path
    if stat.S_ISFIFO(mode):
        return _fifo(name, path, spool, progress)
    kind = "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise Unreadable(name, f"is {kind}, not a file", "Give a file, a directory, or `-` to read standard input.")


_PIPE = "Pipe a trace into it: `zcat trace.json.gz | warplens -`."
_RIGHTS = "Ask for the right to read it, or copy it to where you may."


def _clause(error: OSError | ValueError) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return f"cannot be opened ({text.lower()})"


def _standard_input(spool: Callable[[], Path], progress: Callable[[int, int, int], None]) -> Path:
    try:
        descriptor = sys.stdin.fileno() if sys.stdin is not None else -1
        if descriptor < 0:
            raise ValueError
        terminal = os.isatty(descriptor)
    except (OSError, ValueError):
        raise Unreadable("standard input", "is closed", _PIPE) from None
    if terminal:
        raise Unreadable(
            "standard input", "is the terminal, not a trace", _PIPE
        )
    return _copy(descriptor, "standard input", spool, progress)


def _fifo(name: str, path: Path, spool: Callable[[], Path], progress: Callable[[int, int, int], None]) -> Path:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise Unreadable(name, _clause(error), _RIGHTS) from None
    try:
        return _copy(descriptor, name, spool, progress)
    finally:
        os.close(descriptor)


def _copy(
    descriptor: int, name: str, spool: Callable[[], Path], progress: Callable[[int, int, int], None]
) -> Path:
    target = spool()
    copied_bytes = 0
    with open(target, "wb") as out:
        while True:
            try:
                data = os.read(descriptor, _CHUNK)
            except BlockingIOError:  # somebody holds it open for writing and has not written yet
                select.select([descriptor], [], [], 0.25)
                progress(copied_bytes, 0, 0)
                continue
            if not data:
                break
            out.write(data)
            copied_bytes += len(data)
            progress(copied_bytes, 0, 0)
    if copied_bytes == 0:
        if name == "standard input":
            raise Unreadable(name, "is empty", _PIPE)
        raise Unreadable(name, "is a FIFO nobody writes to", "Start the writer first, or pipe into `warplens -`.")
    return target
