"""Lets the tests of the screens import what they share by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from textual import _wait

_wait.SLEEP_GRANULARITY, _wait.SLEEP_IDLE = 1 / 400, 1 / 4000  # the pilot waits for a quiet process, in small steps
