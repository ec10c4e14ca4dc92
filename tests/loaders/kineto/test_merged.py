"""What a file holds of several processes, twice, or without a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.kineto import flows
from warplens.loaders.trace import Trace


def slices(category: str, name: str, pid: Any, tid: Any, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def process(host: Any, device: Any, op: str, late: float = 0, **more: Any) -> list[dict[str, Any]]:
    """Three launches of one process: correlation ids 1 to 3, as in every other."""
    events = []
    for at in range(3):
        events += [
            slices("user_annotation", f"ProfilerStep#{at}", host, 1, at * 100, 90),
            slices("cpu_op", op, host, 1, at * 100 + 10, 50, **{"External id": at + 1}),
            slices("cuda_runtime", "cudaLaunchKernel", host, 1, at * 100 + 20, 5, correlation=at + 1),
            slices("kernel", "gemm", device, 7, at * 100 + 40 + late, 10, correlation=at + 1, device=0,
                   **{"External id": at + 1}, **more),
        ]
    return events


def opened(tmp_path: Path, events: list[dict[str, Any]]) -> Trace:
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    return open_run(str(tmp_path / "trace.json"), use_cache=False)[0]


def ops(trace: Trace) -> list[tuple[int | None, str | None]]:
    names = trace.host.select(pl.col("name").cast(pl.String)).collect()["name"]
    ranks = trace.kernels.select("rank").collect()["rank"]
    return list(zip(ranks, names.gather(trace.account().activities["op"]), strict=True))


def test_labelled_processes_are_ranks(tmp_path: Path) -> None:
    trace = opened(tmp_path, process("[TP00] 83", "[TP00] 0", "mm") + process("[TP01] 83", "[TP01] 0", "bmm"))
    assert ops(trace) == [(0, "mm")] * 3 + [(1, "bmm")] * 3 and trace.info.ranks == (0, 1)
    assert [one["process"] for one in trace.links["processes"]] == ["TP00", "TP01"]
    assert trace.cycles.select("rank").collect()["rank"].to_list() == [0] * 3 + [1] * 3


def test_labels_of_several_numbers_are_ranks_in_the_order_of_the_layout(tmp_path: Path) -> None:
    events = [process(f"[TP0{tp}-PP0{pp}] 9", f"[TP0{tp}-PP0{pp}] 0", f"op{tp}{pp}") for tp in (0, 1) for pp in (0, 1)]
    trace = opened(tmp_path, [one for some in events for one in some])
    assert sorted(set(ops(trace))) == [(0, "op00"), (1, "op10"), (2, "op01"), (3, "op11")]


def test_where_numbers_collide_each_device_goes_to_the_process_whose_calls_precede_its_work(tmp_path: Path) -> None:
    trace = opened(tmp_path, process(700, 900, "mm") + process(701, 901, "bmm"))
    assert ops(trace) == [(0, "mm")] * 3 + [(1, "bmm")] * 3
    assert trace.cycles.select("rank", "cycle").collect().rows() == [(rank, at) for rank in (0, 1) for at in range(3)]


def test_where_no_process_explains_the_work_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="holds events of 2 processes whose numbers collide"):
        opened(tmp_path, process(700, 900, "mm", -1_000) + process(701, 901, "bmm", -1_000))


def test_a_forked_process_or_two_devices_of_one_are_no_ranks(tmp_path: Path) -> None:
    worker = slices("cuda_runtime", "cudaGetDevice", 701, 1, 5, 1, correlation=99)
    second = slices("kernel", "gemm", 1, 7, 60, 10, correlation=2, device=1)
    trace = opened(tmp_path, [*process(700, 0, "mm"), worker, second])
    assert trace.info.ranks == () and len(trace.links["processes"]) == 1


def test_what_is_recorded_twice_counts_once(tmp_path: Path) -> None:
    events = process(700, 0, "mm")
    trace = opened(tmp_path, [*events, *events])
    assert trace.links["repeats"] == 12 and trace.kernels.select(pl.len()).collect().item() == 3
    assert trace.kernels.select("index").collect()["index"].to_list() == [0, 1, 2]
    assert trace.cycles.select(pl.len()).collect().item() == 3
    assert "12 events are recorded twice; counted once" in trace.info.warnings


@pytest.mark.parametrize("zero_ts", [0, 10**9])
def test_an_activity_at_0_without_a_duration_carries_no_time(zero_ts: int, tmp_path: Path) -> None:
    events = [one | {"ts": one["ts"] + zero_ts} for one in process(700, 0, "mm")]
    zero = slices("kernel", "gemm", 0, 7, 0, 0, correlation=8)
    call = slices("cuda_runtime", "cudaLaunchKernel", 700, 1, zero_ts, 1, correlation=8)
    trace = opened(tmp_path, [*events, call, zero])
    again = [open_run(str(tmp_path / "trace.json"))[0] for _ in range(2)]  # written to the cache, and read from it
    for one in (trace, *again):
        assert one.links["timeless"] == 1 and one.links["lost"] == 0
        assert one.kernels.select("start_ns").collect()["start_ns"].to_list() == [40_000, 140_000, 240_000, None]
    assert any("no time" in warning for warning in trace.info.warnings)


@pytest.mark.parametrize("many", [20_000, 0])
@pytest.mark.parametrize("own", [{}, {"correlation": 900}])
def test_a_flow_names_the_call_of_an_activity_whose_correlation_id_no_call_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, int], many: int
) -> None:
    monkeypatch.setattr(flows, "_MANY_FLOWS", many)
    events = process(700, 0, "mm")
    for one in events:
        if one["cat"] == "cuda_runtime":
            one["args"] = one["args"] | {"correlation": one["args"]["correlation"] + 500}
        if one["cat"] == "kernel":
            number, one["args"] = one["args"]["correlation"], own
            end = {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": number, "bp": "e"}
            events = [*events, end | {"pid": 0, "tid": 7, "ts": one["ts"]},
                      end | {"ph": "s", "pid": 700, "tid": 1, "ts": number * 100 - 80}]
    trace = opened(tmp_path, events)
    assert trace.links["call"] == {"flow": 3} and [op for _, op in ops(trace)] == ["mm"] * 3
