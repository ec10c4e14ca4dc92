"""Who called whom on a thread: found when a question first needs it, and kept beside the tables where these last.

Reading a recording does not wait for it, as most first questions are about kernels and need none of it. The columns
are those of the host table all the same: whoever asks for one of them gets it, and nobody sees when it was found.
Finding it takes 0.15 s for 93,000 slices (31 MB of Kineto JSON, November 2026), where reading them and answering for
kernels takes 0.4. It is found, kept and read in the blocks of the table, never as columns of all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .names import COLUMNS

if TYPE_CHECKING:
    import polars as pl

    from ...trace import DerivedStore, Trace


_TREE, _LATE = "call-tree", "call-tree-late"


def deferred(
    trace: Trace, compiled: bool = True, parts: Sequence[pl.LazyFrame] = (), derived_store: DerivedStore | None = None
) -> Trace:
    """The trace with the columns in its host table, found when one of them is first asked for.

    ``parts`` are the pieces of that table, which are then handed out one by one.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    from ... import schema

    if trace.host is schema.empty("host"):
        return trace
    types = schema.polars_schema("host")
    frames = [*parts] or [trace.host]
    computed = list[tuple[list[pl.LazyFrame], list[pl.LazyFrame], pl.DataFrame]]()

    def blocks() -> tuple[list[pl.LazyFrame], list[pl.LazyFrame], pl.DataFrame]:
        if not computed:
            from .columns import blocks_of  # with numpy, which most questions asked again do without

            input_blocks = blocks_of(frames)
            computed.append((input_blocks, *_trees(input_blocks, compiled, derived_store)))
        return computed[0]

    def with_tree(names: list[str], plain: list[str]) -> Iterator[pl.DataFrame]:
        from .columns import with_late

        begin = 0
        input_blocks, trees, late = blocks()
        for block, tree in zip(input_blocks, trees, strict=True):
            table = block.select(plain or pl.first()).collect(engine="streaming").select(plain)
            tree_columns = with_late(tree.select(names).collect(), late, begin)
            begin += tree_columns.height
            yield pl.concat([table, tree_columns.cast({name: types[name] for name in names})], how="horizontal")

    def rows(
        names: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        columns = list(types) if names is None else names
        needed = {*columns, *(predicate.meta.root_names() if predicate is not None else ())}
        tree_columns = [name for name in COLUMNS if name in needed]
        remaining = limit
        if tree_columns:
            plain = [name for name in types if name in needed and name not in COLUMNS]
            for table in with_tree(tree_columns, plain):
                input_blocks = table if remaining is None else table.head(remaining)
                yield (input_blocks if predicate is None else input_blocks.filter(predicate)).select(columns)
                remaining = None if remaining is None else remaining - input_blocks.height
                if remaining == 0:
                    return
            return
        for frame in frames:
            if remaining == 0:
                return
            limited = frame if remaining is None else frame.head(remaining)
            matches = limited if predicate is None else limited.filter(predicate)
            yield matches.select(columns).collect(engine="streaming")
            remaining = None if remaining is None else remaining - int(limited.select(pl.len()).collect().item())

    return trace.with_tables(host=register_io_source(rows, schema=types))


def _trees(
    blocks: Sequence[pl.LazyFrame], compiled: bool, derived_store: DerivedStore | None
) -> tuple[list[pl.LazyFrame], pl.DataFrame]:
    """The columns of each block, and the self times that are told apart from them."""
    from .columns import late_times, trees

    if derived_store is not None:
        late_kept, stored = derived_store.read(_LATE), derived_store.parts(_TREE)
        if late_kept is not None and stored is not None and len(stored) == len(blocks):
            return stored, late_kept
        late: dict[int, int] = {}
        if derived_store.write_parts(_TREE, trees(blocks, late, compiled)):
            derived_store.write(_LATE, late_times(late))
            stored = derived_store.parts(_TREE)
            if stored is not None:
                return stored, late_times(late)
    late = {}
    by_block = dict(trees(blocks, late, compiled))
    return [by_block[number].lazy() for number in range(len(blocks))], late_times(late)
