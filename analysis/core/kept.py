"""What several questions need and one of them found out, read from beside the tables by the next process that asks.

A small trace is asked anew as fast as it is read, so only what came from a big one is kept. What is kept says by its
name which state of our code found it: another version of warplens finds it out for itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import polars as pl

from ...loaders.trace import Trace

LEAST_BYTES = 20_000_000
"""Bytes of a recording from which answers about it are kept."""
_DEPENDS = ("core", "cycles", "kernels")
"""Folders of the code that finds out what is kept."""


def kept(run: Trace, name: str, find: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """What ``find`` tells of the run's tables; ``name`` is of small letters and dashes."""
    if run.keeper is None or (run.info.bytes or 0) < LEAST_BYTES:
        return find()
    return run.kept(f"{name}-{_code()}", find)


@cache
def _code() -> str:
    here = Path(__file__).parents[1]
    states = []
    for folder in _DEPENDS:
        with os.scandir(here / folder) as files:
            for file in sorted(files, key=lambda file: file.name):
                if file.name.endswith(".py"):
                    state = file.stat()
                    states.append((folder, file.name, state.st_size, state.st_mtime_ns))
    return f"{pl.Series([repr((pl.__version__, states))]).hash()[0]:016x}"
