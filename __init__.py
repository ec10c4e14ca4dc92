"""warplens, the terminal microscope for GPU runs.

Importing the package loads nothing heavy: Textual, polars and the compiled scanner are imported by the commands that
need them.
"""

import os
import sys
from functools import cache
from typing import Any

__version__ = "0.1.0"


@cache
def extensions(kind: str) -> dict[str, Any]:
    """What other packages register under the entry point group ``warplens.<kind>``, loaded, by name.

    ``kind`` is loaders, views, findings or themes. The packages' lists are searched for the group first: importing
    importlib.metadata takes 20 ms of every start, and hardly anybody has such a package.
    """
    group = f"warplens.{kind}"
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


@cache
def _entry_points() -> tuple[bytes, ...]:
    """The text of every ``entry_points.txt`` on the path that has a group of ours."""
    texts = []
    for folder in sys.path:
        try:
            packages = [name for name in os.listdir(folder or ".") if name.endswith(".dist-info")]
        except OSError:
            continue
        for package in packages:
            try:
                with open(os.path.join(folder, package, "entry_points.txt"), "rb") as file:
                    text = file.read()
            except OSError:
                continue
            if b"[warplens." in text:
                texts.append(text)
    return tuple(texts)
