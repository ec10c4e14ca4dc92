"""The view of memory: the peak, what held it by line, what was free, two runs against one another."""

from __future__ import annotations

import json
import pickle
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.details.row_details import details
from warplens.analysis.memory.allocators import BEFORE, UNKNOWN, is_library, user_frame
from warplens.analysis.memory.peaks import memory_of
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.views import view
from warplens.loaders import schema
from warplens.loaders.ingest.call_tree import deferred
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Info, Trace

Block = tuple[int | None, int | None, int, str | None]
"""Start, duration, bytes and stack."""


def run_of(*blocks: Block, device: str = "GPU 0", label: str = "run") -> Trace:
    frame = pl.DataFrame(
        [(*block, device) for block in blocks], orient="row",
        schema={"start_ns": pl.Int64, "dur_ns": pl.Int64, "bytes": pl.Int64, "stack": pl.String, "device": pl.String},
    )
    return Trace(Info(label, label, "memory-snapshot"), allocations=schema.conform("allocations", frame.lazy()))


def rows(table: Table) -> list[dict[str, Any]]:
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.window(0, len(table))]


@pytest.mark.parametrize(("stack", "frame"), [
    ("?? at::empty\n/x/site-packages/torch/nn/linear.py:5 forward\n/home/me/model.py:42 forward\n/home/me/train.py:1 m",
     "/home/me/model.py:42 forward"),
    ("/x/torch/a.py:5 f\n/y/torch/b.py:6 g", None), (None, UNKNOWN), ("", UNKNOWN),
    ("?? torch::unwind::unwind()\n?? c10::cuda::CUDACachingAllocator::malloc\n?? at::_ops::bmm::call(at::Tensor)\n"
     "?? torch::autograd::generated::BmmBackward0::apply\n/x/site-packages/torch/a.py:5 backward", "BmmBackward0"),
    ("?? c10::Allocator\n?? at::_ops::zeros_like::call(at::Tensor const&)", "zeros_like"),
    ("aten::empty", "aten::empty"),
    ("alloc.cpp:3 f\n<frozen runpy>:1 g\nmain.py:2 h", "main.py:2 h"),
])
def test_the_line_that_asked_is_the_innermost_that_is_no_librarys(stack: str | None, frame: str | None) -> None:
    assert user_frame(stack) == frame


def test_the_peak_is_what_was_held_together() -> None:
    run = run_of(
        (None, 50, 100, "a.py:1 f"), (10, 20, 40, "b.py:2 g"), (20, None, 30, "b.py:2 g"), (60, None, 90, None)
    )
    memory = memory_of(run)
    assert [(one.bytes, one.at_ns) for one in memory.peaks] == [(170, 20)]
    assert memory.rows.select("frame", "bytes", "count", "largest_bytes").rows() == [
        ("a.py:1 f", 100, 1, 100), ("b.py:2 g", 70, 2, 40)]
    assert memory.rows["share"].sum() == pytest.approx(1.0)


def test_a_block_of_unknown_size_is_in_no_sum() -> None:
    blocks: list[Any] = [(0, None, 100, "a.py:1 f"), (0, None, None, "a.py:1 f"), (0, None, None, "b.py:2 g")]
    memory = memory_of(run_of(*blocks))
    assert (memory.peaks[0].bytes, memory.sizeless) == (100, (2, 3))
    assert dict(memory.rows.select("frame", "bytes").rows()) == {"a.py:1 f": 100, "b.py:2 g": None}
    assert memory_of(run_of(blocks[1])).peaks == ()


def test_what_each_line_held_over_time_is_the_most_of_each_part() -> None:
    run = run_of((None, 47, 100, "a.py:1 f"), (10, 20, 40, "b.py:2 g"), (20, None, 30, "b.py:2 g"))
    held = dict(memory_of(run).rows.select("frame", "held").rows())
    assert held["a.py:1 f"] == [100] * 24  # of 2 ns each, the last from 46
    assert held["b.py:2 g"] == [*[0] * 5, *[40] * 5, *[70] * 5, *[30] * 9]
    assert memory_of(run).rows["most_bytes"].to_list() == [100, 70]


