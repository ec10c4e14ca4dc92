"""Export of a view, exactly as shown, to a file or as text for the clipboard.

Runs in a thread; decides the file's folder and name, and leaves formats to ``table.export``. Invariant: an existing
file is never overwritten unless the user typed its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ...loaders import files

if TYPE_CHECKING:
    from ...analysis.table.table import Table


def file_name(view: str, table: Table, suffix: str) -> str:
    """``warplens-<view>-<runs>`` plus ``suffix``, in characters every file system allows; at most 100 before it."""
    labels = [re.sub(r"[^A-Za-z0-9._-]+", "-", source.label).strip("-.")[:36] for source in table.sources]
    return "-".join(["warplens", view, *filter(None, labels)])[:100] + suffix


def exported(table: Table, view: str, name: str | None) -> Path:
    """Write the table and return its path: the named file, whose suffix selects the format, else a new markdown file.

    Raises OSError, WrongFormat, and ValueError for a suffix that belongs to no format.
    """
    from ...analysis.table.export import FORMATS, pieces

    if not name:
        return new_file(Path(file_name(view, table, ".md")), pieces(table, "md"))
    path = Path(os.path.expanduser(name))
    chosen = next((one for one in FORMATS[::-1] if path.name.endswith(one.suffix)), None)
    if chosen is None:
        suffixes = " ".join(sorted({one.suffix for one in FORMATS}))
        raise ValueError(f"{path.suffix or 'no ending'} is not an export format; use {suffixes}")
    result = pieces(table, chosen.name)
    if name == file_name(view, table, chosen.suffix):
        return new_file(path, result)
    files.write(path, result)
    return path


def new_trace(pieces: Iterable[bytes], label: str) -> Path:
    """Write the pieces of a trace, gzipped, under an unused name; a failed write leaves no partial file."""
    from ...analysis.timeline.chrome_trace import gzipped

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-.")[:60]
    path = free_name(f"warplens-slice-{name}.json.gz")
    files.write(path, gzipped(pieces), fresh=True)
    return path


def free_name(name: str) -> Path:
    """That name, or with the first number appended that makes it unused."""
    return next(path for path in _names(Path(name)) if not os.path.lexists(path))


def _names(path: Path) -> Iterator[Path]:
    double = path.name.endswith((".json.gz", ".speedscope.json"))
    whole, stem = "".join(path.suffixes[-2:]) if double else path.suffix, path.name
    for number in count(1):
        yield path if number == 1 else path.with_name(f"{stem.removesuffix(whole)}-{number}{whole}")


def new_file(path: Path, made: Iterable[bytes]) -> Path:
    """Write the pieces under that name, or with the first free number appended; a failure leaves no partial file."""
    unused = next(wanted for wanted in _names(path) if not os.path.lexists(wanted))
    files.write(unused, made, fresh=True)
    return unused


def clipboard_text(table: Table, view: str) -> tuple[str, str]:
    """The view as markdown, and the name of the file to write if no clipboard accepts it."""
    from ...analysis.table.export import render

    return render(table, "md").decode(), file_name(view, table, ".md")
