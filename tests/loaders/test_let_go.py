"""A recording that nobody holds any more leaves nothing in memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.io.plugins import register_io_source

from warplens.analysis.timeline.place import launch_row
from warplens.loaders import schema
from warplens.loaders.ingest import store
from warplens.loaders.ingest.call_tree import deferred
from warplens.loaders.trace import Info, Trace


def traces() -> int:
    gc.collect()
    return sum(isinstance(one, Trace) for one in gc.get_objects())


@pytest.mark.parametrize("name", ["host", "host.kind", "host.kind=op", "host.kind=runtime", "host.shapes"])
def test_a_question_answered_by_some_rows_does_not_keep_the_recording(name: str) -> None:
    before = traces()
    parts = [schema.conform("host", pl.LazyFrame({"name": ["a"] * 1_200, "kind": [kind] * 1_200}))
             for kind in ("python", "op", *["python"] * 80)]
    trace = Trace(Info("a.json", "a", "kineto")).with_tables(host=pl.concat(parts))
    run = deferred(trace, parts=parts)
    assert run.has(name) == (name in ("host", "host.kind", "host.kind=op"))
    del trace, run
    assert traces() == before


def test_a_recording_read_from_the_cache_leaves_no_source_behind(tmp_path: Path) -> None:
    def sources() -> int:
        gc.collect()
        return sum(getattr(one, "__qualname__", "") == "deferred.<locals>.rows" for one in gc.get_objects())

    host = schema.conform("host", pl.LazyFrame({"name": ["a"], "kind": ["op"], "start_ns": [0], "dur_ns": [5]}))
    store.write((Trace(Info("a.json", "a", "kineto")).with_tables(host=host),), tmp_path)
    before = sources()
    (run,) = store.read(tmp_path)
    assert run.host.select("depth").collect().item() == 0 and sources() == before + 1
    del run
    assert sources() == before


def test_a_launch_that_is_looked_up_does_not_keep_the_recording() -> None:
    def sources() -> int:
        gc.collect()
        return sum("batches_of_five" in getattr(one, "__qualname__", "") for one in gc.get_objects())

    whole = schema.conform("kernels", pl.LazyFrame(
        {"index": range(1_000), "name": ["a"] * 1_000, "start_ns": range(1_000)})).collect()

    def batches_of_five(columns: list[str] | None, where: pl.Expr | None, *_: object) -> Iterator[pl.DataFrame]:
        for at in range(0, len(whole), 5):
            part = whole[at : at + 5]
            rows = part.select(columns or part.columns)
            yield rows if where is None else rows.filter(where)

    run = Trace(Info("a.json", "a", "kineto")).with_tables(
        kernels=register_io_source(batches_of_five, schema=whole.schema))
    for _ in range(20):  # whether polars stops in the middle of a table depends on its threads
        assert launch_row(run, 3)
    assert sources()
    del run, batches_of_five
    assert not sources()
