"""The copies view: direction, memory, bytes and rates of what was moved."""

from __future__ import annotations

from typing import Any

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.core.copies import direction, memory
from warplens.analysis.details.row_details import details
from warplens.analysis.views import view


@pytest.mark.parametrize(("name", "where", "place"), [
    ("Memcpy HtoD (Pageable -> Device)", "H2D", "pageable"),
    ("Memcpy DtoH (Device -> Pinned)", "D2H", "pinned"),
    ("Memcpy DtoD (Device -> Device)", "D2D", None),
    ("Memcpy PtoP (Device -> Device)", "P2P", None),
    ("Memcpy HtoH (Pinned -> Pinned)", "H2H", "pinned"),
    ("[CUDA memcpy Host-to-Device]", "H2D", None),
    ("[CUDA memcpy Device-to-Device]", "D2D", None),
    ("[CUDA memcpy Peer-to-Peer]", "P2P", None),
    ("CopyDeviceToHost", "D2H", None),
    ("CopyHostToDevice", "H2D", None),
    ("MEMORY_COPY_DEVICE_TO_DEVICE", "D2D", None),
    ("MEMORY_COPY_HOST_TO_DEVICE", "H2D", None),
    ("hipMemcpyDtoHAsync", "D2H", None),
    ("MemcpyH2D", "H2D", None),
    ("MemcpyD2D", "D2D", None),
    ("Memcpy", None, None),
    ("Memcpy Unified (Managed -> Managed)", "H2H", "managed"),
    ("threaded copy", None, None),
])
def test_names_of_copies_say_direction_and_memory(name, where, place):
    assert (direction(name), memory(name)) == (where, place)


def moved(name: str, dur: int | None, size: int | None, start: int = 0, kind: str = "memcpy", **more: Any) -> dict:
    return {"name": name, "kind": kind, "start_ns": start, "dur_ns": dur, "bytes": size, "device": "GPU 0", **more}


UP, DOWN = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pageable)"


def test_sums_and_rates_by_direction(run_of, asked):
    kernels = [moved(UP, 100, 1000), moved(UP, 100, 3000, 200), moved(UP, 200, 1000, 400), moved(DOWN, 50, None, 700),
               moved("Memset (Device)", 10, 40, 800, "memset"), {"name": "gemm", "kind": "kernel", "start_ns": 0,
                                                               "dur_ns": 40, "device": "GPU 0"}]
    rows = {(row["kind"], row["direction"]): row for row in asked("copies", run_of(kernels=kernels)).frame.to_dicts()}
    up = rows["memcpy", "H2D"]
    assert (up["count"], up["total_ns"], up["bytes"], up["memory"]) == (3, 400, 5000, "pinned")
    assert (up["rate"], up["rate_p50"], up["rate_max"]) == (12.5e9, 10e9, 30e9)
    assert up["exposed_ns"] == 360  # a kernel ran beside the first 40
    down = rows["memcpy", "D2H"]
    assert (down["bytes"], down["rate"], down["memory"]) == (None, None, "pageable")
    assert (rows["memset", None]["bytes"], rows["memset", None]["rate"]) == (40, 4e9)


def test_a_copy_without_a_duration_has_no_rate_but_counts(run_of, asked):
    row = asked("copies", run_of(kernels=[moved(UP, 0, 1000), moved(UP, None, 10, 5)])).frame.row(0, named=True)
    assert (row["count"], row["total_ns"], row["bytes"], row["rate"], row["rate_max"]) == (2, 0, 1010, None, None)


def test_two_runs_pair_by_direction_though_their_devices_have_other_numbers(run_of, asked):
    a, b = run_of("a", kernels=[moved(UP, 100, 1)]), run_of("b", kernels=[moved(UP, 300, 1, device="GPU 3")])
    table = asked("copies", a, b)
    assert table.frame.select("device", "total_ns_delta").rows() == [("GPU 0", 200)]
    assert "compared B's GPU 3 with A's GPU 0" in table.notes[0]


def test_rows_are_kinds_of_copies_and_their_ids_begin_with_copy(run_of, asked):
    table = asked("copies", run_of(kernels=[moved(UP, 100, 1), moved(DOWN, 50, 1)]))
    assert view("copies").noun == "kinds of copies" and {one[:5] for one in table.row_ids(0, 2)} == {"copy:"}


def test_a_recording_without_copies_says_so(run_of, asked):
    with pytest.raises(CannotAnswer, match="no copies"):
        asked("copies", run_of(kernels=[{"name": "k", "kind": "kernel", "dur_ns": 1}]))


def test_the_details_name_what_was_recorded(run_of, asked):
    run = run_of(kernels=[moved(UP, 100, 1000), moved(UP, 100, 3000, 200), moved(DOWN, 50, 1)])
    sections = {one.title: one.rows for one in details(
        view("copies"), asked("copies", run), 0, (run,), Options()).sections}
    assert sections["As recorded"] == ((UP, "2", "200 ns", "3.9 KiB"),)
