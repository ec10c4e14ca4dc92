"""CSV: a header of column names, raw numbers, lists as JSON, empty cells for missing values.

A text cell that a spreadsheet would run as a formula (leading ``= + - @``, tab or carriage return) is prefixed with an
apostrophe. A cell with a carriage return is quoted: otherwise a spreadsheet would end the row there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from ..table import Table

_BLOCK = 50_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, list):
        return orjson.dumps(value).decode()
    if isinstance(value, float):
        return repr(value)
    return value


class _Lines(list[str]):
    """Collects rows. The writer ends them with CR LF, so that it quotes cells with either; here they end with LF."""

    def write(self, row: str) -> None:
        """Appends a row."""
        self.append(row.removesuffix("\r\n") + "\n")


def pieces(tables: Sequence[Table]) -> Iterator[bytes]:
    """The rows in the order shown."""
    (table,) = tables
    out = _Lines()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([column.name for column in table.columns])
    for start in range(0, max(len(table), 1), _BLOCK):
        for row in table.window(start, min(start + _BLOCK, len(table))):
            writer.writerow([_cell(value) for value in row])
        yield "".join(out).encode("utf-8", "backslashreplace")
        out.clear()
