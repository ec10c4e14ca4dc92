"""What this installation, machine and terminal can do, for somebody who asks why it does not."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile

from ... import private
from ...native.build import programs
from ...native.program import SHIPPED, can_compile, compiled_here, locate
from .. import cache

PACKAGES = ("textual", "polars", "numpy", "scipy", "orjson", "msgspec", "isal", "zstandard", "numba")
TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "TMUX", "LANG")


def facts() -> Iterator[tuple[str, str]]:
    """Name and value, one a line; no environment variable but those of the terminal is looked at."""
    yield "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"
    yield "readers", _readers()
    yield "cache", f"{cache.path()}, at most {cache.limit() / 1e9:,.1f} GB, {_writable(cache.path())}"
    if sys.stdout.isatty():
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        yield "terminal", f"{columns}x{lines}"
    else:
        yield "terminal", "none"
    for name in TERMINAL:
        if name in os.environ:
            yield name, os.environ[name]


def _readers() -> str:
    """Whether every program has machine code for this processor, and if not what brings it."""
    located = [locate(program) for program in programs()]
    targets = sorted({code.target for code in located if code is not None})
    if None not in located:
        shipped = all(code is not None and code.folder == SHIPPED for code in located)
        return f"compiled for {', '.join(targets)}, {'with the package' if shipped else f'in {compiled_here()}'}"
    if can_compile():
        return "not compiled yet for this processor: the first big trace starts it"
    return "not compiled for this processor, so big traces read about ten times slower: pip install 'warplens[compile]'"


def _writable(folder: Path) -> str:
    try:
        with TemporaryFile(dir=private.make(folder)) as file:
            file.write(b"x")
    except OSError as error:
        return f"cannot be written: {error.strerror or error}"
    return "can be written"
