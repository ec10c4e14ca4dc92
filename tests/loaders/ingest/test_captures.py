"""Captures of a run's graphs are looked for beside it, and no other trace of the folder is taken for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace


def trace(folder: Path, name: str, *calls: str) -> Path:
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cuda_runtime", "name": call, "pid": 1, "tid": 1, "ts": 10 * at, "dur": 5,
         "args": {"correlation": at + 1}} for at, call in enumerate(calls)]
    events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 100, "dur": 5,
                   "args": {"correlation": 1, "device": 0}})
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"traceEvents": events}))
    return folder / name


def captures_of(path: Path, **options: Any) -> list[str] | None:
    run = open_run(str(path), use_cache=False, **options)[0]
    if run.captures is None:
        return None
    return [Path(one.info.source if isinstance(one, Trace) else one.path).name for one in run.captures()]


def test_a_trace_of_the_folder_that_begins_a_stream_capture_is_tried_for_a_run_that_replays_graphs(
    tmp_path: Path
) -> None:
    replay = trace(tmp_path, "replay.json", "cudaGraphLaunch")
    trace(tmp_path, "other.json", "cudaLaunchKernel")
    assert captures_of(replay) is None
    capture = trace(tmp_path, "warm_up.json", "cudaStreamBeginCapture", "cudaLaunchKernel", "cudaStreamEndCapture")
    assert captures_of(replay) == ["warm_up.json"]
    assert captures_of(capture) is None, "it replays none"


def test_the_folder_of_captures_is_read_in_order_of_file_and_a_named_one_takes_its_place(tmp_path: Path) -> None:
    run = trace(tmp_path, "run.json", "cudaGraphLaunch")
    for name in ("b.json", "a.json"):
        trace(tmp_path / "capture_traces", name, "cudaLaunchKernel")
    assert captures_of(run) == ["a.json", "b.json"]
    assert captures_of(run, capture=str(tmp_path / "capture_traces/b.json")) == ["b.json"]


def test_what_cannot_be_read_is_one_of_the_captures_with_its_error(tmp_path: Path) -> None:
    run = trace(tmp_path, "run.json", "cudaGraphLaunch")
    (tmp_path / "capture_traces").mkdir()
    (tmp_path / "capture_traces/a.json").write_text("nothing")
    read = open_run(str(run), use_cache=False)[0].captures
    assert read is not None and [type(one) for one in read()] == [Unreadable]
