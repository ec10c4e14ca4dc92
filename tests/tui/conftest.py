"""Makes the tests of the screens quick: short waits, and no picture that nobody looks at."""

from __future__ import annotations

from typing import Any

import pytest
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


pytest.MonkeyPatch().setattr(Compositor, "render_update", _on_request)  # for all tests of the process
