"""The files of one table, as one frame whatever version wrote each: columns that are missing are null."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from .. import schema


def scan(table: str, files: Sequence[Path]) -> pl.LazyFrame:
    """The rows of all files in their order, names and kinds as plain strings."""
    columns = {
        name: pl.String() if dtype == pl.Categorical else dtype for name, dtype in schema.polars_schema(table).items()
    }
    return pl.scan_parquet(
        list(files), glob=False, schema=columns, missing_columns="insert", extra_columns="ignore"
    )
