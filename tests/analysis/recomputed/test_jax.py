"""Figures of a JAX recording: its JSON says the same as its planes, and both what the JSON's own events add up to."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.recomputed.asked import view_of


@pytest.fixture
def written(data: Path) -> Path:
    return data / "traces/jax_trace_json/934987a2fc2f.trace_viewer.json.gz"


@pytest.fixture
def events(written: Path) -> list[dict[str, Any]]:
    found = json.loads(gzip.decompress(written.read_bytes()))["traceEvents"]
    return [event for event in found if event.get("ph") == "X"]


def test_hlo_ops_have_the_device_time_of_the_activities_that_name_them(
    written: Path, events: list[dict[str, Any]]
) -> None:
    device: Counter[str] = Counter()
    for event in events:
        if event["pid"] == 1 and "kernel_details" in event.get("args", {}):
            device[event["args"]["hlo_op"]] += round(1000 * event["dur"])
    rows = {row["name"]: row for row in view_of(written, "ops").rows}
    assert len(device) == 20
    assert {name: row["device_self_ns"] for name, row in rows.items() if row["device_self_ns"]} == dict(device)
    module = rows["jit_loss_fn:XLA GPU module"]
    assert (module["calls"], module["device_total_ns"]) == (5, sum(device.values()))


def test_the_json_and_the_planes_of_one_recording_say_the_same(written: Path, data: Path) -> None:
    planes = data / "traces/jax_xplane"
    names = ("name", "calls", "device_self_ns", "device_total_ns")
    ops = [{tuple(row[name] for name in names) for row in view_of(path, "ops").rows} for path in (written, planes)]
    assert ops[0] == ops[1] and len(ops[0]) == 21


def test_ranges_have_the_device_time_of_the_calls_made_in_them_though_calls_have_a_thread_of_their_own(
    written: Path, data: Path, events: list[dict[str, Any]]
) -> None:
    called = {event["args"]["correlation_id"]: event["ts"] for event in events if event["tid"] == 7}
    wanted: Counter[str] = Counter()
    for event in events:
        if event["pid"] == 1 and "kernel_details" in event.get("args", {}):
            at = called[event["args"]["correlation_id"]]
            around = {one["name"] for one in events if one["pid"] == 701 and one["tid"] != 7
                      and one["ts"] <= at < one["ts"] + one["dur"]}
            wanted.update({name: round(1000 * event["dur"]) for name in around})
    for path in (written, data / "traces/jax_xplane"):
        rows = {row["name"]: row["device_ns"] for row in view_of(path, "ranges").rows if row["device_ns"]}
        assert len(rows) == 6 and rows == {name: wanted[name] for name in rows}


def test_executions_of_the_program_are_the_cycles(written: Path, events: list[dict[str, Any]]) -> None:
    executed = [event for event in events if event["name"] == "PJRT_LoadedExecutable_Execute"]
    cycles = view_of(written, "cycles").facts["cycles"]
    assert (cycles["source"], cycles["count"]) == ("execution", len(executed))
