"""CSV as string columns, even if some lines are malformed.

polars parses the whole file and raises at the first stray quote. A truncated, edited or overwritten file is still worth
reading: it is then parsed line by line, and cells that do not fit become null or rows that the caller skips. Nothing is
converted, so that no digit changes. ``cells`` does not import polars, because it runs before a recording is read.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def read(lines: bytes, columns: Sequence[str] | None = None, separator: str = ",") -> pl.DataFrame:
    """A frame of strings. ``columns`` is the header if the text has none; otherwise the first line is. Extra cells of a
    line are dropped, missing ones are null. Bytes that are not UTF-8 are replaced."""
    import polars as pl

    if columns is not None:
        quoted = separator.join('"' + name.replace('"', '""') + '"' for name in columns)
        lines = quoted.encode() + b"\n" + lines
    try:
        frame = pl.read_csv(
            lines, infer_schema=False, encoding="utf8-lossy", truncate_ragged_lines=True, separator=separator
        )
    except pl.exceptions.PolarsError:
        return _by_line(lines, separator)
    return frame


def cells(line: str, separator: str = ",") -> list[str]:
    """The cells of one line; [] if it is not valid CSV."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def _by_line(lines: bytes, separator: str) -> pl.DataFrame:
    import polars as pl

    header, *rest = [line.rstrip("\r") for line in lines.decode("utf-8", "replace").split("\n")]
    columns = list(dict.fromkeys(cells(header, separator) or [header]))
    rows = [(row + [None] * len(columns))[: len(columns)] for line in rest if (row := [*cells(line, separator)])]
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
