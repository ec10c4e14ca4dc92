"""doctor lists every table that has rows, read or not, whatever the format and whatever its name."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest

from warplens.loaders.ingest.opening import open_run


def listed(path: Path) -> set[tuple[str, int, bool]]:
    return {tuple(table) for trace in open_run(path) for table in trace.info.facts["tables"]}


@pytest.mark.parametrize(("sample", "tables"), [
    ("ncu_long.csv", {("launches", 5, True), ("metrics", 15, True)}),
    ("nsys_kern_sum.csv", {("nsys_kern_sum.csv (sums)", 5, True)}),
    ("rocprof_results.csv", {("rocprof_results.csv", 12, True)}),
    ("rocprofiler_compute", {("pmc_perf.csv", 12, True), ("timestamps.csv", 12, True)}),
    ("counters/nvidia_smi_query.csv", {("nvidia_smi_query.csv", 60, True)}),
    ("memory_snapshot.pickle", {("segments", 2, True), ("device_traces", 43, True)}),
])
def test_the_tables_of_a_sample(samples: Path, sample: str, tables: set[tuple[str, int, bool]]) -> None:
    assert tables <= listed(samples / sample)


@pytest.mark.parametrize(("folder", "at", "name"), [
    ("rocprofiler_compute", ".", "roofline.csv"), ("rocprofv3", ".", "run_quantum_trace.csv"),
    ("ascend/rank1_ascend_pt", "ASCEND_PROFILER_OUTPUT", "power_details.csv"),
])
def test_a_table_that_nobody_reads_is_listed(
    samples: Path, tmp_path: Path, folder: str, at: str, name: str
) -> None:
    copy = tmp_path / Path(folder).name
    shutil.copytree(samples / folder, copy)
    (copy / at / name).write_text("a,b\n1,2\n3,4\n")
    assert (name, 2, False) in listed(copy)


def event(phase: str, ts: int, **more: object) -> dict[str, object]:
    return {"ph": phase, "name": "x", "ts": ts, "pid": 1, "tid": 1, **more}


@pytest.mark.parametrize("times", [1, 400])  # read by the plain and by the compiled scanner
def test_every_category_and_phase_of_a_chrome_trace_is_listed(tmp_path: Path, times: int) -> None:
    path = tmp_path / "t.json"
    events = [
        *(event("X", 10 * at, dur=5, cat="quantum_ops") for at in range(9 * times)),
        *(event("X", 10 * at + 6, dur=2, cat="gpu_user_annotation") for at in range(3 * times)),
        *(event("i", 10 * at, cat="strange", s="t") for at in range(2 * times)),
        *(event("C", 10 * at, args={"v": at}) for at in range(4 * times)),
        *(event(phase, 10 * at + 7 + (phase == "E")) for at in range(times) for phase in "BE"),
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert listed(path) == {
        ("quantum_ops", 9 * times, True), ("gpu_user_annotation", 3 * times, False), ("strange", 2 * times, False),
        ("counters (ph C)", 4 * times, True), ("slices without a category", times, True)}


def test_the_files_of_a_job_are_listed_together(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": [
            event("X", 10 * at, dur=5, cat=f"only_{rank}") for at in range(3)]}))
    assert listed(tmp_path) == {("only_0", 3, True), ("only_1", 3, True)}


def test_a_list_that_a_later_snapshot_adds_is_listed(tmp_path: Path) -> None:
    block = {"size": 512, "address": 1024, "state": "active_allocated"}
    segment = {"device": 0, "address": 1024, "total_size": 512, "blocks": [block]}
    path = tmp_path / "m.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[]], "external_annotations": [{}, {}]}))
    assert listed(path) == {("segments", 1, True), ("external_annotations", 2, False)}


def test_text_in_place_of_a_duration_is_counted(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text((samples / "ncu_long.csv").read_text().replace('"us","2.144"', '"us","later"'))
    (trace,) = open_run(path)
    assert trace.kernels.select("dur_ns").collect()["dur_ns"].null_count() == 1
    assert "1 value of metrics (Metric Value) could not be read: no number" in trace.info.warnings
