"""CSV as text columns, also where single lines are broken.

The column engine reads a whole file at once and gives up at the first stray quote. A recording that was cut, edited or
printed over is still worth reading: then every line is read on its own, and what does not fit shows up as null or as a
row its reader cannot use. Nothing is converted here, so that no digit changes. To ask for the cells of a line is not
to import polars, for that happens before a recording is read.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def read(lines: bytes, columns: Sequence[str] | None = None, separator: str = ",") -> pl.DataFrame:
    """A table of strings. ``columns`` are the header where the lines have none, else the first line is it. A line with
    more cells loses them, one with fewer gets nulls. Bytes that are not UTF-8 are replaced."""
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
    """The cells of one line; [] where it cannot be one."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def _by_line(lines: bytes, separator: str) -> pl.DataFrame:
    import polars as pl

    header, *rest = [line.rstrip("\r") for line in lines.decode("utf-8-sig", "replace").split("\n")]
    columns = list(dict.fromkeys(cells(header, separator) or [header]))
    rows = [(row + [None] * len(columns))[: len(columns)] for line in rest if (row := [*cells(line, separator)])]
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
