"""Standard input, output and error as the rest of the program expects them: open, and an error output that never fails.

A process may be started with any of the three closed. The first file it opens would then take the number, and what is
meant for a terminal would be written into it, so this comes before anything else. What nobody can read goes to the null
device: results that belong in a file are written all the same.
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
    """Standard error. A closed pipe, a full disk or a terminal that is gone there must not change any result."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def open_standard_streams() -> None:
    """Give every closed one of the three the null device, and make writing to standard error safe."""
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is this one
        if getattr(sys, name) is None:
            _replace(name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    raw = _Diagnostics(2, "w", closefd=False)
    _replace("stderr", io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=sys.stderr.encoding, errors="backslashreplace", line_buffering=True
    ))


def _replace(name: str, stream: IO[str]) -> None:
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)  # where Textual looks
