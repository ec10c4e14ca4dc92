"""Paths as they are typed at a prompt."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def split_paths(text: str) -> list[str]:
    """The paths typed, quotes respected, ~ expanded; the whole text where it is a path with spaces."""
    if Path(os.path.expanduser(text.strip())).exists():
        return [os.path.expanduser(text.strip())]
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return [os.path.expanduser(word) for word in words][:2]
