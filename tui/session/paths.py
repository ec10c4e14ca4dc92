"""Paths typed at a prompt."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def split_paths(text: str) -> list[str]:
    """At most two paths, with shell quoting and ~ expanded; the whole text if it is an existing path with spaces."""
    if Path(os.path.expanduser(text.strip())).exists():
        return [os.path.expanduser(text.strip())]
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return [os.path.expanduser(word) for word in words][:2]
