"""Who called whom on a thread: found when a question first needs it, and kept beside the tables where these last.

Reading a recording does not wait for it, as most first questions are about kernels and need none of it. The columns
are those of the host table all the same: whoever asks for one of them gets it, and nobody sees when it was found.
Finding it takes 0.15 s for 93,000 slices (31 MB of Kineto JSON, November 2026), where reading them and answering for
kernels takes 0.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from ...trace import DerivedStore, Trace

_NAME = "call-tree"


def deferred(
    trace: Trace, compiled: bool = True, parts: Sequence[pl.LazyFrame] = (), derived_store: DerivedStore | None = None
) -> Trace:
    """The trace with the columns in its host table, found when one of them is first asked for.

    ``parts`` are the pieces of that table, which are then handed out one by one.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    from ... import schema
    from .columns import COLUMNS, call_tree

    if trace.host is schema.empty("host"):
        return trace
    types = schema.polars_schema("host")
    whole, pieces = trace.host, [*parts] or [trace.host]
    known = list[pl.DataFrame]()

    def tree() -> pl.DataFrame:
        if not known:
            found = derived_store.read(_NAME) if derived_store is not None else None
            if found is None:
                found = call_tree(whole, compiled)
                if derived_store is not None:
                    derived_store.write(_NAME, found)
            known.append(found)
        return known[0]

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
            columns = tree()[begin : begin + table.height]
            begin += table.height
            table = pl.DataFrame([*table.select(plain), *(columns[name].cast(types[name]) for name in added)])
            yield (table if predicate is None else table.filter(predicate)).select(wanted)

    return trace.with_tables(host=register_io_source(rows, schema=types))
