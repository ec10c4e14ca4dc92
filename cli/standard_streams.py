"""Makes the standard streams what the rest of the program expects: open, a stderr that never fails; a progress line.

A process may be started with any of the three closed. The first file it opens would then get that descriptor, and
terminal output would be written into the file, so this must run first. Output to a closed stream goes to the null
device; results that belong in a file are still written.
"""

from __future__ import annotations

import io
import os
import sys
import time
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

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


_QUIET_S = 0.5


class ProgressLine:
    """A line that is rewritten while a file loads; not shown if stderr is not a terminal or the load is short."""

    def __init__(self, name: str) -> None:
        self._name = name if len(name) <= 40 else "…" + name[-39:]
        self._shown = False
        self._began = self._last = time.monotonic()
        self._on = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def update(self, done: int, total: int, events: int) -> None:
        """Show that ``done`` of ``total`` bytes have been read, with ``events`` events in them."""
        now = time.monotonic()
        if not self._on or now - self._began < _QUIET_S or now - self._last < 0.1:
            return
        self._last, self._shown = now, True
        rate = done / (now - self._began)
        share = f"{100 * done / total:3.0f}%" if total else f"{done / 1e6:,.0f} MB"
        remaining = f", {(total - done) / rate:.0f} s left" if total and rate else ""
        name = "".join(char if char.isprintable() else "?" for char in self._name)
        sys.stderr.write(f"\r\x1b[K{name}  {share}  {events:,} events  {rate / 1e6:,.0f} MB/s{remaining}")
        sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
