"""Backward operators without sequence numbers find their forward operator by the profiler's arrows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from kineto_reading import read

from warplens.analysis.core.callers import callers_of
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.kineto import flows
from warplens.loaders.trace import Trace


def slices(pid: int, correlation: int) -> list[dict[str, Any]]:
    """A forward operator, its backward one on another thread with a kernel, and the arrow between them."""
    def one(cat: str, name: str, ts: float, dur: float, tid: int, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}

    arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": pid, "args": {"rank": pid}}
    return [
        one("cpu_op", f"aten::linear_{pid}", 10.125, 5, 1, rank=pid),
        one("cpu_op", "aten::addmm", 11.5, 2, 1, rank=pid),
        one("cpu_op", "AddmmBackward0", 40.75, 9, 2, rank=pid),
        one("cuda_runtime", "cudaLaunchKernel", 41, 2, 2, correlation=correlation, rank=pid),
        one("kernel", "gemm", 50, 7, 7, device=0, stream=7, correlation=correlation, rank=pid),
        {**arrow, "ph": "s", "tid": 1, "ts": 10.125}, {**arrow, "ph": "f", "bp": "e", "tid": 2, "ts": 40.75},
        {**arrow, "ph": "s", "id": 2, "tid": 1, "ts": 11.5},
    ]  # fmt: skip


def opened(path: Path) -> Trace:
    return open_run(str(path), use_cache=False)[0]


def forward(run: Trace) -> list[str | None]:
    callers = callers_of(run)
    assert callers is not None
    return callers.frame["op_forward"].cast(pl.String).to_list()


def test_an_arrow_leads_to_the_forward_operator_though_each_process_counts_its_own(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": slices(4, 101) + slices(5, 202)}, indent=1))
    assert forward(opened(path)) == ["aten::linear_4", "aten::linear_5"]


def test_sequence_numbers_come_first(tmp_path: Path) -> None:
    events = slices(4, 101)
    for event in events:
        if event["name"] in ("aten::addmm", "AddmmBackward0"):
            event["args"]["Sequence number"] = 12
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    assert forward(opened(path)) == ["aten::addmm"]


def test_arrows_say_what_the_numbers_of_a_recording_say(data: Path, tmp_path: Path) -> None:
    recording = data / "traces" / "kineto" / "hta" / "nccl_parser_config" / "nccl_data.json.gz"
    text = gzip.decompress(recording.read_bytes())
    without = tmp_path / "without.json"
    without.write_bytes(text.replace(b'"Sequence number"', b'"sequence removed"'))
    pairs = list(zip(forward(opened(recording)), forward(opened(without)), strict=True))
    assert sum(arrow is not None for _, arrow in pairs) > 1_000
    assert all(number == arrow for number, arrow in pairs if arrow is not None)


@pytest.mark.parametrize("compiled", [False, True])
def test_arrows_are_known_to_be_there_wherever_they_stand(compiled: bool, tmp_path: Path) -> None:
    events = slices(4, 101)
    rows, arrows = events[:-3], events[-3:]
    for order in (events, arrows + rows, rows * 20 + arrows * 20, [rows[0], arrows[1]]):
        text = json.dumps({"traceEvents": order}).encode()
        assert "fwdbwd" in read(text, tmp_path, compiled=compiled, block=1000).texts
        assert "fwdbwd" not in read(text.replace(b"fwdbwd", b"ac2g"), tmp_path, compiled=compiled, block=1000).texts


def test_a_recording_without_such_arrows_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any, **named: Any) -> None:
        raise AssertionError("it was read again")

    monkeypatch.setattr(flows, "_events", never)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": slices(4, 101)}).replace("fwdbwd", "ac2g"))
    assert forward(opened(path)) == [None]
