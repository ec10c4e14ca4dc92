"""Figures of an Ascend recording, worked out from the tables of its folder with nothing but csv and json."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.analysis.recomputed.asked import view_of


@pytest.fixture
def folder(data: Path) -> Path:
    return data / "traces/ascend/msinsight_level2/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT"


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_types_are_those_of_the_profilers_own_statistic(folder: Path) -> None:
    own = {(row["OP Type"], row["Core Type"]): row for row in table(folder / "op_statistic.csv")}
    rows = view_of(folder, "types").rows
    assert len(rows) == len(own) == 33
    for row in rows:
        want = own[row["op_type"], row["core"]]
        assert row["count"] == int(want["Count"])
        for name, word in (("total_ns", "Total"), ("min_ns", "Min"), ("max_ns", "Max")):  # the trace rounds each launch
            assert row[name] == pytest.approx(1000 * float(want[f"{word} Time(us)"]), abs=row["count"])
        assert 100 * row["share"] == pytest.approx(float(want["Ratio(%)"]), abs=0.001)


def test_what_held_the_peak_is_what_was_allocated_and_not_released(folder: Path) -> None:
    record = [row for row in table(folder / "memory_record.csv") if row["Component"] == "PTA"]
    peak = max(record, key=lambda row: float(row["Total Allocated(MB)"]))
    view = view_of(folder, "memory")
    (device,) = view.facts["devices"]
    assert device["peak_bytes"] == int(float(peak["Total Allocated(MB)"]) * (1 << 20))
    moment, held = float(peak["Timestamp(us)"]), Counter[str]()
    for row in table(folder / "operator_memory.csv"):
        start, end = (row[f"{what} Time(us)"].strip() for what in ("Allocation", "Release"))
        if (not start or float(start) <= moment) and (not end or float(end) > moment) and start:
            held[row["Name"]] += int(float(row["Size(KB)"]) * 1024)
    assert {row["frame"]: row["bytes"] for row in view.rows if not row["frame"].startswith("(")} == dict(held)


def test_collectives_have_the_profilers_transit_wait_and_idle_times(folder: Path) -> None:
    (step,) = json.loads((folder / "communication.json").read_bytes()).values()
    want = {name.partition("@")[0]: one["Communication Time Info"] for name, one in step["collective"].items()
            if not name.startswith("Total")}
    recorded = {one["name"]: one for one in view_of(folder, "collectives").facts["recorded"]}
    assert recorded.keys() == want.keys()
    for name, one in recorded.items():
        for field, word in (("elapsed_ns", "Elapse"), ("transit_ns", "Transit"), ("wait_ns", "Wait"),
                            ("idle_ns", "Idle")):
            assert one[field] == pytest.approx(1e6 * want[name][f"{word} Time(ms)"], abs=1)


def test_the_profilers_own_step_times_are_said_as_they_are(folder: Path) -> None:
    (want,) = table(folder / "step_trace_time.csv")
    (rule,) = [one for one in view_of(folder, "overview").facts["rules"] if one["rule"] == "step trace"]
    assert rule["rows"][0]["computing"] == round(1000 * float(want["Computing"])) == 8_868_240
    assert rule["rows"][0]["free"] == round(1000 * float(want["Free"]))
    assert rule["sentence"].startswith("The profiler's own times of step 50: computing 8.87 ms, communication not")
