"""``--watch DIR``: offers new traces as a profiler writes them.

A thread scans the folder every two seconds. Files present at the first scan are not new; a new file is offered once
its size is the same in two consecutive scans, so that no half-written file is opened.
"""

from __future__ import annotations

from pathlib import Path

from .opening import Discover, Found

EVERY = 2.0
"""Seconds between two scans."""


class Watch:
    """Finds traces that appear in a folder after the first scan."""

    def __init__(self, folder: Path, discover: Discover) -> None:
        self.folder = folder
        self._discover = discover
        self._known: set[Path] | None = None
        self._sizes: dict[Path, int | None] = {}

    def look(self) -> list[Found]:
        """Traces that appeared and are complete since the last scan; slow, call it in a thread."""
        recordings = {one.path: one for one in self._discover(self.folder)}
        if self._known is None:
            self._known = set(recordings)
            return []
        fresh = {path: one for path, one in recordings.items() if path not in self._known}
        ready = [one for path, one in fresh.items() if path in self._sizes and self._sizes[path] == one.bytes]
        self._sizes = {path: one.bytes for path, one in fresh.items()}
        self._known |= {one.path for one in ready}
        return ready
