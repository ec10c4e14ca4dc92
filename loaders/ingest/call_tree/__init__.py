"""Who called whom on a thread: found when a question first needs it, and kept beside the tables where these last.

Reading a recording does not wait for it, as most first questions are about kernels and need none of it. The columns
are those of the host table all the same: whoever asks for one of them gets it, and nobody sees when it was found.
Finding it takes 0.15 s for 93,000 slices (31 MB of Kineto JSON, November 2026), where reading them and answering for
kernels takes 0.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .names import COLUMNS

if TYPE_CHECKING:
    import polars as pl

    from ...trace import DerivedStore, Trace


def _file(column: str) -> str:
    """Where a column is kept: each by itself, because most questions need one and a long recording has large ones."""
    return f"call-tree-{column.replace('_', '-')}"


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
    whole, pieces = trace.host, [*parts] or [trace.host]
    known = dict[str, pl.Series]()

    def tree(name: str) -> pl.Series:
        if name not in known:
            kept = derived_store.read(_file(name)) if derived_store is not None else None
            if kept is not None:
                known[name] = kept.to_series()
                return known[name]
            from .columns import call_tree  # with numpy, which most questions asked again do without

            for column in call_tree(whole, compiled):
                known[column.name] = column
                if derived_store is not None:
                    derived_store.write(_file(column.name), column.to_frame())
        return known[name]

    def rows(
        names: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = list(types) if names is None else names
        asked = {*wanted, *(predicate.meta.root_names() if predicate is not None else ())}
        added = [name for name in COLUMNS if name in asked]
        plain = [name for name in types if name in asked and name not in COLUMNS]
        begin = 0
        for piece in pieces:
            if limit is not None:
                if begin >= limit:
                    return
                piece = piece.head(limit - begin)
            if not added:
                some = piece if predicate is None else piece.filter(predicate)
                yield some.select(wanted).collect(engine="streaming")
                begin += 0 if limit is None else int(piece.select(pl.len()).collect().item())
                continue
            table = piece.select(plain or pl.first()).collect(engine="streaming")
            columns = [tree(name)[begin : begin + table.height].cast(types[name]) for name in added]
            begin += table.height
            table = pl.DataFrame([*table.select(plain), *columns])
            yield (table if predicate is None else table.filter(predicate)).select(wanted)

    return trace.with_tables(host=register_io_source(rows, schema=types))
