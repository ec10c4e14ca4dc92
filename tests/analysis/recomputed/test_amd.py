"""Figures of AMD's recordings, worked out with csv, SQL and what the program that ran is known to do."""

from __future__ import annotations

import csv
import gzip
import re
import sqlite3
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pytest

from tests.analysis.recomputed.asked import view_of

COPIED = 8 * 1_048_576
"""Bytes that each launch of ``vcopy -n 1048576`` reads, and writes: a double for each of its items."""
WAVES = 1_048_576 / 64


@pytest.fixture
def workload(data: Path) -> Path:
    return data / "traces/rocprof/omniperf/device_filter/MI100"


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def metrics(workload: Path) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in view_of(workload, "sections").rows}


def test_the_launches_of_a_workload_take_what_its_timestamps_say(workload: Path) -> None:
    took = [int(row["End_Timestamp"]) - int(row["Start_Timestamp"]) for row in table(workload / "timestamps.csv")]
    launches = view_of(workload, "launches").rows
    assert [row["dur_ns"] for row in launches] == took and len(took) == 3
    (kernel,) = view_of(workload, "kernels").rows
    assert (kernel["total_ns"], kernel["count"]) == (sum(took), 3)


def test_instructions_are_those_of_each_wavefront_of_the_copy(workload: Path) -> None:
    rows, shown = table(workload / "pmc_perf.csv"), metrics(workload)
    assert [float(row["SQ_WAVES"]) for row in rows] == [WAVES] * 3
    for name, counter in (("VALU", "VALU"), ("VMEM", "VMEM"), ("SALU", "SALU"), ("SMEM", "SMEM"), ("LDS", "LDS"),
                          ("Flat", "FLAT"), ("Branch", "BRANCH")):
        own = mean(float(row[f"SQ_INSTS_{counter}"]) for row in rows) / WAVES
        assert shown[name] == pytest.approx(own), name
    assert shown["Flat Read"] == shown["Flat Write"] == 1  # one load and one store of each item
    assert shown["VALU Active Threads/Wave"] == 64


def test_the_memory_is_as_busy_as_the_bytes_copied_make_it(workload: Path) -> None:
    """The caches fetch a little more than is asked for; the peak is the machine's own."""
    shown, launches = metrics(workload), view_of(workload, "launches").rows
    rates = [COPIED / row["dur_ns"] for row in launches]
    assert shown["L2-Fabric Read BW"] == pytest.approx(1e9 * mean(rates), rel=0.05)
    (machine,) = table(workload / "sysinfo.csv")
    # what is written may still lie in the cache when the kernel ends
    assert mean(rates) < shown["HBM BW, of peak"] / 100 * float(machine["hbm_bw"]) < 2.1 * mean(rates)


def test_hit_rates_are_hits_of_all_requests(workload: Path) -> None:
    rows, shown = table(workload / "pmc_perf.csv"), metrics(workload)
    for name, hits, misses in (
        ("Instr Cache Hit Rate", "SQC_ICACHE_HITS", "SQC_ICACHE_MISSES"),
        ("Scalar L1D Cache Hit Rate", "SQC_DCACHE_HITS", "SQC_DCACHE_MISSES"),
        ("L2 Cache Hit Rate", "TCC_HIT_sum", "TCC_MISS_sum"),
    ):
        own = [float(row[hits]) / (float(row[hits]) + float(row[misses])) for row in rows]
        assert shown[name] == pytest.approx(100 * mean(own), rel=1e-6), name


def test_channels_are_summed_up_by_mean_least_and_most(workload: Path) -> None:
    rows, shown = table(workload / "pmc_perf.csv"), metrics(workload)
    channels = [name for name in rows[0] if re.fullmatch(r"TCC_HIT\[\d+\]", name)]
    assert len(channels) == 32
    for what, sums in (("mean", mean), ("min", min), ("max", max)):
        own = mean(sums([float(row[name]) for name in channels]) for row in rows)
        assert shown[f"TCC_HIT, {what} of 32"] == pytest.approx(own), what


def test_kernels_of_a_rocprofv3_trace_are_its_rows_by_name(data: Path) -> None:
    file, own = data / "traces/rocprof/unified-viewer_prefill_kernel_trace.csv", defaultdict(list)
    for row in table(file):
        own[row["Kernel_Name"]].append(int(row["End_Timestamp"]) - int(row["Start_Timestamp"]))
    rows = view_of(file, "kernels").rows
    assert len(rows) == len(own) > 20
    for row in rows:
        took = own[row["name"]]
        assert (row["count"], row["total_ns"], row["min_ns"], row["max_ns"]) == (
            len(took), sum(took), min(took), max(took)), row["name"]


def test_kernels_and_calls_of_an_rpd_file_are_its_ops_and_apis(data: Path, tmp_path: Path) -> None:
    file = data / "traces/rpd/mytrace.rpd.gz"
    (tmp_path / "plain.rpd").write_bytes(gzip.decompress(file.read_bytes()))
    with sqlite3.connect(tmp_path / "plain.rpd") as database:
        ops = database.execute(
            "SELECT s.string, COUNT(*), SUM(o.end - o.start) FROM rocpd_op o JOIN rocpd_string s ON s.id = "
            "o.description_id JOIN rocpd_string t ON t.id = o.opType_id WHERE t.string IN ('KernelExecution', 'Task') "
            "GROUP BY s.string").fetchall()  # tasks are kernels that a graph launched
        apis = dict(database.execute(
            "SELECT s.string, COUNT(*) FROM rocpd_api a JOIN rocpd_string s ON s.id = a.apiName_id "
            "WHERE s.string LIKE 'hip%' GROUP BY s.string").fetchall())
    shown = {row["name"]: (row["count"], row["total_ns"]) for row in view_of(file, "kernels").rows
             if row["kind"] != "memcpy"}
    assert {name: (count, total) for name, count, total in ops} == shown and len(ops) > 5
    calls = {row["name"]: row["count"] for row in view_of(file, "calls").rows if row["name"].startswith("hip")}
    assert calls == apis and len(calls) > 3
