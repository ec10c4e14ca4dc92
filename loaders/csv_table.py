"""CSV as string columns, even if some lines are malformed.

polars parses the whole file and raises at the first stray quote. A truncated, edited or overwritten file is still worth
reading: it is then parsed line by line, and lines that do not fit are left out. Nothing is
converted, so that no digit changes. ``cells`` does not import polars, because it runs before a recording is read.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .recording.faults import Faults

if TYPE_CHECKING:
    import polars as pl

_MORE = "\x1fmore"  # a heading that no file has


def read(
    lines: bytes, columns: Sequence[str] | None = None, separator: str = ",", faults: Faults | None = None,
    table: str = "the table",
) -> pl.DataFrame:
    """A frame of strings. ``columns`` is the header if the text has none; otherwise the first line is. Missing cells
    are null. A line with more cells is left out, because nothing says which of them a comma parted; ``faults``
    counts it under ``table``. Bytes that are not UTF-8 are replaced."""
    import polars as pl

    if columns is not None:
        header, rest = separator.join('"' + name.replace('"', '""') + '"' for name in columns).encode(), lines
    else:
        header, _, rest = lines.partition(b"\n")
    if header.count(b'"') % 2:  # a heading of several lines
        return _by_line(lines, separator, faults, table)
    more = separator.join((header.decode("utf-8", "replace").rstrip("\r"), _MORE)).encode()
    try:
        frame = pl.read_csv(
            more + b"\n" + rest, infer_schema=False, encoding="utf8-lossy", truncate_ragged_lines=True,
            separator=separator)
    except pl.exceptions.PolarsError:
        return _by_line(header + b"\n" + rest, separator, faults, table)
    if _MORE not in frame.columns:  # quotes in the heading swallowed it
        return _by_line(header + b"\n" + rest, separator, faults, table)
    longer = (frame[_MORE].fill_null("").str.strip_chars() != "")
    if longer.any():
        if faults is not None:
            faults.longer[table] += int(longer.sum())
        frame = frame.filter(~longer)
    return frame.drop(_MORE)


def cells(line: str, separator: str = ",") -> list[str]:
    """The cells of one line; [] if it is not valid CSV."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def _by_line(lines: bytes, separator: str, faults: Faults | None, table: str) -> pl.DataFrame:
    import polars as pl

    header, *rest = [line.rstrip("\r") for line in lines.decode("utf-8", "replace").split("\n")]
    columns = list(dict.fromkeys(cells(header, separator) or [header]))
    every = [row for line in rest if (row := cells(line, separator))]
    rows = [row for row in every if not any(map(str.strip, row[len(columns):]))]
    if faults is not None and len(rows) < len(every):
        faults.longer[table] += len(every) - len(rows)
    return pl.DataFrame([(row + [None] * len(columns))[: len(columns)] for row in rows],
                        schema=dict.fromkeys(columns, pl.String), orient="row")
