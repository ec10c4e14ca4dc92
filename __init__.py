"""warplens, the terminal microscope for GPU runs.

What a script or a notebook uses is in ``library``: ``open``, ``diff``, ``history``, ``Run``, ``Answer`` and the two
errors. Importing the package loads nothing heavy, not even that: Textual, polars and the compiled scanner are imported
by what needs them.
"""

from __future__ import annotations

import builtins
import os
import sys

TYPE_CHECKING = False  # to import typing and functools takes most of the 5 ms that this import may
if TYPE_CHECKING:
    from typing import Any

    from .library import Answer as Answer
    from .library import Run as Run
    from .library import Unreadable as Unreadable
    from .library import UsageError as UsageError
    from .library import diff as diff
    from .library import history as history
    from .library import open as open

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    from importlib import import_module

    library = import_module("warplens.library")  # pytest imports this file under the name of its folder
    if name not in library.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(library, name)


_extensions: dict[str, dict[str, Any]] = {}
_texts: list[bytes] = []


def extensions(kind: str) -> dict[str, Any]:
    """What other packages register under the entry point group ``warplens.<kind>``, loaded, by name.

    ``kind`` is loaders, views, findings or themes. The packages' lists are searched for the group first: importing
    importlib.metadata takes 20 ms of every start, and hardly anybody has such a package.
    """
    if kind not in _extensions:
        _extensions[kind] = _loaded(f"warplens.{kind}")
    return _extensions[kind]


def _loaded(group: str) -> dict[str, Any]:
    if not any(group.encode() in text for text in _entry_points()):
        return {}
    from importlib.metadata import entry_points

    loaded: dict[str, Any] = {}
    for point in entry_points(group=group):
        try:
            loaded[point.name] = point.load()
        except Exception as error:  # of a package that is none of ours: go on without it
            print(f"warplens: ignoring {point.value} ({group}): {type(error).__name__}: {error}", file=sys.stderr)
    return loaded


def _entry_points() -> list[bytes]:
    """The text of every ``entry_points.txt`` on the path that has a group of ours; ours is always one."""
    if _texts:
        return _texts
    for folder in sys.path:
        try:
            packages = [name for name in os.listdir(folder or ".") if name.endswith(".dist-info")]
        except OSError:
            continue
        for package in packages:
            try:
                with builtins.open(os.path.join(folder, package, "entry_points.txt"), "rb") as file:
                    text = file.read()
            except OSError:
                continue
            if b"[warplens." in text:
                _texts.append(text)
    return _texts
