"""Who called whom on a thread: found when a question first needs it, and kept with the tables where these last.

Reading a recording does not wait for it, as most first questions are about kernels and need none of it. The columns
are those of the host table all the same: whoever asks for one of them gets it, and nobody sees when it was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from ...trace import DerivedStore, Trace

COLUMNS = ("parent", "depth", "self_ns", "crosses")
ROWS = 1 << 19
"""Rows of a block of the table and of a part of the stored tree: what is in memory at once when they are read."""


def deferred(
    trace: Trace, compiled: bool = True, parts: Sequence[pl.LazyFrame] = (), derived_store: DerivedStore | None = None
) -> Trace:
    """The trace with the columns in its host table, found when one of them is first asked for.

    ``parts`` are the files of that table, which are then handed out one by one.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    from ... import schema

    if trace.host is schema.empty("host"):
        return trace
    types = schema.polars_schema("host")
    frames = [*parts] or [trace.host]
    trees = list[Sequence[pl.LazyFrame]]()

    def rows(
        names: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        columns = list(types) if names is None else names
        needed = {*columns, *(predicate.meta.root_names() if predicate is not None else ())}
        of_tree = [name for name in COLUMNS if name in needed]
        plain = [name for name in types if name in needed and name not in COLUMNS]
        if of_tree and not trees:
            trees.append(_tree(trace.host, compiled, derived_store))
        begin, parts_of_tree, tree = 0, iter(trees[0] if of_tree else ()), pl.DataFrame()
        for block in _blocks(frames) if of_tree else frames:
            block = block if limit is None else block.head(limit - begin)
            height = int(block.select(pl.len()).collect().item()) if of_tree or limit is not None else 0
            if of_tree:
                table = block.select(plain or pl.first()).collect(engine="streaming").select(plain)
                while tree.height < height:  # a part is decompressed once, however many blocks it is of
                    tree = pl.concat([tree, next(parts_of_tree).select(of_tree).collect()])
                own = tree.head(height).select(pl.col(name).cast(types[name]) for name in of_tree)
                tree = tree.slice(height)
                block = pl.concat([table, own], how="horizontal").lazy()
            matches = block if predicate is None else block.filter(predicate)
            yield matches.select(columns).collect(engine="streaming")
            begin += height
            if begin == limit:
                return

    return trace.with_tables(host=register_io_source(rows, schema=types))


def _blocks(frames: Sequence[pl.LazyFrame]) -> Iterator[pl.LazyFrame]:
    import polars as pl

    for frame in frames:
        yield from (frame.slice(at, ROWS) for at in range(0, int(frame.select(pl.len()).collect().item()), ROWS))


def _tree(host: pl.LazyFrame, compiled: bool, derived_store: DerivedStore | None) -> Sequence[pl.LazyFrame]:
    """The columns of the whole table in parts, from the store or into it."""
    stored = None if derived_store is None else derived_store.parts("call-tree")
    if stored is not None:
        return stored
    from .columns import call_tree  # with numpy, which most questions asked again do without

    tree = call_tree(host, compiled)
    if derived_store is not None and derived_store.write_parts("call-tree", enumerate(tree.iter_slices(ROWS))):
        return derived_store.parts("call-tree") or [tree.lazy()]  # on disk: it is not in memory beside what asked
    return [tree.lazy()]
