"""Chunks of rows as polars frames of their table.

The frames hold only columns with values, in narrow dtypes; ``schema.conform`` turns them into the table.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence, Set
from pathlib import Path

import numpy as np
import numpy.ma  # polars imports it with the first array
import numpy.typing as npt
import polars as pl
from polars.io.plugins import register_io_source

from .. import schema
from . import dialect
from .chunk import TEXTS, Basis, Chunk, Column, joined, missing
from .columns import NULL
from .dialect import KIND, CodeMeaning, InternedTexts, category_codes

_MANY = 1 << 12  # Device numbers below this use a lookup table; larger ones are sorted.
_BATCH = 1 << 17
"""Rows built and filtered at a time: the first touch of a page costs more than the work on its content."""
_KINDS = category_codes(dialect.KINDS)


def lazy_rows(table: str, texts: InternedTexts, chunks: Sequence[Chunk], basis: Basis, first: int) -> pl.LazyFrame:
    """The table as a LazyFrame whose columns are built only when a query needs them. Most queries need one table and a
    third of its columns. That saves 0.03 of the 0.35 s of CPU time of a kernels report of 134,000 events (31 MB,
    November 2026)."""
    columns: dict[str, pl.Series] = {}

    def rows(
        names: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        column_names = list(schema.polars_schema(table)) if names is None else names
        if not column_names:  # a row index alone; ``select`` of no columns would give no rows
            every = sum(each.rows for each in chunks)
            yield pl.DataFrame(height=every if limit is None else min(every, limit))
            return
        lacking = {name for name in column_names if name not in columns}
        if lacking and limit is not None:  # a query that looks at the first rows only
            ends = np.cumsum([each.rows for each in chunks])
            few = chunks[: int(np.searchsorted(ends, limit)) + 1]
            preview = _columns(table, texts, few, basis, first, {*column_names}).select(column_names).head(limit)
            yield preview if predicate is None else preview.filter(predicate)
            return
        if lacking and predicate is not None and limit is None:
            for batch, before in _batches(chunks):
                narrow = _narrow(table, texts, batch, basis, first + before, {*column_names})
                yield _selected(table, narrow, {*column_names}, predicate).select(column_names)
            return
        if lacking:
            columns.update(_columns(table, texts, chunks, basis, first, lacking).to_dict())
        merged = pl.DataFrame([columns[name] for name in column_names])
        if limit is not None:
            merged = merged.head(limit)
        yield merged if predicate is None else merged.filter(predicate)

    return register_io_source(rows, schema=schema.polars_schema(table))


def _batches(chunks: Sequence[Chunk]) -> Iterator[tuple[Sequence[Chunk], int]]:
    """Groups of chunks of about ``_BATCH`` rows, each with the number of rows before it, to filter them in turn."""
    begin = rows = before = 0
    for at, each in enumerate(chunks):
        rows += each.rows
        if rows >= _BATCH or at == len(chunks) - 1:
            yield chunks[begin : at + 1], before
            begin, before, rows = at + 1, before + rows, 0


def _columns(
    table: str, texts: InternedTexts, chunks: Sequence[Chunk], basis: Basis, first: int, names: Set[str]
) -> pl.DataFrame:
    """The named columns in the schema's dtypes, and possibly more."""
    return _wide(table, _narrow(table, texts, chunks, basis, first, names), names)


def _narrow(
    table: str, texts: InternedTexts, chunks: Sequence[Chunk], basis: Basis, first: int, names: Set[str]
) -> pl.DataFrame:
    """The named columns that have values, in narrow dtypes, and possibly more; at least one for the number of rows."""
    requested = {*names, *(("rank",) if table == "kernels" else ())}  # the pid is derived from the rank
    if not any(name in chunk.columns for chunk in chunks for name in requested - {"rank"}):
        requested.add("ts_ns" if table == "metrics" else "start_ns")
    return frame(table, texts, chunks, basis, first, requested)


