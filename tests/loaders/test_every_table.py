"""doctor lists every table that has rows, read or not, whatever the format and whatever its name."""

from __future__ import annotations

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
