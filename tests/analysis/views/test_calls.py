"""The host calls view: how long calls take, and which of them wait for a device."""

from __future__ import annotations

from typing import Any

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.details.row_details import details
from warplens.analysis.views import view


def call(name: str, start: int, dur: int, kind: str = "runtime", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "start_ns": start, "dur_ns": dur, "pid": 1, "tid": 1, **more}


def copied(correlation: int, start: int, dur: int, name: str) -> dict[str, Any]:
    return {"name": name, "kind": "memcpy", "start_ns": start, "dur_ns": dur, "device": "GPU 0",
            "correlation": correlation}


def by_name(table: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in table.frame.to_dicts()}


def test_times_of_calls_and_of_calls_inside_them(run_of, asked):
    host = [call("cudaLaunchKernel", 0, 10), call("cuLaunchKernel", 2, 4, "driver"), call("cudaLaunchKernel", 20, 30)]
    rows = by_name(asked("calls", run_of(host=host)))
    runtime = rows["cudaLaunchKernel"]
    assert (runtime["count"], runtime["total_ns"], runtime["self_ns"]) == (2, 40, 36)
    assert (runtime["p50_ns"], runtime["p99_ns"], runtime["max_ns"], runtime["mean_ns"]) == (10, 30, 30, 20.0)
    assert (rows["cuLaunchKernel"]["kind"], rows["cuLaunchKernel"]["total_ns"]) == ("driver", 4)


def test_the_version_nsight_adds_does_not_part_a_function(run_of, asked):
    host = [call("cudaMalloc_v3020", 0, 10), call("cudaMalloc", 20, 5), call("cudaStreamGetCaptureInfo_v2", 30, 1)]
    rows = by_name(asked("calls", run_of(host=host)))
    assert (rows["cudaMalloc"]["count"], rows["cudaMalloc"]["total_ns"]) == (2, 15)
    assert "cudaStreamGetCaptureInfo_v2" in rows


def test_calls_that_return_when_the_device_is_done_are_waiting(run_of, asked):
    host = [call("cudaDeviceSynchronize", 0, 10), call("cudaMemcpy", 20, 5), call("cudaStreamWaitEvent", 30, 3),
            call("cudaMemcpyAsync", 40, 8)]
    rows = by_name(asked("calls", run_of(host=host)))
    assert {name: row["sync_ns"] for name, row in rows.items()} == {
        "cudaDeviceSynchronize": 10, "cudaMemcpy": 5, "cudaStreamWaitEvent": 0, "cudaMemcpyAsync": 0,
    }
    assert rows["cudaDeviceSynchronize"]["purpose"] == "wait"


def test_an_asynchronous_copy_of_pageable_memory_that_was_over_at_its_return_was_waited_for(run_of, asked):
    host = [call("cudaMemcpyAsync", 0, 100, correlation=1), call("cudaMemcpyAsync", 200, 10, correlation=2),
            call("cudaMemcpyAsync", 300, 100, correlation=3)]
    kernels = [copied(1, 50, 20, "Memcpy DtoH (Device -> Pageable)"),
               copied(2, 205, 20, "Memcpy DtoH (Device -> Pageable)"),  # still running when the call returned
               copied(3, 310, 20, "Memcpy DtoH (Device -> Pinned)")]
    row = by_name(asked("calls", run_of(host=host, kernels=kernels)))["cudaMemcpyAsync"]
    assert (row["sync_ns"], row["total_ns"], row["launches"], row["purpose"]) == (100, 210, 3, "copy")


def test_a_launch_call_of_which_no_activity_is_recorded_is_a_launch(run_of, asked):
    host = [call("hipLaunchKernel", 0, 10, correlation=1), call("hipModuleLaunchKernel", 20, 10, correlation=2)]
    kernels = [{"name": "gemm", "start_ns": 15, "dur_ns": 5, "device": "GPU 0", "correlation": 1}]
    rows = by_name(asked("calls", run_of(host=host, kernels=kernels)))
    assert {(row["purpose"], row["launches"]) for row in rows.values()} == {("launch", 1), ("launch", 0)}


def test_what_the_scheduler_did_is_no_call_and_system_calls_have_no_self_time(run_of, asked):
    rows = by_name(asked("calls", run_of(host=[call("on CPU", 0, 10, "sched"), call("poll", 0, 7, "sched")])))
    assert list(rows) == ["poll"]
    assert (rows["poll"]["purpose"], rows["poll"]["self_ns"]) == ("system", None)


def test_a_recording_without_calls_says_so(run_of, asked):
    with pytest.raises(CannotAnswer, match="holds no calls"):
        asked("calls", run_of(host=[call("aten::mm", 0, 1, "op")]))


def test_two_runs_pair_by_function_and_layer(run_of, asked):
    a, b = (run_of(label, host=[call(name, 0, dur)]) for label, name, dur in (
        ("a", "cudaMalloc_v3020", 10), ("b", "cudaMalloc_v12000", 25)))
    row = asked("calls", a, b).frame.row(0, named=True)
    assert (row["name"], row["total_ns_a"], row["total_ns_b"], row["total_ns_delta"]) == ("cudaMalloc", 10, 25, 15)


def test_the_details_say_who_called(run_of, asked):
    host = [call("aten::item", 0, 100, "op"), call("cudaStreamSynchronize_v3020", 10, 60),
            call("cudaStreamSynchronize_v3020", 200, 5)]
    run = run_of(host=host)
    table = asked("calls", run)
    sections = {one.title: one.rows for one in details(view("calls"), table, 0, (run,), Options()).sections}
    assert sections["Called from"] == (("aten::item", "1", "60 ns"), ("nothing recorded around it", "1", "5 ns"))
    assert len(sections["Longest calls"]) == 2


def test_a_call_without_a_duration_counts_and_is_in_no_sum(run_of, asked):
    host = [call("cudaMalloc", 0, 10), call("cudaMalloc", 20, None), call("cudaFree", 40, None)]
    table = asked("calls", run_of(host=host))
    rows = by_name(table)
    known = rows["cudaMalloc"]
    assert (known["count"], known["total_ns"], known["mean_ns"], known["p50_ns"]) == (2, 10, 10.0, 10)
    unknown = rows["cudaFree"]
    assert unknown["count"] == 1 and all(unknown[name] is None for name in (
        "total_ns", "self_ns", "sync_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns", "trend"))
    assert "2 of 3 calls have no time: they count, and are in no sum, mean or percentile." in table.notes


def test_tables_of_calls_that_are_not_read_are_named(run_of, asked):
    run = run_of(host=[call("cudaMalloc", 0, 10)])
    run.info.facts["tables"] = [("OPENACC_LAUNCH_EVENTS", 12, False), ("NET_NIC_METRIC", 8, False)]
    assert asked("calls", run).notes == ("OPENACC_LAUNCH_EVENTS: 12 rows of the recording are not read",)
