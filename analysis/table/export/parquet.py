"""Parquet: the raw rows, typed, in the order shown."""

from __future__ import annotations

import io
from collections.abc import Sequence

from ..table import Table


def render(tables: Sequence[Table]) -> bytes:
    """The file's bytes."""
    (table,) = tables
    out = io.BytesIO()
    table.shown().write_parquet(out)
    return out.getvalue()
