"""Blocks of memory from the instants of a trace: what was allocated when, by which thread, until when."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from warplens.loaders.ingest.opening import open_run
from warplens.loaders.kineto import LOADER, allocations
from warplens.loaders.loader import Job
from warplens.loaders.trace import Trace

COLUMNS = ("start_ns", "dur_ns", "bytes", "device", "address", "pid", "tid")


def instant(ts: float, change: int, address: int, device: int = 0, tid: int = 3, **more: Any) -> dict[str, Any]:
    args = {"Device Type": 1, "Device Id": device, "Bytes": change, "Addr": address, "Total Allocated": 1 << 20}
    return {"ph": "i", "name": "[memory]", "pid": 9, "tid": tid, "ts": ts, "args": {**args, **more}}


def load(folder: Path, *events: dict[str, Any]) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    (trace,) = LOADER.load(Job(path, folder))
    return trace


def blocks(folder: Path, *events: dict[str, Any]) -> list[tuple[Any, ...]]:
    return load(folder, *events).allocations.select(COLUMNS).collect().rows()


def test_a_block_lasts_from_its_allocation_to_its_free(tmp_path: Path) -> None:
    found = blocks(tmp_path, instant(1, 512, 70), instant(4, 256, 80), instant(6, -512, 70, tid=4))
    assert found == [(0, 5000, 512, "GPU 0", 70, 9, 3), (3000, None, 256, "GPU 0", 80, 9, 3)]


def test_what_is_freed_and_was_never_allocated_was_there_before(tmp_path: Path) -> None:
    assert blocks(tmp_path, instant(1, 8, 5), instant(3, -512, 70)) == [
        (None, 2000, 512, "GPU 0", 70, None, None), (0, None, 8, "GPU 0", 5, 9, 3),
    ]


def test_an_address_is_used_again_and_on_another_device_it_is_another_one(tmp_path: Path) -> None:
    found = blocks(
        tmp_path, instant(1, 8, 5), instant(2, -8, 5), instant(3, 16, 5), instant(4, 32, 5), instant(5, 64, 5, device=1)
    )
    assert [row[:4] for row in found] == [
        (0, 1000, 8, "GPU 0"), (2000, 1000, 16, "GPU 0"), (3000, None, 32, "GPU 0"), (4000, None, 64, "GPU 1"),
    ]


def test_threads_are_kept_whatever_the_parts_of_a_file_hold() -> None:
    wide, none = 1 << 40, allocations.NULL
    parts = [[3, 3], [3, 4], [wide, 4], [none, none], [wide, wide], [none, 7]]
    collected, moments = allocations.Allocations(), iter(range(1, 99))
    for tids in parts:
        ts = np.array([next(moments) for _ in tids])
        same = np.full(len(ts), 9)
        collected.add(ts, same, np.array(tids), np.full(len(ts), none), np.zeros(len(ts), np.int64), same, ts)
    frame = collected.table(0, 5).collect()
    assert frame["tid"].to_list() == [None if tid == none else tid for tids in parts for tid in tids]
    assert set(frame["pid"]) == {9} and set(frame["rank"]) == {5} and frame["address"].to_list() == list(range(1, 13))


@pytest.mark.parametrize("odd", [
    {"Bytes": 0}, {"Bytes": None}, {"Addr": None}, {"Bytes": 1 << 52}, {"Addr": "x"}, {"Bytes": True},
])
def test_an_instant_that_says_of_no_block_is_none(tmp_path: Path, odd: dict[str, Any]) -> None:
    assert blocks(tmp_path, instant(1, 8, 5, **odd)) == []


def test_of_too_many_instants_only_the_sums_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocations, "MOST", 3)
    trace = load(tmp_path, *(instant(at, 8, at) for at in range(1, 6)))
    assert trace.allocations.collect().is_empty() and trace.metrics.collect().height == 5
    assert trace.info.warnings == (
        "5 memory changes are too many to track single blocks: which ones held the peak is unknown",
    )


def test_blocks_of_a_recording_change_its_sum_as_its_instants_do(data: Path) -> None:
    path = data / "traces" / "kineto" / "aiperf_deepseek_v3_trace.json"
    want: Counter[int] = Counter()
    for event in json.loads(path.read_text(), parse_float=Decimal)["traceEvents"]:
        if event.get("name") == "[memory]" and event["args"]["Device Type"] == 1:
            want[int(event["ts"] * 1000)] += event["args"]["Bytes"]
    (run,) = open_run(str(path), use_cache=False)
    found: Counter[int | None] = Counter()
    columns = run.allocations.filter(pl.col("device").cast(pl.String) == "GPU 0").select("start_ns", "dur_ns", "bytes")
    for start, dur, size in columns.collect().rows():
        found[start] += size if start is not None else 0
        found[(start or 0) + dur if dur is not None else None] -= size
    del found[None]
    zero = min(want) - min(at for at in found if at is not None)
    assert len(want) > 300 and {at + zero: change for at, change in found.items() if at is not None} == want
