"""PyTorch's memory snapshots: what they hold, against a plain reading, and pickles that are meant to do harm."""

from __future__ import annotations

import importlib.util
import os
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from warplens.loaders import registry
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import stream
from warplens.loaders.loader import Job
from warplens.loaders.memory_snapshot import LOADER, plain_pickle
from warplens.loaders.trace import Trace


def load(path: Path, tmp_path: Path) -> Trace:
    (trace,) = LOADER.load(Job(path, tmp_path))
    return trace


def written(tmp_path: Path, content: Any, protocol: int = 4) -> Path:
    path = tmp_path / "made.pickle"
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


def event(action: str, address: int, size: int, time: int, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "frames": [], **more}


def segment(*blocks: tuple[int, int, str], device: int = 0) -> dict[str, Any]:
    rows = [{"address": at, "size": size, "requested_size": size, "state": state, "frames": []}
            for at, size, state in blocks]
    return {"device": device, "address": blocks[0][0], "total_size": sum(size for _, size, _ in blocks), "stream": 0,
            "segment_pool_id": (0, 0), "blocks": rows}


def allocated(trace: Trace) -> list[tuple[int | None, float]]:
    rows = trace.metrics.filter(pl.col("metric").cast(pl.String) == "memory allocated").select("ts_ns", "value")
    return list(rows.collect().iter_rows())


def test_a_snapshot_is_what_a_plain_replay_says(samples: Path, tmp_path: Path) -> None:
    path = samples / "memory_snapshot.pickle"
    content = pickle.loads(path.read_bytes())
    now, peak, course = 0, 0, []
    for row in content["device_traces"][0]:
        step = {"alloc": row["size"], "free_requested": -row["size"]}.get(row["action"])
        if step is not None:
            now += step
            peak = max(peak, now)
            course.append(now)
    trace = load(path, tmp_path)
    assert [value for _, value in allocated(trace)] == course
    assert trace.info.epoch_ns == content["device_traces"][0][0]["time_us"] * 1000
    (held,) = trace.info.facts["memory"]
    assert held["allocated_bytes"] == sum(one["allocated_size"] for one in content["segments"])
    assert held["reserved_bytes"] == sum(one["total_size"] for one in content["segments"])
    free = [block["size"] for one in content["segments"] for block in one["blocks"] if block["state"] == "inactive"]
    assert (held["free_bytes"], held["largest_free_bytes"]) == (sum(free), max(free))
    assert (held["out_of_memory"], held["asked_bytes"]) == (1, 900 << 20)
    blocks = trace.allocations.collect()
    assert blocks.height == sum(row["action"] == "alloc" for row in content["device_traces"][0])
    assert blocks.filter(pl.col("dur_ns").is_null())["bytes"].sum() == course[-1]
    assert trace.info.warnings == ()


def test_no_setting_of_the_environment_is_kept(samples: Path, tmp_path: Path) -> None:
    trace = load(samples / "memory_snapshot.pickle", tmp_path)
    kept = str(trace.info) + str([trace.table(name).collect().to_dicts() for name in ("allocations", "metrics")])
    assert "never-shown" not in kept and "ALLOC_CONF" not in kept


def test_sums_are_counted_back_from_what_is_held_at_the_end(tmp_path: Path) -> None:
    content = {
        "segments": [segment((1000, 100, "active_allocated"), (1100, 50, "active_allocated"), (1150, 6, "inactive"))],
        "device_traces": [[event("free_requested", 5000, 30, 10), event("alloc", 1100, 50, 20)]],
    }
    trace = load(written(tmp_path, content), tmp_path)
    assert allocated(trace) == [(0, 100.0), (10_000, 150.0)]
    rows = trace.allocations.select("address", "start_ns", "dur_ns", "bytes").sort("address").collect().rows()
    assert rows == [(1000, None, None, 100), (1100, 10_000, None, 50), (5000, None, 0, 30)]


