"""Makes the standard streams what the rest of the program expects: all open, and a stderr that never fails.

A process may be started with any of the three closed. The first file it opens would then get that descriptor, and
terminal output would be written into the file, so this must run first. Output to a closed stream goes to the null
device; results that belong in a file are still written.
"""

from __future__ import annotations

import io
import os
import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class _Diagnostics(io.FileIO):
    """Standard error that ignores write errors: a closed pipe, full disk or lost terminal must not change a result."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def open_standard_streams() -> None:
    """Open the null device for every closed standard stream, and make writing to stderr safe."""
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets this number, the lowest free one
        if getattr(sys, name) is None:
            _replace(name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    raw = _Diagnostics(2, "w", closefd=False)
    _replace("stderr", io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=sys.stderr.encoding, errors="backslashreplace", line_buffering=True
    ))


def _replace(name: str, stream: IO[str]) -> None:
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)  # Textual uses this one
