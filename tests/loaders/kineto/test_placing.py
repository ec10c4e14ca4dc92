"""Slices whose meaning depends on their process: the compiled reader takes them in stretches, the plain one alone."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from kineto_reading import Reading, read

META = [
    {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for pid, name in (
        (1, "python"), (2, "/device:GPU:0"), (3, "/device:TPU:1"), (4, "Ascend Hardware"), (5, "HCCL"),
        (6, "Overlap Analysis"), (9, "GPU9"))
] + [
    {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}} for pid, tid, name in (
        (2, 7, "Stream #7(Compute)"), (2, 8, "Steps"), (2, 9, "XLA Ops"), (3, 1, "XLA Ops"), (3, 2, "Steps"),
        (5, 1, "Group 0"), (5, 2, "Plane 0"))
]
NUMBERS = [5, "7", -1, 2**63 + 5, None, 1.5, 3.0, [1], True, "x"]


def slices(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Slices in any spelling: without a category, as begin and end, with values that need care."""
    out = []
    for place in range(count):
        args: dict[str, Any] = {rng.choice(["correlation_id", "connection_id", "correlation"]): rng.choice(NUMBERS)}
        args[rng.choice(["Task Type", "desc", "kernel_details"])] = rng.choice([
            "KERNEL_AICORE", "SDMA", "MEMSET_x", "EVENT_RECORD", "UserMarker frame", "Copy", "Barrier", "", "ü\n",
            "regs:32 grid:1,02,3 block:128,1,1 occ_pct:50", "regs:32 occ_pct:0", 5, None, {"a": [1]}])
        args[rng.choice(["data size(Byte)", "est. achieved occupancy %", "bytes", "stream"])] = rng.choice(NUMBERS)
        event = {"ph": rng.choice("XXXBBEE"), "name": rng.choice(["k", "memcpy", "MEMSET", "$f.py", "cudaX", "hcom_x",
                 "step 4", 5, None]), "pid": rng.choice([1, 2, 2, 3, 4, 5, 6, 9, "2", "host"]),
                 "tid": rng.choice([1, 2, 7, 7, 8, 9, "7", "stream 3"]), "ts": rng.choice([place, f"{place}.5", None]),
                 "args": args}
        if event["ph"] == "X":
            event["dur"] = rng.choice([3, 0.25, -1, None])
        if rng.random() < 0.3:
            event["cat"] = rng.choice(["kernel", "cpu_op", "", None, "step", "cuda_profiler_range", "odd"])
        if rng.random() < 0.05:
            event = {"ph": rng.choice("sCi"), "name": "c", "pid": 1, "ts": place, "args": {"v": 1}}
        out.append(event)
    return out


def facts(reading: Reading) -> tuple[Any, ...]:
    reading.metrics.sort(key=str)  # profiler ranges come when their block has been read
    return (*reading.rows(), reading.tally.repaired, reading.tally.events, reading.ignored)


@pytest.mark.parametrize("seed", range(12))
def test_both_readers_place_slices_alike(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    events = slices(rng, rng.choice((30, 400)))
    events[rng.choice((0, len(events))) : 0] = META
    text = json.dumps({"traceEvents": events}, indent=rng.choice([None, 1])).encode()
    if seed % 2:
        text = text.replace(b"1.5", rng.choice([b"NaN", b"-Infinity", b"inf"]))
    plain = read(text, tmp_path, compiled=False, block=1 << 20)
    for block in (300, 1 << 20):
        assert facts(read(text, tmp_path, compiled=True, block=block)) == facts(plain)
    assert len(events) < 200 or (plain.kernels and plain.host and plain.cycles)


def test_begins_wait_for_their_end_over_any_distance(tmp_path: Path) -> None:
    begins = [{"ph": "B", "cat": "kernel", "name": f"k{i}", "pid": 0, "tid": 7, "ts": i} for i in range(40)]
    ends = [{"ph": "E", "pid": 0, "tid": 7, "ts": 100 + i} for i in range(41)]
    between = [{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 50, "dur": 1}] * 9
    text = json.dumps([*begins, *between, *ends, begins[0]]).encode()
    for compiled in (False, True):
        reading = read(text, tmp_path, compiled=compiled, block=400)
        first = reading.kernels[0]
        assert len(reading.kernels) == 40 and (first[1], first[2]) == (61_000, "k39")
        assert (reading.ignored["ends without a begin"], reading.ignored["begins without an end"]) == (1, 1)


def test_unbounded_numbers_need_no_reading_alone(tmp_path: Path) -> None:
    event = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"blocks per SM":NaN,"x":-inf}}'
    reading = read(f"[{','.join([event] * 50)}]".encode(), tmp_path, compiled=True, block=1 << 20)
    assert len(reading.kernels) == 50 and reading.tally.repaired == 50 and reading.tally.odd == 0


def test_a_slice_that_cannot_be_decoded_is_left_out(tmp_path: Path) -> None:
    good = '{"ph":"B","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1},{"ph":"E","pid":0,"tid":7,"ts":2}'
    bad = '{"ph":"B","pid":0,"tid":7,"ts":1,"args":{"desc":1.2.3}}'
    reading = read(f"[{','.join([good, bad] * 9)}]".encode(), tmp_path, compiled=True, block=1 << 20)
    assert len(reading.kernels) == 9 and reading.broken == 9
