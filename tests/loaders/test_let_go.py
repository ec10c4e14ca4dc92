"""A recording that nobody holds any more leaves nothing in memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, GeneratorType

import polars as pl
import pytest
from polars.io.plugins import register_io_source

from warplens.analysis.timeline.place import launch_row
from warplens.loaders import schema
from warplens.loaders.ingest import store
from warplens.loaders.trace import Info, Trace

BATCH = 50
TIMES = 60  # whether polars stops in the middle of a table depends on its threads


@pytest.fixture(autouse=True)
def only_new_objects() -> Iterator[None]:
    """What earlier tests left is neither looked through, which took seconds, nor counted."""
    gc.freeze()
    yield
    gc.unfreeze()


def running(name: str) -> int:
    """How many functions and generators have that name, defined inside another function."""
    gc.collect()
    made = (one for one in gc.get_objects() if isinstance(one, FunctionType | GeneratorType))
    return sum(one.__qualname__.endswith(f"<locals>.{name}") for one in made)


def in_batches(name: str, whole: pl.DataFrame) -> pl.LazyFrame:
    """A table that is read some rows at a time, as the host table is read part by part."""
    def batches(columns: list[str] | None, where: pl.Expr | None, *_: object) -> Iterator[pl.DataFrame]:
        for at in range(0, len(table), BATCH):
            part = table[at : at + BATCH]
            rows = part.select(columns or part.columns)
            yield rows if where is None else rows.filter(where)

    table = schema.conform(name, whole.lazy()).collect()
    return register_io_source(batches, schema=table.schema)


@pytest.mark.parametrize("name", ["host", "host.kind", "host.kind=op", "host.kind=runtime", "host.shapes"])
def test_a_question_answered_by_some_rows_does_not_keep_the_recording(name: str) -> None:
    kinds = ["op"] + ["python"] * 1_000
    host = in_batches("host", pl.DataFrame({"name": ["a"] * len(kinds), "kind": kinds}))
    run = Trace(Info("a.json", "a", "kineto"))
    for _ in range(TIMES):
        assert run.with_tables(host=host).has(name) == (name in ("host", "host.kind", "host.kind=op"))
    assert running("batches")
    del run, host
    assert not running("batches")


def test_a_recording_read_from_the_cache_leaves_no_source_behind(tmp_path: Path) -> None:
    host = schema.conform("host", pl.LazyFrame({"name": ["a"], "kind": ["op"], "start_ns": [0], "dur_ns": [5]}))
    store.write((Trace(Info("a.json", "a", "kineto")).with_tables(host=host),), tmp_path)
    (run,) = store.read(tmp_path)
    assert run.host.select("depth").collect().item() == 0 and running("rows") == 1
    del run
    assert running("rows") == 0


def test_a_launch_that_is_looked_up_does_not_keep_the_recording() -> None:
    rows = pl.DataFrame({"index": range(1_000), "name": ["a"] * 1_000, "start_ns": range(1_000)})
    run = Trace(Info("a.json", "a", "kineto")).with_tables(kernels=in_batches("kernels", rows))
    for _ in range(TIMES):
        assert launch_row(run, 3)
    assert running("batches")
    del run
    assert not running("batches")
