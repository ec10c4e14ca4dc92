"""CSV: a header of column names, raw numbers, lists as JSON, empty for what was not measured.

A text cell that a spreadsheet would run as a formula (leading ``= + - @``, tab or return) gets an apostrophe in front.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
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


def render(tables: Sequence[Table]) -> bytes:
    """The rows in the order shown."""
    (table,) = tables
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    for start in range(0, len(table), _BLOCK):
        for row in table.window(start, min(start + _BLOCK, len(table))):
            writer.writerow([_cell(value) for value in row])
    return out.getvalue().encode("utf-8", "backslashreplace")
