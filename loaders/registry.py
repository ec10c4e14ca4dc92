"""The formats, in no meaningful order, and how a file finds its loader.

Loader modules are imported when a file is opened, not when the package is.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from .loader import Loader

MODULES: tuple[str, ...] = (
    "comparison",
    "cycle_profile",
    "kernel_table",
    "nsys",
    "nsys_stats",
    "ncu",
    "tb_views",
    "kineto",
)
"""Modules of this package that define ``LOADER``. A new format is one file and one line here."""


@cache
def loaders() -> tuple[Loader, ...]:
    """Our loaders and those installed under the entry point group ``warplens.loaders``."""
    ours = tuple(import_module(f".{module}", __package__).LOADER for module in MODULES)
    theirs = tuple(point.load() for point in entry_points(group="warplens.loaders"))
    return (*ours, *theirs)


def claims(head: bytes) -> tuple[Loader, ...]:
    """Every loader that recognises these first bytes (after decompression)."""
    return tuple(loader for loader in loaders() if loader.sniff(head))