def test_memory_ends_when_that_was_asked_for_and_once(tmp_path: Path) -> None:
    content = {"segments": [], "device_traces": [[
        event("alloc", 1, 8, 1), event("free_requested", 1, 8, 5), event("free_completed", 1, 8, 9),
        event("alloc", 1, 4, 11), event("free_completed", 1, 4, 12),
    ]]}
    trace = load(written(tmp_path, content), tmp_path)
    assert trace.allocations.select("start_ns", "dur_ns", "bytes").collect().rows() == [(0, 4000, 8), (10_000, 1000, 4)]
    assert [value for _, value in allocated(trace)] == [8.0, 0.0, 4.0, 0.0]


def test_a_snapshot_without_history_says_what_is_held(tmp_path: Path) -> None:
    trace = load(written(tmp_path, {"segments": [segment((64, 16, "active_allocated"))]}), tmp_path)
    assert allocated(trace) == [(None, 16.0)] and "has no history" in trace.info.warnings[0]


def test_devices_are_told_apart(tmp_path: Path) -> None:
    content = {
        "segments": [segment((1, 7, "active_allocated"), device=1)],
        "device_traces": [[event("alloc", 1, 5, 1)], [event("alloc", 1, 7, 2)]],
    }
    trace = load(written(tmp_path, content), tmp_path)
    rows = trace.allocations.select(pl.col("device").cast(pl.String), "bytes").sort("device").collect().rows()
    assert rows == [("GPU 0", 5), ("GPU 1", 7)]


def test_stacks_are_kept_innermost_first_and_bounded(tmp_path: Path) -> None:
    frames = [{"filename": f"/a/{at}.py", "line": at + 1, "name": "f" * 2000 if at == 0 else "f\n"} for at in range(99)]
    content = {"device_traces": [[event("alloc", 1, 5, 1, frames=frames)]]}
    (stack,) = load(written(tmp_path, content), tmp_path).allocations.collect()["stack"].to_list()
    lines = stack.split("\n")
    assert len(lines) == 64 and lines[1] == "/a/1.py:2 f"
    assert lines[0].startswith("/a/0.py:1 ff") and len(lines[0]) < 500


