"""Polars SQL over a run's tables: the question nobody made a view for."""

from __future__ import annotations

import polars as pl

from ...loaders.trace import TABLE_NAMES, Trace
from .column import Column, Unit
from .rows import Rows
from .table import Table, sources


class BadQuery(ValueError):
    """The query cannot be run; the message is the engine's own."""


def query(runs: tuple[Trace, ...], statement: str) -> Table:
    """The result as a table. One run's tables carry their names, two runs' are ``a_kernels``, ``b_kernels``, ...

    Names and kinds are strings in here, so that SQL's text functions work on them.
    """
    prefixes = [""] if len(runs) == 1 else ["a_", "b_"]
    tables = {
        f"{prefix}{name}": run.table(name).with_columns(pl.col(pl.Categorical).cast(pl.String))
        for prefix, run in zip(prefixes, runs, strict=True)
        for name in TABLE_NAMES
    }
    try:
        frame = pl.SQLContext(tables, eager=False).execute(statement).collect(engine="streaming")
    except pl.exceptions.PolarsError as error:
        raise BadQuery(f"{str(error).splitlines()[0]} (tables: {', '.join(tables)})") from error
    columns = tuple(_column(name, dtype) for name, dtype in frame.schema.items())
    return Table("sql", columns, Rows(frame), frame.height, sources=sources(runs), summary=(statement,))


def _column(name: str, dtype: pl.DataType) -> Column:
    unit: Unit = "number"
    if dtype in (pl.String, pl.Categorical):
        unit = "text"
    elif dtype == pl.Boolean:
        unit = "bool"
    elif isinstance(dtype, pl.List | pl.Array):
        unit = "list"
    elif name.endswith("_ns"):
        unit = "ns"
    elif dtype.is_integer():
        unit = "count"
    return Column(name, name, unit, f"{name}, as the query gives it")
