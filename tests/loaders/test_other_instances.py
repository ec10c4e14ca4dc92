"""The rules on values and on length hold in formats that first broke others: printed summaries, totals beside results,
databases of several recordings, samples in long form."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import pickle
import shutil
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run

SUMMARY = """\
[42] app@127.0.0.1
  axpy(float *) (17, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 8.9, Invocations 100
    Section: GPU Speed Of Light Throughput
    ----------------- ----------- ------- ------- -------
    Metric Name       Metric Unit Minimum Maximum Average
    ----------------- ----------- ------- ------- -------
    Duration              usecond   10.00   14.00   12.00
    Memory Throughput           %   70.00   80.00   75.00
    ----------------- ----------- ------- ------- -------

  gemm(float *) (1, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 8.9, Invocations 3
    Section: GPU Speed Of Light Throughput
    ----------------- ----------- ------- ------- -------
    Metric Name       Metric Unit Minimum Maximum Average
    ----------------- ----------- ------- ------- -------
    Duration              msecond    1.00    1.40    1.20
    ----------------- ----------- ------- ------- -------
"""


def test_a_printed_summary_of_ncu_is_read_as_the_csv_is(tmp_path: Path) -> None:
    path = tmp_path / "summary.txt"
    path.write_text(SUMMARY)
    (trace,) = open_run(path)
    stats = trace.kernel_stats.select(pl.col("name").cast(pl.String), "count", "total_ns", "min_ns", "max_ns").collect()
    assert stats.rows() == [("axpy(float *)", 100, 1_200_000, 10_000, 14_000),
                            ("gemm(float *)", 3, 3_600_000, 1_000_000, 1_400_000)]


@pytest.mark.parametrize(("name", "text"), [
    ("run_vulkan_api_sum.csv", "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
     "\n100,9000000,10,900000,900000,450000,1800000,10,vkQueueSubmit\n"),
    ("x.csv", "CPU Page Faults,CPU Instruction Address\n12,main+0x44\n"),
    ("x.csv", "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Source,Function\n1,1,1,1,1,1,0,P,S\n"),
])
def test_a_report_of_nsys_that_is_not_used_is_refused_as_one(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(Unreadable, match="nsys stats"):
        open_run(tmp_path / name)


def test_a_database_of_recordings_made_one_after_another_is_several_runs(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "merged_results.db"
    shutil.copy(samples / "rocpd_results.db", path)
    database, ending, other = sqlite3.connect(path), "00000000abcd", "00000000ef01"
    made = "select name, sql from sqlite_master where type = '{}'"
    for name, text in database.execute(made.format("table")).fetchall():
        if name.endswith(ending):
            database.execute(text.replace(ending, other))
            columns = [row[1] for row in database.execute(f'pragma table_info("{name}")')]
            later = [f'"{one}" + 1000000000000' if one in ("start", "end") else f'"{one}"' for one in columns]
            database.execute(f'insert into "{name.replace(ending, other)}" select {", ".join(later)} from "{name}"')
    for name, text in database.execute(made.format("view")).fetchall():
        database.execute(f'drop view "{name}"')
        body = text.partition(" as ")[2] or text.partition(" AS ")[2]
        database.execute(f'create view "{name}" as {body} union all {body.replace(ending, other)}')
    database.commit()
    database.close()
    (alone,), runs = open_run(samples / "rocpd_results.db"), open_run(path)
    assert len(runs) == 2
    for run in runs:
        assert run.kernels.collect().height == alone.kernels.collect().height
        assert run.host.collect().height == alone.host.collect().height
        assert all(is_read for *_, is_read in run.info.facts["tables"])


ROCPROF = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"{}",4,10000,2500,100.0\n'


def test_totals_of_calls_beside_results_of_rocprof_are_of_the_same_program(samples: Path, tmp_path: Path) -> None:
    shutil.copy(samples / "rocprof_results.csv", tmp_path / "out.csv")
    for what in ("", "hip_", "copy_"):
        (tmp_path / f"out.{what}stats.csv").write_text(ROCPROF.format("hipLaunchKernel"))
    (trace,) = open_run(tmp_path)
    tables = {name: is_read for name, _, is_read in trace.info.facts["tables"]}
    assert trace.kernels.collect().height == 12
    assert tables == {"out.csv": True, "out.stats.csv": True, "out.hip_stats.csv": False, "out.copy_stats.csv": False}


def test_samples_of_one_time_that_name_no_device_are_of_several_in_long_form_too(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("timestamp;metric;value\n" + "".join(
        f"{1772460450250 + 1000 * at};util;{value}\n" for at in range(4) for value in (10, 90)))
    (trace,) = open_run(path)
    rows = ask(view("metrics"), (trace,)).frame.select("device", "mean", "samples").rows()
    assert sorted(rows) == [("GPU 0", 10.0, 4), ("GPU 1", 90.0, 4)]


def test_copies_without_times_took_an_unknown_time(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "run_memory_copy_trace.csv"
    text = (samples / "rocprofv3/run_memory_copy_trace.csv").read_text().splitlines()
    header = text[0].replace('"', "").split(",")
    rows = [line.split(",") for line in text[1:]]
    for row in rows:
        for column in ("Start_Timestamp", "End_Timestamp"):
            row[header.index(column)] = "3.48939E+15"
    path.write_text("\n".join([text[0], *map(",".join, rows)]) + "\n")
    table = ask(view("copies"), open_run(path))
    assert (table.facts["count"], table.facts["total_ns"]) == (len(rows), None)


def test_the_mean_of_counters_at_the_end_of_the_number_range_is_in_it(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "x_results.db"
    shutil.copy(samples / "rocpd_plain.db", path)
    database = sqlite3.connect(path)
    database.execute("update rocpd_pmc_event set value = 1.7e308")
    database.commit()
    database.close()
    values = ask(view("sections"), open_run(path)).frame["value"]
    assert values.is_not_null().all() and all(value == pytest.approx(1.7e308) for value in values)


def test_ranges_that_a_log_does_not_count_are_not_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("max time across ranks (ms):\n    forward-backward ...............................: 950.40\n"
                    "    optimizer ......................................: 41.00\n" * 5)
    table = ask(view("ranges"), open_run(path))
    assert (table.facts["count"], table.summary[0]) == (None, "ranges of 2 names, not counted")


def without_starts(samples: Path, tmp_path: Path, name: str) -> Path:
    """The sample with two of its calls without a start."""
    if name.endswith(".json"):
        document = json.loads((samples / name).read_text())
        calls = [event for event in document["traceEvents"] if event.get("cat") == "cuda_runtime"]
        calls[0]["ts"], calls[1]["ts"] = "abc", None
        (tmp_path / "a.json").write_text(json.dumps(document))
        return tmp_path / "a.json"
    if name.endswith(".csv"):
        lines = (samples / name).read_text().splitlines()
        for at in (1, 2):
            lines[at] = ",".join(["", *lines[at].split(",")[1:]])
        (tmp_path / "run_cuda_api_trace.csv").write_text("\n".join(lines) + "\n")
        return tmp_path / "run_cuda_api_trace.csv"
    path = tmp_path / name
    shutil.copy(samples / name, path)
    database = sqlite3.connect(path)
    database.execute("update rocpd_api set start = null where rowid in (2, 5)" if name.endswith(".rpd") else
                     "update CUPTI_ACTIVITY_KIND_RUNTIME set start = 'x' where rowid in (3, 9)")
    database.commit()
    database.close()
    return path


@pytest.mark.parametrize("name", ["kineto.pt.trace.json", "nsys_api_trace.csv", "nsys.sqlite", "rocm.rpd"])
def test_calls_without_a_start_count_and_are_in_no_sum(name: str, samples: Path, tmp_path: Path) -> None:
    whole, some = open_run(samples / name), open_run(without_starts(samples, tmp_path, name))
    every, counted = (ask(view("calls"), runs) for runs in (whole, some))
    host = some[0].host.select("start_ns", "dur_ns").collect()
    assert host.tail(2).null_count().row(0) == (2, 2) and host["start_ns"].null_count() == 2
    assert counted.facts["count"] == every.facts["count"]
    assert (counted.facts["total_ns"] or 0) < every.facts["total_ns"]
    assert any("2 of" in note and "have no time" in note for note in counted.notes)
    assert any("calls and ranges carry no time" in warning for warning in some[0].info.warnings)


def test_a_launch_call_without_a_start_explains_no_gap(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    shutil.copy(samples / "nsys.sqlite", path)
    database = sqlite3.connect(path)
    database.execute("update CUPTI_ACTIVITY_KIND_RUNTIME set start = 'x'")
    database.commit()
    database.close()
    answer = ask(view("idle"), open_run(path))
    assert set(answer.frame["cause"]) <= {"unknown", None} and answer.frame["call"].null_count() == answer.frame.height


def test_operations_are_read_compressed(samples: Path, tmp_path: Path) -> None:
    plain, path = (samples / "operations.parquet").read_bytes(), tmp_path / "operations.parquet.xz"
    path.write_bytes(lzma.compress(plain))
    (run,) = open_run(path)
    (same,) = open_run(samples / "operations.parquet")
    assert run.kernels.collect().height == same.kernels.collect().height > 0
    path.write_bytes(lzma.compress(plain[: len(plain) // 2]))
    with pytest.raises(Unreadable):
        open_run(path)


def test_launches_without_any_kernel_in_the_file_may_not_have_been_traced(samples: Path, tmp_path: Path) -> None:
    for name in ("hip_api", "memory_copy"):
        shutil.copy(samples / f"rocprofv3/run_{name}_trace.csv", tmp_path)
    notes = ask(view("overview"), open_run(tmp_path / "run_hip_api_trace.csv")).notes
    assert any("lost by the profiler, or kernels were not traced" in note for note in notes)


def with_cells(samples: Path, tmp_path: Path, name: str, column: str, value: str) -> Path:
    """The sample with this value in the first two rows of a column."""
    lines = (samples / name).read_text().splitlines()
    first = next(at for at, line in enumerate(lines) if column in line)
    rows = list(csv.reader(lines[first:]))
    at = rows[0].index(column)
    for row in rows[1:3]:
        row[at] = value
    with (tmp_path / Path(name).name).open("w") as file:
        file.writelines(f"{line}\n" for line in lines[:first])
        csv.writer(file).writerows(rows)
    return tmp_path / Path(name).name


@pytest.mark.parametrize(("name", "column"), [
    ("ncu_wide.csv", "Kernel Name"), ("nsys_gpu_trace.csv", "Name"), ("rocprof_results.csv", "KernelName"),
    ("nsys_kern_sum.csv", "Name"),
])
def test_launches_without_a_name_are_launches(name: str, column: str, samples: Path, tmp_path: Path) -> None:
    totals = [ask(view("kernels"), open_run(path)).frame.select(pl.col("count", "total_ns").sum()).row(0)
              for path in (samples / name, with_cells(samples, tmp_path, name, column, ""))]
    assert totals[0] == totals[1]


@pytest.mark.parametrize(("name", "column"), [
    ("ncu_wide.csv", "Device"), ("rocprofv3/run_kernel_trace.csv", "Agent_Id"), ("rocprof_results.csv", "gpu-id"),
    ("rocprofv3_counters/counter_collection.csv", "Agent_Id"),
])
@pytest.mark.parametrize("value", ["nan", "-1", ""])
def test_a_label_that_names_no_device_is_none(
    name: str, column: str, value: str, samples: Path, tmp_path: Path
) -> None:
    (run,) = open_run(with_cells(samples, tmp_path, name, column, value))
    devices = run.kernels.select(pl.col("device").cast(pl.String)).collect().to_series()
    assert devices.null_count() >= 1 and not devices.drop_nulls().str.contains("nan|-1").any()
    assert all("nan" not in device.id and "-1" not in device.id for device in run.info.devices)


def test_sizes_that_cannot_be_are_in_no_sum(samples: Path, tmp_path: Path) -> None:
    document = json.loads((samples / "kineto.pt.trace.json").read_text())
    copies = [event for event in document["traceEvents"] if event.get("cat") == "gpu_memcpy"]
    copies[0]["args"]["bytes"], copies[1]["args"]["bytes"] = (1 << 63) - 1, -5
    (tmp_path / "a.json").write_text(json.dumps(document))
    runs = open_run(tmp_path / "a.json")
    assert ask(view("copies"), runs).facts["bytes"] is None
    assert "2 values of traceEvents (bytes) could not be read: out of range" in runs[0].info.warnings
    content = pickle.loads((samples / "memory_snapshot.pickle").read_bytes())
    content["segments"][0]["total_size"] = (1 << 63) - 1
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(content))
    runs = open_run(tmp_path / "a.pickle")
    assert ask(view("memory"), runs).facts["devices"][0]["peak_reserved_bytes"] is None
    assert runs[0].info.facts["memory"][0]["reserved_bytes"] is None
    assert "1 value of segments (total_size) could not be read: out of range" in runs[0].info.warnings


def test_a_row_of_a_dispatch_without_a_time_takes_that_of_the_others(samples: Path, tmp_path: Path) -> None:
    name = "rocprofv3_counters/counter_collection.csv"
    (plain,) = open_run(samples / name)
    for value in ("abc", "0"):
        path = with_cells(samples, tmp_path, name, "Start_Timestamp", value)
        (run,) = open_run(path)
        assert run.kernels.collect()["dur_ns"].to_list() == plain.kernels.collect()["dur_ns"].to_list()


def test_lists_of_a_dump_that_nobody_reads_are_listed(samples: Path, tmp_path: Path) -> None:
    dump = json.loads((samples / "flight_recorder/nccl_trace_rank_0.json").read_text())
    (tmp_path / "nccl_trace_rank_0.json").write_text(json.dumps(dump | {"new_list": [1, 2]}))
    (run,) = open_run(tmp_path / "nccl_trace_rank_0.json")
    assert ["new_list", 2, False] in [list(table) for table in run.info.facts["tables"]]


def test_counters_of_a_chrome_trace_are_those_of_the_one_table(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {"device": 0}}
    counters = {"GPU 0 SM clock": 1_755_000_000, "GPU 0 power (W)": 450_000, "GPU 0 XID": 79, "GPU 0 util (%)": 5000}
    events = [kernel, *({"ph": "C", "name": name, "pid": 0, "ts": at, "args": {"value": value}}
                        for name, value in counters.items() for at in range(3))]
    (tmp_path / "a.json").write_text(json.dumps(events))
    runs = open_run(tmp_path / "a.json")
    means = dict(ask(view("metrics"), runs).frame.select("metric", "mean").rows())
    assert means == {"SM clock": 1755.0, "power (W)": 450.0, "XID": None, "util (%)": None}
    assert any("recorded in Hz under the unit MHz" in warning for warning in runs[0].info.warnings)
    assert "3 values of the counters (util (%)) could not be read: out of range" in runs[0].info.warnings


def test_a_report_known_by_its_name_is_known_compressed(tmp_path: Path) -> None:
    path = tmp_path / "run_openmp_sum.csv.gz"
    path.write_bytes(gzip.compress(
        b"Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        b"100,900,3,300,300,300,300,0,Parallel\n"))
    (run,) = open_run(path)
    assert run.host_stats.select(pl.col("kind").cast(pl.String), "count", "total_ns").collect().row(0) == (
        "openmp", 3, 900)
