"""A trace that was written is read back as it was."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from msgspec.structs import replace
from polars.testing import assert_frame_equal

from warplens.loaders import schema
from warplens.loaders.ingest import store
from warplens.loaders.ingest.call_tree import deferred
from warplens.loaders.recognition import recognised
from warplens.loaders.trace import TABLE_NAMES, Device, Info, Trace

INFO = Info(
    "/some/where", "where", "fake", tool="a tool", bytes=12, devices=(Device("GPU 0", "H100", {"sms": 132}),),
    ranks=(0, 3), epoch_ns=1_700_000_000_000_000_001, coverage=0.83, serialised=True, warnings=("one", "two"),
    facts={"deep": {"list": [1, 2.5, None]}, "big": 1 << 80},
)


def test_load_of_write_is_the_same(tmp_path: Path) -> None:
    kernels = pl.LazyFrame({"index": [0, 1], "start_ns": [5, None], "dur_ns": [7, 8], "name": ["a[/b]", "\x1b[2J"]})
    host = pl.LazyFrame({"start_ns": [2**62], "dur_ns": [0], "name": [""], "kind": ["op"]})
    written = Trace(INFO, schema.conform("kernels", kernels), schema.conform("host", host))
    store.write((written, Trace(Info("b", "b", "fake"))), tmp_path)
    first, second = store.read(tmp_path)
    assert replace(first.info, facts=INFO.facts) == INFO
    assert second.info == Info("b", "b", "fake")
    for name in TABLE_NAMES:
        assert dict(first.table(name).collect_schema()) == schema.polars_schema(name)
        assert_frame_equal(first.table(name).collect(), recognised(deferred(written)).table(name).collect())
        assert not second.has(name)


def test_what_a_loader_wrote_itself_is_the_table(tmp_path: Path) -> None:
    target = store.workspace(tmp_path) / "kernels.arrow"
    pl.DataFrame({"index": [0, 1, 2], "dur_ns": [1, 2, 3]}).write_ipc(target)
    store.write((Trace(Info("a", "a", "fake"), pl.scan_ipc(target)),), tmp_path)
    (trace,) = store.read(tmp_path)
    assert dict(trace.kernels.collect_schema()) == schema.polars_schema("kernels")
    assert trace.kernels.select("dur_ns").collect()["dur_ns"].to_list() == [1, 2, 3]
    assert trace.kernels.select("name").collect()["name"].to_list() == [None] * 3
