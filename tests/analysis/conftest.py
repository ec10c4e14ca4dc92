"""Bare data in, bare data out: a Trace from dicts, and a view's rows as dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.views import view
from warplens.loaders import schema
from warplens.loaders.ingest.call_tree import deferred
from warplens.loaders.trace import Info, Trace

Rows = list[dict[str, Any]]


def _frame(table: str, rows: Rows) -> pl.LazyFrame:
    dtypes = schema.polars_schema(table)
    columns = {name: pl.Series(name, [row.get(name) for row in rows], dtype=dtype) for name, dtype in dtypes.items()}
    if table == "kernels" and columns["index"].null_count():
        columns["index"] = pl.Series("index", range(len(rows)), dtype=pl.Int64)
    return pl.DataFrame(columns).lazy()


@pytest.fixture(scope="session")
def run_of() -> Callable[..., Trace]:
    """``run_of(kernels=[{...}], host=[...])`` makes a Trace of those rows; what a row leaves out is null."""

    def make(label: str = "run", serialised: bool = False, **tables: Rows) -> Trace:
        info = Info(source=f"{label}.json", label=label, format="bare", serialised=serialised)
        return deferred(Trace(info).with_tables(**{name: _frame(name, rows) for name, rows in tables.items()}))

    return make


@pytest.fixture(scope="session")
def asked() -> Callable[..., Table]:
    """``asked("kernels", run)`` is the collected view."""

    def answer(name: str, *runs: Trace, options: Options | None = None) -> Table:
        return ask(view(name), runs, options)

    return answer


@pytest.fixture(scope="session")
def rows_of(asked: Callable[..., Table]) -> Callable[..., Rows]:
    """``rows_of("kernels", run)`` are the view's rows as dicts."""

    def rows(name: str, *runs: Trace, options: Options | None = None) -> Rows:
        return asked(name, *runs, options=options).frame.to_dicts()

    return rows