def test_what_ends_as_another_begins_was_not_held_with_it() -> None:
    assert memory_of(run_of((0, 10, 5, None), (10, 10, 6, None))).peaks[0].bytes == 6


@given(st.lists(st.tuples(st.none() | st.integers(0, 30), st.none() | st.integers(0, 20), st.integers(0, 9), st.none()),
                min_size=1, max_size=12))
def test_the_peak_is_the_largest_of_all_moments(blocks: list[Block]) -> None:
    def held(moment: int) -> int:
        return sum(
            size for start, length, size, _ in blocks
            if (-1 if start is None else start) <= moment
            and (length is None or max(0, -1 if start is None else start) + length > moment)
        )

    assert memory_of(run_of(*blocks)).peaks[0].bytes == max(held(moment) for moment in range(-1, 60))


def test_the_sample_says_its_peak_and_what_would_not_fit(samples: Path) -> None:
    (run,) = open_run(str(samples / "memory_snapshot.pickle"), use_cache=False)
    table = ask(view("memory"), (run,))
    assert [(row["frame"], row["count"]) for row in rows(table)] == [
        ("/home/me/train.py:61 build", 1), ("/home/me/model.py:42 forward", 4), ("/home/me/train.py:97 log_loss", 3)]
    (device,) = table.facts["devices"]
    assert device["peak_bytes"] == sum(row["bytes"] for row in rows(table)) == (400 + 240 + 90 << 20) - 100
    assert table.summary[1] == (
        "GPU 0: out of memory at 5.67 ms: /home/me/model.py:42 forward requested 900.0 MiB; 96.0 MiB free on the "
        "device, 1.0 GiB free in 2 segments, the largest block 512.0 MiB: fragmented; expandable_segments:True would "
        "join them.")
    assert "never-shown" not in str(table.facts) + str(rows(table))


def test_figures_of_a_snapshot_are_those_of_its_own_records(samples: Path) -> None:
    recorded = pickle.loads((samples / "memory_snapshot.pickle").read_bytes())
    (run,) = open_run(str(samples / "memory_snapshot.pickle"), use_cache=False)
    (device,) = ask(view("memory"), (run,)).facts["devices"]
    blocks = [block for segment in recorded["segments"] for block in segment["blocks"]]
    free = [block["size"] for block in blocks if block["state"] == "inactive"]
    used = [block for block in blocks if block["state"] == "active_allocated"]
    (failed,) = [event for event in recorded["device_traces"][0] if event["action"] == "oom"]
    first = min(event["time_us"] for event in recorded["device_traces"][0])
    assert {name: device[name] for name in (
        "reserved_bytes", "free_bytes", "largest_free_bytes", "allocated_bytes", "requested_bytes", "segments",
        "asked_bytes", "device_free_bytes")} == {
        "reserved_bytes": sum(segment["total_size"] for segment in recorded["segments"]), "free_bytes": sum(free),
        "largest_free_bytes": max(free), "allocated_bytes": sum(block["size"] for block in used),
        "requested_bytes": sum(block["requested_size"] for block in used), "segments": len(recorded["segments"]),
        "asked_bytes": failed["size"], "device_free_bytes": failed["device_free"]}
    assert device["failures"][0]["at_ns"] == (failed["time_us"] - first) * 1000
    by_size = sorted(recorded["segments"], key=lambda one: -one["total_size"])
    assert [one["free_bytes"] for one in device["largest_segments"]] == [
        sum(block["size"] for block in segment["blocks"] if block["state"] == "inactive") for segment in by_size]


def test_a_row_opens_into_its_stack_and_the_segments(samples: Path) -> None:
    (run,) = open_run(str(samples / "memory_snapshot.pickle"), use_cache=False)
    stack, segments = details(view("memory"), ask(view("memory"), (run,)), 0, (run,), Options()).sections[1:3]
    assert stack.title == "Stack, innermost first"
    assert segments.title == "Segments of GPU 0" and [row[0] for row in segments.rows] == ["1.0 GiB", "512.0 MiB"]
    assert segments.rows[1][1] == "█" * 18 + "▆" + "·" * 5  # 400 of 512 MiB


