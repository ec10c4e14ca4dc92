"""JSON: ``{"schema", "view", "columns", "rows", "total_rows", "facts", "notes", "sources"}`` with raw numbers.

Numbers are in the unit given by the column name. Missing values are null, and so are NaN and infinities, which JSON
cannot express. Strings are as recorded. Rows have their ``id`` (``row_ids``) in addition to the columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from ...contract.column import Column
from ..table import Table
from .state import notes, state

SCHEMA = 1
"""Version of the document's shape: raised if a field is removed or changes its meaning, not if one is added."""
_BLOCK = 50_000


def document(table: Table) -> dict[str, Any]:
    """The whole table except its rows."""
    return {
        "schema": SCHEMA,
        "view": table.view,
        "columns": [_column(column) for column in table.columns if column.name != "id"],
        "total_rows": table.total_rows,
        "summary": list(table.summary),
        "facts": table.all_facts,
        "notes": notes(table),
        "state": state(table),
        "sources": [
            {
                "label": source.label, "path": source.path, "format": source.format, "bytes": source.bytes,
                "warnings": list(source.warnings),
            }
            for source in table.sources
        ],
    }


def _column(column: Column) -> dict[str, str]:
    said = {"name": column.name, "unit": column.unit}
    return said | {"of": column.of} if column.unit == "fraction" else said


def _plain(value: object) -> Any:
    """For values orjson cannot encode itself: numpy scalars, sets, large integers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


def _dump(value: object) -> bytes:
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # an integer over 64 bits, or a lone surrogate
        import json

        return json.dumps(_finite(value), default=_plain, ensure_ascii=True).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value


def _rows(table: Table) -> Iterator[bytes]:
    names = [column.name for column in table.columns]
    for start in range(0, len(table), _BLOCK):
        stop = min(start + _BLOCK, len(table))
        rows, ids = table.window(start, stop), [] if "id" in names else table.row_ids(start, stop)
        keys = ("id", *names) if ids else names
        rows = [(one, *row) for one, row in zip(ids, rows, strict=True)] if ids else rows
        yield (b"," if start else b"") + _dump([dict(zip(keys, row, strict=True)) for row in rows])[1:-1]


def pieces(tables: Sequence[Table]) -> Iterator[bytes]:
    """One object for one view, ``{"views": [...]}`` for several. Errors are raised here, before the first piece."""
    return _pieces(tables, [_dump(document(table))[:-1] for table in tables])


def _pieces(tables: Sequence[Table], heads: Sequence[bytes]) -> Iterator[bytes]:
    if len(tables) > 1:
        yield b'{"schema":%d,"views":[' % SCHEMA
    for number, (table, head) in enumerate(zip(tables, heads, strict=True)):
        yield b"," * (number > 0) + head + b',"rows":['
        yield from _rows(table)
        yield b"]}"
    yield b"]}\n" if len(tables) > 1 else b"\n"
