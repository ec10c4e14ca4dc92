"""A recording that nobody holds any more leaves nothing in memory."""

from __future__ import annotations

import gc
from pathlib import Path

import polars as pl
import pytest

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