def test_sums_of_a_trace_give_peak_moment_and_what_ran(data: Path) -> None:
    path = data / "traces/kineto/aiperf_deepseek_v3_trace.json"
    most: dict[str, int] = defaultdict(int)
    for event in json.loads(path.read_bytes())["traceEvents"]:
        if event.get("name") == "[memory]":
            args = event["args"]
            device = "Host" if args["Device Type"] == 0 else f"GPU {args['Device Id']}"
            most[device] = max(most[device], args["Total Allocated"])
    (run,) = open_run(str(path), use_cache=False)
    table = ask(view("memory"), (run,))
    peaks = {device: sum(row["bytes"] for row in rows(table) if str(row["device"]) == device) for device in most}
    assert peaks == dict(most)
    assert rows(table)[0]["during"].startswith("aten::") and rows(table)[0]["frame"] == BEFORE and not table.notes


def test_what_holds_the_peak_of_a_trace_is_told_by_the_slices_around_each_allocation(data: Path) -> None:
    path = data / "traces/kineto/aiperf_deepseek_v3_trace.json"
    events = json.loads(path.read_bytes(), parse_float=Decimal)["traceEvents"]
    instants = [e for e in events if e.get("name") == "[memory]" and e["args"]["Device Type"] == 1]
    instants.sort(key=lambda e: e["ts"])  # threads write theirs one after the other
    peak = max(instants, key=lambda e: e["args"]["Total Allocated"])
    held: dict[int, dict[str, Any]] = {}
    for event in instants[: instants.index(peak) + 1]:
        held.pop(event["args"]["Addr"], None)
        if event["args"]["Bytes"] > 0:
            held[event["args"]["Addr"]] = event
    want: Counter[str] = Counter()
    for block in held.values():
        around = [
            e for e in events if e.get("cat") in ("python_function", "cpu_op") and e["tid"] == block["tid"]
            and e["ts"] <= block["ts"] <= e["ts"] + e["dur"]
        ]
        lines = [e for e in around if e["cat"] == "python_function" and not is_library(e["name"])]
        operators = [e for e in around if e["cat"] == "cpu_op"]
        inner = min(lines, key=lambda e: e["dur"]) if lines else max(operators, key=lambda e: e["dur"])
        want[inner["name"]] += block["args"]["Bytes"]
    (run,) = open_run(str(path), use_cache=False)
    table = ask(view("memory"), (run,))
    found = {row["frame"]: row["bytes"] for row in rows(table) if row["frame"] != BEFORE and row["device"] == "GPU 0"}
    assert len(want) > 10 and found == want


def test_without_lines_the_operator_that_the_program_called_asked() -> None:
    host = pl.DataFrame({
        "start_ns": [0, 10, 12, 50], "dur_ns": [100, 20, 5, 40], "name": ["step", "aten::linear", "aten::addmm", "x"],
        "kind": ["annotation", "op", "op", "op"], "pid": [1] * 4, "tid": [3] * 4,
    })
    blocks = pl.DataFrame({
        "start_ns": [14, 20, 40, 14], "bytes": [8, 16, 32, 64], "pid": [1] * 4, "tid": [3, 3, 3, 4],
        "device": ["GPU 0"] * 4, "address": [1, 2, 3, 4],
    })
    run = Trace(Info("x", "x", "t")).with_tables(
        host=schema.conform("host", host.lazy()), allocations=schema.conform("allocations", blocks.lazy())
    )
    memory = memory_of(deferred(run))
    assert memory.rows.select("frame", "bytes", "stack").rows() == [
        (UNKNOWN, 64, None), ("step", 32, "step"), ("aten::linear", 24, "aten::linear\nstep"),
    ]


def test_two_runs_show_which_line_holds_more() -> None:
    a = run_of((0, None, 100, "a.py:1 f"), (0, None, 50, "b.py:2 g"))
    b = run_of((0, None, 100, "a.py:1 f"), (0, None, 90, "b.py:2 g"), (5, None, 10, "c.py:3 h"), label="other")
    table = ask(view("memory"), (a, b))
    assert [(row["frame"], row["bytes_a"], row["bytes_b"], row["bytes_delta"]) for row in rows(table)] == [
        ("b.py:2 g", 50, 90, 40), ("c.py:3 h", 0, 10, 10), ("a.py:1 f", 100, 100, 0)]
    assert table.summary[0] == "GPU 0: peak 150 B → 200 B (+50 B, +33.3%)"


