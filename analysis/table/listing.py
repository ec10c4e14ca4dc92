"""Rows that are no view of a trace (files to choose from) as a Table, so that the same list can show them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from ..contract.column import Column, Dtype
from .rows import Rows
from .table import Table

_DTYPES: dict[Dtype, type[pl.DataType]] = {"str": pl.String, "int": pl.Int64}
_SURROGATE = re.compile("[\ud800-\udfff]")


def listing(name: str, columns: tuple[Column, ...], rows: Sequence[tuple[Any, ...]]) -> Table:
    """A Table of those rows; text, bytes and counts are all a listing holds. The name of a file may hold bytes that are
    no text, which Python keeps as lone surrogates and no column can hold."""
    schema = {column.name: _DTYPES[column.dtype] for column in columns}
    frame = pl.DataFrame([tuple(map(_storable, row)) for row in rows], schema=schema, orient="row")
    return Table(view=name, columns=columns, rows=Rows(frame), total_rows=frame.height)


def _storable(value: Any) -> Any:
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value