def _wide(table: str, rows: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    types = schema.polars_schema(table)
    return pl.DataFrame([
        rows[name].cast(types[name]) if name in rows.columns else
        pl.Series(name, [None], types[name]).new_from_index(0, rows.height)
        for name in sorted(names)
    ])  # fmt: skip


def _selected(table: str, rows: pl.DataFrame, names: Set[str], predicate: pl.Expr) -> pl.DataFrame:
    """The rows that meet the condition. Only what it asks for has the schema's dtypes before rows are left out: that
    saves 0.03 of 1.5 s of CPU time of a kernels report of 500 MB."""
    asked = _wide(table, rows, {*predicate.meta.root_names()} or names)
    return _wide(table, rows.filter(asked.select(predicate).to_series()), names)


def frame(
    table: str, texts: InternedTexts, chunks: Sequence[Chunk], basis: Basis, first: int,
    names: Container[str] | None = None,
) -> pl.DataFrame:
    """Rows of the table, all columns or only ``names``; ``first`` is the index of the first row in the table."""
    rows = sum(each.rows for each in chunks)
    columns: dict[str, pl.Series] = {}
    for name in schema.polars_schema(table):
        if names is not None and name not in names:
            continue
        values = joined(chunks, name)
        if name == "index" and table == "kernels":  # the host table numbers its rows when they are read
            columns[name] = pl.Series(name, np.arange(first, first + rows, dtype=_unsigned(first + rows)))
        elif values is not None:
            columns[name] = _series(table, texts, name, values, basis)
    all_columns = pl.DataFrame(columns)
    rank = pl.col("rank") if "rank" in columns else pl.lit(None, pl.Int64)
    wants_rank = basis.rank is not None and (names is None or "rank" in names)
    more = [rank.fill_null(pl.lit(basis.rank, pl.Int64)).alias("rank")] if wants_rank else []
    if table == "kernels" and basis.pids:
        more.append(_launcher(rank, basis).alias("pid"))
    return all_columns.with_columns(more) if more else all_columns


def held_rows(
    texts: InternedTexts, chunks: Sequence[Chunk], basis: Basis, groups: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> Iterator[list[dict[str, npt.NDArray[np.int64]]]]:
    """Rows of the host table, see ``Trace.held_host``."""
    before = 0
    for held in chunks:
        batch = []
        for kinds, names in groups:
            rows = np.flatnonzero(np.logical_or.reduce([held.columns["kind"] == KIND[kind] for kind in kinds]))
            arrays = {name: _held(texts, basis, name, held.columns.get(name), rows) for name in names}
            batch.append({"row": rows + before, **arrays})
        yield batch
        before += held.rows


def _held(
    texts: InternedTexts, basis: Basis, name: str, column: Column | None, rows: npt.NDArray[np.intp]
) -> npt.NDArray[np.int64]:
    none = basis.rank if name == "rank" and basis.rank is not None else NULL
    if column is None:
        return np.broadcast_to(np.int64(none), len(rows))
    values = column.take(rows)
    if name in TEXTS:
        return np.where(values < 0, NULL, texts.spelled(name)[values])
    if name == "start_ns":
        return values - basis.origin
    absent = values == missing(values)
    return np.where(absent, none, values) if absent.any() else values


def with_timeless(
    table: str, placed: pl.LazyFrame, texts: InternedTexts, chunks: Sequence[Chunk], basis: Basis, first: int,
    path: Path | None,
) -> pl.LazyFrame:
    """The table with rows behind it that have neither start nor duration; these are written to ``path``, the last of
    the table's files."""
    rows = frame(table, texts, chunks, basis, first).with_columns(
        start_ns=pl.lit(None, pl.Int64), dur_ns=pl.lit(None, pl.Int64))
    if path is not None:
        rows.write_ipc(path, compression="lz4")
    return pl.concat([placed, schema.conform(table, rows.lazy() if path is None else pl.scan_ipc(path))])


def _series(table: str, texts: InternedTexts, name: str, values: Column, basis: Basis) -> pl.Series:
    if name in TEXTS:
        return _texts(texts.spelled(name), values)
    if name == "kind":
        return _column(_KINDS.take(values))
    if name == "device":
        return _texts(texts.names, values) if table == "metrics" else _devices(values, basis.word)
    if name in ("start_ns", "ts_ns"):
        counted = values - basis.origin
        fits = int(counted.min()) >= 0 and _unsigned(int(counted.max())) == np.uint32
        return pl.Series(counted.astype(np.uint32) if fits else counted)
    series = pl.Series(values)
    if values.dtype.kind == "f":
        return series.fill_nan(None)
    absent = values < 0 if name == "dur_ns" else values == missing(values)
    if values.dtype != np.uint32 and absent.any():
        series = pl.select(pl.when(pl.Series(~absent)).then(series)).to_series()
    return series.cast(pl.Int32, strict=False) if name == "registers" else series


def _devices(values: Column, word: str) -> pl.Series:
    high = int(values.max())
    if high < _MANY:
        distinct, indices = np.arange(-1, max(high, -1) + 1), np.maximum(values, -1) + 1
    else:
        distinct, indices = np.unique(values, return_inverse=True)
    names = [f"{word} {n}" if n >= 0 else None for n in distinct.tolist()]
    return pl.Series(names, dtype=schema.NAME).gather(pl.Series(indices))


def rebased(rows: pl.LazyFrame, table: str, old: Basis, new: Basis) -> pl.LazyFrame:
    """Rows of a table written with basis ``old``, converted to basis ``new``."""
    time = "ts_ns" if table == "metrics" else "start_ns"
    rank = pl.col("rank") if old.rank is None else pl.col("rank").replace(old.rank, None)
    rows = schema.conform(table, rows).with_columns(pl.col(time) + old.origin - new.origin, rank=rank)
    if old.word != new.word:
        renamed = pl.col("device").cast(pl.String).str.replace(f"^{old.word} ", f"{new.word} ")
        rows = rows.with_columns(renamed.cast(schema.NAME))
    if table == "kernels":
        rows = rows.with_columns(pid=_launcher(pl.col("rank"), new))
    return rows.with_columns(pl.col("rank").fill_null(pl.lit(new.rank, pl.Int64)))


def _launcher(rank: pl.Expr, basis: Basis) -> pl.Expr:
    pids = dict(basis.pids)
    by_rank = rank.cast(pl.Int64).replace_strict(pids, default=None, return_dtype=pl.Int64) if pids else pl.lit(None)
    return pl.coalesce(by_rank, pl.lit(pids.get(None), pl.Int64))


def _texts(meaning: CodeMeaning, numbers: npt.NDArray[np.int32]) -> pl.Series:
    series = _column(meaning[numbers])
    if int(numbers.min()) >= 0:
        return series
    return pl.select(pl.when(pl.Series(numbers >= 0)).then(series)).to_series()


def _column(codes: npt.NDArray[np.uint32]) -> pl.Series:
    return pl.Series(codes).cat.to(schema.NAME)


def _unsigned(high: int) -> type:
    return np.uint32 if high < 1 << 32 else np.int64