def test_of_two_runs_the_one_that_recorded_no_memory_held_an_unknown_amount() -> None:
    table = ask(view("memory"), (run_of(), run_of((0, None, 100, "a.py:1 f"), label="other")))
    (row,) = rows(table)
    assert (row["bytes_a"], row["bytes_b"], row["bytes_delta"]) == (None, 100, None)
    assert table.notes == ("A: No memory was recorded.",)


def test_one_rank_of_each_run_is_compared_whatever_its_number() -> None:
    a, b = (run.with_tables(allocations=run.allocations.with_columns(rank=pl.lit(rank, pl.Int64))) for rank, run in (
        (3, run_of((0, None, 100, "a.py:1 f"))), (0, run_of((0, None, 150, "a.py:1 f"), label="other"))))
    table = ask(view("memory"), (a, b))
    assert [(row["frame"], row["bytes_a"], row["bytes_b"]) for row in rows(table)] == [("a.py:1 f", 100, 150)]
    assert table.summary[0] == "rank 3 GPU 0: peak 100 B → 150 B (+50 B, +50.0%)"


def test_a_window_takes_what_was_held_in_it() -> None:
    run = run_of((None, 15, 100, None), (0, 5, 1000, None), (18, None, 30, None))
    run = run.with_tables(metrics=schema.conform("metrics", pl.DataFrame({"ts_ns": [12]}).lazy()))
    table = ask(view("memory"), (run,), Options(from_ns=10, to_ns=17))
    assert table.facts["devices"][0]["peak_bytes"] == 100


def test_who_asked_before_a_window_is_not_told_by_what_runs_in_it() -> None:
    where = {"pid": [1], "tid": [3]}
    host = pl.DataFrame({"start_ns": [10], "dur_ns": [50], "name": ["aten::add"], "kind": ["op"], **where})
    blocks = pl.concat(
        pl.DataFrame({"start_ns": [start], "bytes": [size], "device": ["GPU 0"], **where})
        for start, size in ((5, 64), (20, 32))
    )
    run = deferred(Trace(Info("x", "x", "t")).with_tables(
        host=schema.conform("host", host.lazy()), allocations=schema.conform("allocations", blocks.lazy())
    ))
    table = ask(view("memory"), (run,), Options(from_ns=10))
    assert [(row["frame"], row["bytes"]) for row in rows(table)] == [(UNKNOWN, 64), ("aten::add", 32)]


def test_a_run_without_memory_says_what_would_have_it() -> None:
    with pytest.raises(CannotAnswer, match="memory snapshot"):
        ask(view("memory"), (Trace(Info("x", "x", "kineto")),))


def test_changes_of_memory_alone_give_no_peak() -> None:
    """PyTorch 1.8 wrote the bytes of each change, recorded with profile_memory=True, and neither address nor total."""
    one = pl.DataFrame({"ts_ns": [1], "metric": ["memory change"], "device": ["GPU 0"], "value": [64.0]})
    run = Trace(Info("x", "old", "kineto")).with_tables(metrics=schema.conform("metrics", one.lazy()))
    with pytest.raises(CannotAnswer, match=r"^old holds changes of memory without addresses or totals"):
        ask(view("memory"), (run, Trace(Info("x", "x", "kineto"))))


def test_a_snapshot_beside_a_trace_is_on_its_clock(tmp_path: Path, samples: Path) -> None:
    first = 1_772_460_450_250_137
    events = [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 9000,
               "args": {"device": 0, "stream": 7}}]
    (tmp_path / "run.pt.trace.json").write_text(json.dumps({
        "schemaVersion": 1, "baseTimeNanoseconds": (first - 1000) * 1000, "traceEvents": events}))
    (tmp_path / "memory.pickle").write_bytes((samples / "memory_snapshot.pickle").read_bytes())
    (run,) = open_run(str(tmp_path), use_cache=False)
    (device,) = ask(view("memory"), (run,)).facts["devices"]
    assert device["peak_ns"] == 1_000_000 + 4_521_000 and device["asked_bytes"] == 900 << 20
