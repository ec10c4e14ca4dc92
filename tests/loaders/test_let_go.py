"""A recording that nobody holds any more leaves nothing in memory."""

from __future__ import annotations

import gc

import polars as pl
import pytest

from warplens.loaders import schema
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
