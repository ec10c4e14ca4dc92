"""A progress line on stderr while a file loads, if stderr is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

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
