"""torch_tb_profiler's own expectation for a raw trace: breakdown, gauges, operators and kernels."""

from __future__ import annotations

import json

import pytest

from warplens.loaders.ingest.opening import open_run

MICROSECOND = 1500
"""The expectation is rounded to µs."""


@pytest.fixture(scope="module")
def golden(data):
    text = (data / "traces/tb_plugin_golden/resnet50_num_workers_0.expected.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def trace(data):
    folder = data / "traces/kineto/tb_plugin/samples/resnet50_num_workers_0"
    return open_run(str(next(folder.glob("worker0.*.gz"))), use_cache=False)[0]


def test_breakdown_and_gauges(golden, trace, asked):
    overview = asked("overview", trace)
    mine = {row["category"]: row["time_ns"] for row in overview.frame.to_dicts()}
    for part in golden[0]["performance"][0]["children"]:
        assert mine[part["name"]] == pytest.approx(part["value"] * 1000, abs=MICROSECOND)
    told = {entry["title"]: entry["value"] for entry in golden[0]["gpu_metrics"]["data"]}
    device = overview.facts["devices"][0]
    for gauge, title in (("utilisation", "GPU Utilization"), ("sm_efficiency", "Est. SM Efficiency"),
                         ("occupancy", "Est. Achieved Occupancy"), ("tensor_share", "Kernel Time using Tensor Cores")):
        assert 100 * device[gauge] == pytest.approx(float(told[title].rstrip(" %")), abs=0.02)


def test_operators(golden, trace, rows_of):
    mine = {row["name"]: row for row in rows_of("ops", trace)}
    assert mine.keys() == {op["name"] for op in golden[2]["data"]}
    for op in golden[2]["data"]:
        row = mine[op["name"]]
        assert (row["calls"], row["tc_eligible"]) == (op["calls"], op["tc_eligible"] == "Yes")
        for ours, theirs in (("device_self_ns", "device_self_duration"), ("device_total_ns", "device_total_duration"),
                             ("host_self_ns", "host_self_duration"), ("host_total_ns", "host_total_duration")):
            assert row[ours] == pytest.approx(op[theirs] * 1000, abs=MICROSECOND)


def test_kernels(golden, trace, rows_of):
    titles = [column["name"] for column in golden[3]["data"]["columns"]]
    mine = {row["name"]: row for row in rows_of("kernels", trace) if row["kind"] == "kernel"}
    theirs = [dict(zip(titles, row, strict=True)) for row in golden[3]["data"]["rows"]]
    assert mine.keys() == {row["Name"] for row in theirs}
    for row in theirs:
        assert mine[row["Name"]]["count"] == row["Calls"]
        assert mine[row["Name"]]["total_ns"] == pytest.approx(row["Total Duration (us)"] * 1000, abs=MICROSECOND)
