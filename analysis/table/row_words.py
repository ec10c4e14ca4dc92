"""One row of a view in a few words: what a note or a mark on it is remembered under."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..contract.column import Column
from ..core import units
from ..core.names.short_name import fit_name

_NAME, _MOST = 64, 4


def row_words(columns: Sequence[Column], values: Sequence[Any]) -> str:
    """The row's names first, then the columns a narrow list would show: 'gemm bf16 64x64 · total 8.52 ms'."""
    shown = [(column, value) for column, value in zip(columns, values, strict=True)
             if column.order is not None and not isinstance(value, list)]
    name = next((at for at, (column, value) in enumerate(shown) if column.role in ("name", "label") and value), None)
    said = []
    if name is not None:
        column, value = shown.pop(name)
        said.append(fit_name(str(value), _NAME) if column.role == "name" else str(value)[:_NAME])
    for column, value in sorted(shown, key=lambda one: one[0].order or 0):
        text = units.short(value, column)
        if text not in units.NOTHING and len(said) < _MOST:
            said.append(f"{column.header or column.name} {text}")
    return " · ".join(said)
