"""What this installation, machine and terminal can do, for somebody who asks why it does not."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from .. import cache

PACKAGES = ("textual", "polars", "numpy", "scipy", "orjson", "msgspec", "numba", "isal", "zstandard")
TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "TMUX", "LANG")


def facts() -> Iterator[tuple[str, str]]:
    """Name and value, one a line; no environment variable but those of the terminal is looked at."""
    yield "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"
    yield "cache", f"{cache.path()}, at most {cache.limit() / 1e9:,.1f} GB"
    if sys.stdout.isatty():
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        yield "terminal", f"{columns}x{lines}"
    else:
        yield "terminal", "none"
    for name in TERMINAL:
        if name in os.environ:
            yield name, os.environ[name]
