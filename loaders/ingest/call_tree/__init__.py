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
    pieces = [*parts] or [trace.host]
    known = list[tuple[list[pl.LazyFrame], list[pl.LazyFrame], pl.DataFrame]]()

    def blocks() -> tuple[list[pl.LazyFrame], list[pl.LazyFrame], pl.DataFrame]:
        if not known:
            from .columns import blocks_of  # with numpy, which most questions asked again do without

            some = blocks_of(pieces)
            known.append((some, *_trees(some, compiled, derived_store)))
        return known[0]

    def with_tree(names: list[str], plain: list[str]) -> Iterator[pl.DataFrame]:
        from .columns import with_late

        begin = 0
        some, trees, late = blocks()
        for block, tree in zip(some, trees, strict=True):
            table = block.select(plain or pl.first()).collect(engine="streaming").select(plain)
            added = with_late(tree.select(names).collect(), late, begin)
            begin += added.height
            yield pl.concat([table, added.cast({name: types[name] for name in names})], how="horizontal")

    def rows(
        names: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = list(types) if names is None else names
        asked = {*wanted, *(predicate.meta.root_names() if predicate is not None else ())}
        added = [name for name in COLUMNS if name in asked]
        left = limit
        if added:
            plain = [name for name in types if name in asked and name not in COLUMNS]
            for table in with_tree(added, plain):
                some = table if left is None else table.head(left)
                yield (some if predicate is None else some.filter(predicate)).select(wanted)
                left = None if left is None else left - some.height
                if left == 0:
                    return
            return
        for piece in pieces:
            if left == 0:
                return
            part = piece if left is None else piece.head(left)
            yield (part if predicate is None else part.filter(predicate)).select(wanted).collect(engine="streaming")
            left = None if left is None else left - int(part.select(pl.len()).collect().item())

    return trace.with_tables(host=register_io_source(rows, schema=types))


def _trees(
    blocks: Sequence[pl.LazyFrame], compiled: bool, derived_store: DerivedStore | None
) -> tuple[list[pl.LazyFrame], pl.DataFrame]:
    """The columns of each block, and the self times that are told apart from them."""
    from .columns import late_times, trees

    if derived_store is not None:
        late_kept, kept = derived_store.read(_LATE), derived_store.parts(_TREE)
        if late_kept is not None and kept is not None and len(kept) == len(blocks):
            return kept, late_kept
        late: dict[int, int] = {}
        if derived_store.write_parts(_TREE, trees(blocks, late, compiled)):
            derived_store.write(_LATE, late_times(late))
            kept = derived_store.parts(_TREE)
            if kept is not None:
                return kept, late_times(late)
    late = {}
    found = dict(trees(blocks, late, compiled))
    return [found[number].lazy() for number in range(len(blocks))], late_times(late)