class Harm:
    """What runs when a careless program unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("/tmp/warplens-was-here",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_nothing_in_a_pickle_is_ever_called(tmp_path: Path, protocol: int) -> None:
    path = written(tmp_path, {"segments": [Harm()]}, protocol)
    with pytest.raises(Unreadable, match="builds or names objects"):
        load(path, tmp_path)
    assert not Path("/tmp/warplens-was-here").exists()


LISTED = b"\x80\x04]\x94(}\x94\x8c\x08segments\x94"


@pytest.mark.parametrize(("data", "reason"), [
    (b"\x80\x04}\x94(\x8c\x08segments\x94]r\xff\xff\xff\x7fs.", "at positions no pickler"),
    (b"\x80\x04}\x94(\x8c\x08segments\x94\x8b\xff\xff\xff\x7f", "builds or names objects"),
    (b"\x80\x04}\x94(\x8c\x08segments\x94\x8a\x20" + b"\xff" * 32 + b"s.", "more than 64 bits"),
    (b"\x80\x04}\x94(\x8c\x08segments\x94X\xff\xff\xff\x7fab", "in the middle"),
    (b"\x80\x04}\x94(\x8c\x08segments\x94" + b")" + b"\x85" * 100_000 + b"N.", "tuple of something other"),
    (b"\x80\x04}\x94(\x8c\x08segments\x94cos\nsystem\n.", "builds or names objects"),
    (b"\x80\x04\x8c\x08segments\x94K\x01K\x02\x93.", "builds or names objects"),
    (b"\x80\x04}\x94(\x8c\x08segments\x94", "in the middle"),
    (b"\x80\x04\x8c\x08segments\x94.", "not a memory snapshot"),
    (b"\x80\x04}\x94\x8c\x08segments\x94K\x01s.", "without a single block"),
    (b"\x80\x04(\x8c\x08segments\x94u.", "not a valid pickle"),
    (b"\x80\x04\x8c\x08segments\x94h\x07.", "not a valid pickle"),
])
def test_pickles_that_would_do_harm_are_refused_in_a_sentence(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "bad.pickle"
    path.write_bytes(data)
    assert [one.name for one in registry.claims(stream.head(path))] == ["memory-snapshot"]
    with pytest.raises(Unreadable, match=reason) as refused:
        load(path, tmp_path)
    assert "\n" not in str(refused.value)


def test_rows_that_stand_for_millions_are_refused(tmp_path: Path) -> None:
    blocks = [{"size": 1, "state": "inactive"}] * 2000
    path = written(tmp_path, {"segments": [{"blocks": blocks, "address": 1}] * 2000})
    assert path.stat().st_size < 20_000
    with pytest.raises(Unreadable, match="over and over"):
        load(path, tmp_path)


def test_depth_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deep.pickle"
    path.write_bytes(b"\x80\x04}\x94(\x8c\x08segments\x94" + b"]" * 300_000 + b"a" * 299_999 + b"u.")
    with pytest.raises(Unreadable, match="without a single block"):
        load(path, tmp_path)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_containers_come_back_as_they_were(protocol: int) -> None:
    content = {"a": [1, 2.5, None, True, "ü"], "b": {"c": (0, 0), "d": [{}, []]}, "e": 2**63, "f": -5, "g": ()}
    assert plain_pickle.load(pickle.dumps(content, protocol=protocol)) == content


@pytest.mark.parametrize("fewer", [0, 1, 2])
def test_a_tuple_of_numbers_is_all_that_may_be_made_of_one(fewer: int) -> None:
    numbers = b"K\x01" * 2 + b"M\x01\x02" + b"J\1\2\3\4" + b"\x8a\x081234567\0" + b"N\x88"
    for code, size in ((b"\x85", 1), (b"\x86", 2), (b"\x87", 3)):
        plain_pickle.check(b"\x80\x04" + numbers + code + b".")
        for inner in (b")", b"h\0", b"\x8c\x01a", b"]"):  # an empty tuple, something remembered, a text, a list
            few = b"K\x01" * min(fewer, size - 1)
            with pytest.raises(plain_pickle.NotPlain, match="tuple of something other"):
                plain_pickle.check(b"\x80\x04" + inner + few + code + b".")
            with pytest.raises(plain_pickle.NotPlain, match="tuple of something other"):
                plain_pickle.check(b"\x80\x04" + b"K\x01" * size + code + code + b".")


@pytest.mark.parametrize(("size", "index", "passes"), [
    (100, 65_535, True), (100, 65_536, False), (70_000, 131_071, True), (70_000, 131_072, False),
    (17 << 20, (32 << 20) - 1, True), (17 << 20, 32 << 20, False),
])
def test_places_of_the_memo_are_held_to_the_size_of_the_file(size: int, index: int, passes: bool) -> None:
    start = b"\x80\x04}r" + index.to_bytes(4, "little") + b"X" + size.to_bytes(4, "little")
    data = start + b"a" * size + b"."
    if passes:
        plain_pickle.check(data)
    else:
        with pytest.raises(plain_pickle.NotPlain, match="at positions no pickler"):
            plain_pickle.check(data)


def test_every_way_to_end_early_is_said(samples: Path) -> None:
    data = (samples / "memory_snapshot.pickle").read_bytes()
    for end in range(2, len(data) - 1):
        with pytest.raises(plain_pickle.NotPlain, match="in the middle"):
            plain_pickle.check(data[:end])


def test_other_pickles_are_nobodys(tmp_path: Path) -> None:
    path = written(tmp_path, {"state_dict": [1, 2]})
    assert registry.claims(stream.head(path)) == ()


def test_the_sample_is_what_the_script_makes(samples: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_memory", samples / "make_memory.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert pickle.loads((samples / "memory_snapshot.pickle").read_bytes()) == module.snapshot()
