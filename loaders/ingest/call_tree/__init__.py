"""Who called whom on a thread: found once while a recording is read, and kept with its host table.

Every question about operators, callers and waiting needs it, and building it takes as long as the rest of the answer.
``write`` puts it into the files of a table that lasts; ``deferred`` finds it when somebody first asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from ...trace import Trace

_WRITERS = 2
_BATCH = 1 << 16


def write(trace: Trace, files: list[Path], compiled: bool = True) -> tuple[str, ...]:
    """Add the columns to the files of the trace's host table, in their order; gives what to warn of. Raises OSError."""
    from .columns import call_tree

    tree = call_tree(trace.host, compiled)
    begin, parts = 0, []
    for file in files:
        import polars as pl

        rows = int(pl.scan_ipc(file).select(pl.len()).collect().item())
        parts.append((file, tree.frame[begin : begin + rows]))
        begin += rows
    if begin != tree.frame.height:
        raise ValueError(f"the files hold {begin:,} host slices and the trace {tree.frame.height:,}")
    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(_rewritten, parts))
    return tree.warnings


def _rewritten(part: tuple[Path, pl.DataFrame]) -> None:
    import polars as pl

    file, columns = part
    rows = pl.read_ipc(file).drop(columns.columns, strict=False)
    filled = [column.shrink_dtype() for column in columns if column.null_count() < columns.height]
    made = file.with_suffix(".tree")
    rows.hstack(filled).write_ipc(made, compression="lz4", record_batch_size=_BATCH)
    made.replace(file)


def deferred(trace: Trace, compiled: bool = True) -> Trace:
    """The trace with the columns in its host table, found when one of them is first asked for."""
    import polars as pl
    from polars.io.plugins import register_io_source

    from ... import schema
    from .columns import COLUMNS, CallTree, call_tree

    if trace.host is schema.empty("host"):
        return trace
    bare, known = trace.host, list[CallTree]()

    def rows(
        names: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = list(schema.polars_schema("host")) if names is None else names
        asked = {*wanted, *(predicate.meta.root_names() if predicate is not None else ())}
        if not asked & set(COLUMNS):
            found = bare if limit is None else bare.head(limit)
            found = found if predicate is None else found.filter(predicate)
            yield found.select(wanted).collect(engine="streaming")
            return
        if not known:
            known.append(call_tree(bare, compiled))
        plain = [name for name in schema.polars_schema("host") if name in asked and name not in COLUMNS]
        types = schema.polars_schema("host")
        tree = [known[0].frame[name].cast(types[name]) for name in COLUMNS if name in asked]
        table = bare.select(plain).collect(engine="streaming") if plain else pl.DataFrame()
        table = pl.DataFrame([*table, *tree])
        table = table if limit is None else table.head(limit)
        yield (table if predicate is None else table.filter(predicate)).select(wanted)

    return trace.with_tables(host=register_io_source(rows, schema=schema.polars_schema("host")))
