"""The call tree of each thread, computed when a query first needs it and stored with the cached tables.

Opening a recording does not wait for it, as most first queries are about kernels. Its columns still belong to the host
table: a query that selects one gets it, without knowing when it was computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    import polars as pl

    from ...trace import DerivedStore, Trace

COLUMNS = ("parent", "depth", "self_ns", "crosses")
ROWS = 1 << 19
"""Rows per block of the host table and per part of the stored tree, which bounds memory when reading them."""


def deferred(
    trace: Trace, compiled: bool = True, parts: Sequence[pl.LazyFrame] = (), derived_store: DerivedStore | None = None
) -> Trace:
    """The trace with the call tree columns in its host table, computed when a query first selects one of them, and
    the number of each row.

    ``parts`` are scans of the files of that table, which are then yielded one by one.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    from ... import schema

    if trace.host is schema.empty("host"):
        return trace
    types = schema.polars_schema("host")
    host = trace.host
    frames = [*parts] or [host]
    trees = list[Sequence[pl.LazyFrame]]()

    def rows(
        names: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        columns = list(types) if names is None else names
        needed = {*columns, *(predicate.meta.root_names() if predicate is not None else ())}
        of_tree = [name for name in COLUMNS if name in needed]
        numbered = "index" in needed
        plain = [name for name in types if name in needed and name not in COLUMNS and name != "index"]
        if of_tree and not trees:
            trees.append(_tree(host, compiled, derived_store))
        begin, parts_of_tree, tree = 0, iter(trees[0] if of_tree else ()), pl.DataFrame()
        for block in _blocks(frames) if of_tree else frames:
            block = block if limit is None else block.head(limit - begin)
            counted = of_tree or numbered or limit is not None
            height = int(block.select(pl.len()).collect().item()) if counted else 0
            if of_tree:
                table = block.select(plain or pl.first()).collect(engine="streaming").select(plain)
                while tree.height < height:  # each part is decompressed only once, even if it spans several blocks
                    tree = pl.concat([tree, next(parts_of_tree).select(of_tree).collect()])
                own = tree.head(height).select(pl.col(name).cast(types[name]) for name in of_tree)
                tree = tree.slice(height)
                block = pl.concat([table, own], how="horizontal").lazy()
            if numbered:
                block = block.drop("index", strict=False).with_columns(
                    pl.int_range(begin, begin + height, dtype=pl.Int64).alias("index"))
            matches = block if predicate is None else block.filter(predicate)
            # of a row index alone no columns are asked: ``select`` of none would give no rows
            yield matches.select(columns).collect(engine="streaming") if columns else pl.DataFrame(
                height=matches.select(pl.len()).collect(engine="streaming").item())
            begin += height
            if begin == limit:
                return

    return replace(trace.with_tables(host=register_io_source(rows, schema=types)), held_host=trace.held_host)


def _blocks(frames: Sequence[pl.LazyFrame]) -> Iterator[pl.LazyFrame]:
    import polars as pl

    for frame in frames:
        yield from (frame.slice(at, ROWS) for at in range(0, int(frame.select(pl.len()).collect().item()), ROWS))


def _tree(host: pl.LazyFrame, compiled: bool, derived_store: DerivedStore | None) -> Sequence[pl.LazyFrame]:
    """The call tree columns of the whole table in parts, read from the store or computed and stored."""
    stored = None if derived_store is None else derived_store.parts("call-tree")
    if stored is not None:
        return stored
    from .columns import call_tree  # imports numpy, which queries answered from the store do not need

    tree = call_tree(host, compiled)
    if derived_store is not None and derived_store.write_parts("call-tree", enumerate(tree.iter_slices(ROWS))):
        return derived_store.parts("call-tree") or [tree.lazy()]  # scans of the stored parts, to free the memory
    return [tree.lazy()]
