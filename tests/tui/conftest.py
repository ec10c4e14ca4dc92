"""Lets the tests of the screens import what they share by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from typing import Any

from textual import _wait
from textual._compositor import Compositor

_wait.SLEEP_GRANULARITY, _wait.SLEEP_IDLE = 1 / 400, 1 / 4000  # the pilot waits for a quiet process, in small steps

_painted = Compositor.render_update


def _on_request(self: Compositor, full: bool = False, screen_stack: Any = None, simplify: bool = False) -> Any:
    """A screen nobody looks at is painted when a test has settled or asks for it, not for every step on the way."""
    if full:
        return _painted(self, full, screen_stack, simplify)
    self._dirty_regions.clear()
    return None


Compositor.render_update = _on_request  # type: ignore[method-assign]
