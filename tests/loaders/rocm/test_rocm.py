"""AMD's formats: one run told alike by all of them, recordings counted independently, nothing private kept."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from warplens.loaders import registry
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import stream
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import Job
from warplens.loaders.trace import Trace

SAMPLES = Path(__file__).resolve().parents[3] / "samples"
SET = "rocprofv3/run_kernel_trace.csv"
ALIKE = (SET, "rocprofv3_results.json", "rocpd_results.db", "rocpd_plain.db", "rocm.rpd")
Sums = dict[str, tuple[int, int]]


def load(path: Path, workspace: Path) -> Trace:
    (loader,) = registry.claims(stream.head(path))
    (trace,) = loader.load(Job(path, workspace))
    return trace


def rows(frame: pl.LazyFrame, *columns: str | pl.Expr) -> list[tuple[Any, ...]]:
    return frame.select(*columns).collect().rows()


def kernels(run: Trace) -> pl.LazyFrame:
    return run.kernels.filter(pl.col("kind").is_in(["kernel", "collective"]))


def tally(pairs: Iterable[tuple[str, int]]) -> Sums:
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, ns in pairs:
        found[name][0] += 1
        found[name][1] += ns
    return {name: (count, ns) for name, (count, ns) in found.items()}


def by_name(run: Trace) -> Sums:
    return tally(rows(kernels(run), pl.col("name").cast(pl.String), "dur_ns"))


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_rocm", SAMPLES / "make_rocm.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_samples_are_what_the_script_makes(script: ModuleType, tmp_path: Path) -> None:
    for name, text in script.texts().items():
        assert (SAMPLES / name).read_text(encoding="utf-8") == text, name
    for name, write in script.DATABASES.items():
        write(tmp_path / name)
        made, kept = (sqlite3.connect(file) for file in (tmp_path / name, SAMPLES / name))
        assert list(made.iterdump()) == list(kept.iterdump()), name
        made.close(), kept.close()


@pytest.mark.parametrize("name", ALIKE)
def test_every_format_tells_of_the_same_run(script: ModuleType, name: str, tmp_path: Path) -> None:
    activities, calls = script.run()
    run = load(SAMPLES / name, tmp_path)
    zero = min(one.start for one in (*activities, *calls))
    zero = script.BOOT if name == SET else zero  # the first of its allocations
    wanted = sorted(
        (one.start - zero, one.end - one.start, script.KERNELS[one.kernel][0]) for one in activities if one.kernel >= 0
    )
    assert rows(kernels(run), "start_ns", "dur_ns", pl.col("name").cast(pl.String)) == wanted
    copies = run.kernels.filter(pl.col("kind") == "memcpy")
    assert rows(copies, "dur_ns").count((90_000,)) == script.STEPS
    marks = rows(run.host.filter(pl.col("kind") == "annotation"), pl.col("name").cast(pl.String), "dur_ns")
    assert marks == [(one.name, one.end - one.start) for one in calls if one.domain.startswith("MARKER")]
    collectives = run.kernels.filter(pl.col("kind") == "collective")
    assert {name for (name,) in rows(collectives, pl.col("name").cast(pl.String))} == {script.KERNELS[2][0]}


@pytest.mark.parametrize("name", ALIKE)
def test_an_activity_is_tied_to_the_call_that_launched_it(name: str, tmp_path: Path) -> None:
    run = load(SAMPLES / name, tmp_path)
    calls = run.host.filter(pl.col("kind") == "runtime").select("correlation", called="start_ns", call="name")
    tied = run.kernels.join(calls, on="correlation", how="left").select("kind", "call", "start_ns", "called").collect()
    assert tied.height == 16
    assert not tied["called"].null_count() and (tied["start_ns"] >= tied["called"]).all()
    assert set(tied.filter(pl.col("kind") == "memcpy")["call"].cast(pl.String)) == {"hipMemcpyAsync"}
    assert "hipDeviceSynchronize" not in set(tied["call"].cast(pl.String))


def test_kernels_that_a_graph_replayed_are_kernels_of_that_launch(tmp_path: Path) -> None:
    run = load(SAMPLES / "rocm.rpd", tmp_path)
    replayed = kernels(run).filter(pl.col("graph").is_not_null())
    launch = run.host.filter(pl.col("name").cast(pl.String) == "hipGraphLaunch")
    (identity,) = rows(launch, "correlation")
    assert rows(replayed, "graph", "correlation", "grid") == [(identity[0], identity[0], None)] * 3


@pytest.mark.parametrize(("name", "device", "product", "stream", "copied"), [
    (SET, "GPU 0", "AMD Instinct MI300X", 1, None),
    ("rocprofv3_results.json", "GPU 0", "AMD Instinct MI300X", 1, 4_194_304),
    ("rocpd_results.db", "GPU 0", "AMD Instinct MI300X", 1, 4_194_304),
    ("rocpd_plain.db", "GPU 0", "AMD Instinct MI300X", 1, 4_194_304),
    ("rocm.rpd", "GPU 2", None, 0, 4_194_304),
])
def test_what_is_known_of_a_launch(
    name: str, device: str, product: str | None, stream: int, copied: int | None, tmp_path: Path
) -> None:
    run = load(SAMPLES / name, tmp_path)
    assert [(one.id, one.name) for one in run.info.devices] == [(device, product)]
    first = run.kernels.filter(pl.col("kind") == "kernel").head(1)
    assert rows(first, "device", "stream", "pid", "grid", "block", "shared_bytes") == [
        (device, stream, 4242, "65536,1,1", "256,1,1", 16384)
    ]
    copy = run.kernels.filter(pl.col("kind") == "memcpy").head(1).select(pl.col("name").cast(pl.String), "bytes")
    ((direction, size),) = copy.collect().rows()
    assert direction.replace("_", "").lower().endswith("hosttodevice") and size == copied


@pytest.mark.parametrize("name", ["rocpd_results.db", "rocprofv3_results.json", "rocprofiler_compute/pmc_perf.csv"])
def test_no_command_line_and_no_environment_is_kept(name: str, tmp_path: Path) -> None:
    assert b"hunter2" in b"".join(path.read_bytes() for path in (SAMPLES / name).parent.glob("*") if path.is_file())
    run = load(SAMPLES / name, tmp_path)
    assert "hunter2" not in repr(run.info)
    for table in ("kernels", "host", "metrics"):
        assert "hunter2" not in run.table(table).collect().write_json()


def test_the_clocks_of_the_monitor_hold_until_their_end(tmp_path: Path) -> None:
    run = load(SAMPLES / "rocm.rpd", tmp_path)
    assert rows(run.metrics, "ts_ns", "dur_ns", "metric", "device", "value", "unit") == [
        (0, 150_000, "sclk", "GPU 2", 132.0, "MHz"), (150_000, 150_000, "sclk", "GPU 2", 1780.0, "MHz"),
        (300_000, 150_000, "sclk", "GPU 2", 2100.0, "MHz"),
    ]


def test_any_file_of_a_set_opens_all_of_it(tmp_path: Path) -> None:
    whole = load(SAMPLES / SET, tmp_path)
    for member in (SAMPLES / SET).parent.glob("run_*_trace.csv"):
        run = load(member, tmp_path)
        assert run.info.label == "run"
        for table in ("kernels", "host", "metrics"):
            assert run.table(table).collect().equals(whole.table(table).collect()), member.name


def test_allocations_add_up(tmp_path: Path) -> None:
    run = load(SAMPLES / SET, tmp_path)
    allocated = run.metrics.filter(pl.col("metric").cast(pl.String) == "memory allocated")
    assert rows(allocated, "ts_ns", "device", "value", "unit") == [
        (4_000, "GPU 0", 8192.0, "B"), (24_000, "GPU 0", 12288.0, "B"), (44_000, "GPU 0", 4096.0, "B"),
    ]
    names = {name for (name,) in rows(run.host.filter(pl.col("kind") == "driver"), pl.col("name").cast(pl.String))}
    assert names == {"MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_FREE", "SCRATCH_MEMORY_ALLOC"}


def test_a_folder_with_the_files_of_a_run_is_that_run(tmp_path: Path) -> None:
    shutil.copytree((SAMPLES / SET).parent, tmp_path / "out")
    shutil.copy(SAMPLES / "rocprofv3_counters" / "kernel_stats.csv", tmp_path / "out" / "run_kernel_stats.csv")
    (run,) = open_run(str(tmp_path / "out"))
    assert (run.info.format, run.info.label) == ("rocprofv3-csv", "run")
    assert run.kernels.collect().height == 16 and run.has("host")


def test_a_file_named_only_after_its_table_is_opened_alone(tmp_path: Path) -> None:
    for member in (SAMPLES / SET).parent.glob("run_*.csv"):
        shutil.copy(member, tmp_path / member.name.removeprefix("run_"))
    run = load(tmp_path / "kernel_trace.csv", tmp_path)
    assert run.kernels.collect().height == 12 and not run.has("host")
    assert [device.id for device in run.info.devices] == ["Agent 4"]


def test_a_file_left_from_another_run_is_not_read_with_it(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / SET, tmp_path)
    calls = (SAMPLES / SET).with_name("run_hip_api_trace.csv").read_text()
    (tmp_path / "run_hip_api_trace.csv").write_text(calls.replace("3489389", "1489389"))
    run = load(tmp_path / "run_kernel_trace.csv", tmp_path)
    assert not run.has("host")
    assert any("run_hip_api_trace.csv" in warning for warning in run.info.warnings)


def test_calls_that_began_hours_before_the_first_kernel_are_of_the_run(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / SET, tmp_path)
    calls = (SAMPLES / SET).with_name("run_hip_api_trace.csv").read_text().splitlines()
    early = calls[1].replace("3489389", "3449389")
    (tmp_path / "run_hip_api_trace.csv").write_text("\n".join([calls[0], *[early] * 1000, *calls[1:]]))
    run = load(tmp_path / "run_kernel_trace.csv", tmp_path)
    assert run.host.collect().height + run.info.facts["repeats"] == 1000 + len(calls) - 1


def test_kernels_are_on_queues_where_streams_were_not_recorded(tmp_path: Path) -> None:
    lines = (SAMPLES / SET).read_text().replace('"Agent 4",3,1,', '"Agent 4",3,0,')
    (tmp_path / "kernel_trace.csv").write_text(lines)
    assert set(rows(load(tmp_path / "kernel_trace.csv", tmp_path).kernels, "stream")) == {(3,)}


def test_processes_put_into_one_file_keep_their_ties_apart(tmp_path: Path) -> None:
    calls = ["Guid,Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp"]
    work = ["Guid,Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp"]
    for at, guid in enumerate("ab"):
        calls.append(f"{guid},HIP_RUNTIME_API,hipLaunchKernel,{70 + at},1,7,{1000 + at},{1010 + at}")
        work.append(f"{guid},KERNEL_DISPATCH,GPU {at},1,gemm,7,{1100 + at},{1200 + at}")
    (tmp_path / "all_hip_api_trace.csv").write_text("\n".join(calls))
    (tmp_path / "all_kernel_trace.csv").write_text("\n".join(work))
    run = load(tmp_path / "all_kernel_trace.csv", tmp_path)
    ids = [pair[0] for pair in rows(run.host, "correlation")]
    assert len(set(ids)) == 2
    assert rows(run.kernels, "device", "pid", "correlation") == [("GPU 0", 70, ids[0]), ("GPU 1", 71, ids[1])]


def test_a_counter_collection_alone_has_its_kernels_and_counters(tmp_path: Path) -> None:
    run = load(SAMPLES / "rocprofv3_counters" / "counter_collection.csv", tmp_path)
    found = rows(run.kernels.head(3), "tensor", "occupancy", "dram", "grid", "block")
    assert found[0] == (0.7250000238418579, 0.3125, None, "65536,1,1", "256,1,1")
    assert run.kernels.collect().height == 12 and found[1][0] == 0.0
    waves = run.metrics.filter(pl.col("metric").cast(pl.String) == "SQ_WAVES")
    assert rows(waves, "value").count((1024.0,)) == 12


def test_a_summary_is_aggregates(tmp_path: Path) -> None:
    run = load(SAMPLES / "rocprofv3_counters" / "kernel_stats.csv", tmp_path)
    sums = rows(run.kernel_stats, pl.col("name").cast(pl.String), "kind", "count", "total_ns")
    whole = by_name(load(SAMPLES / SET, tmp_path))
    assert {name: (count, total) for name, _, count, total in sums} == whole
    assert [kind for _, kind, _, _ in sums] == ["kernel", "kernel", "collective"]


def test_utilisation_of_a_workload_follows_its_counters(tmp_path: Path) -> None:
    (run,) = open_run(str(SAMPLES / "rocprofiler_compute"))
    found = rows(run.kernels.head(2), "tensor", "dram", "device")
    moved = 10 * 64 + 5 * 64 * 0.5  # bytes a nanosecond: all reads, and half of the writes, go to HBM
    assert found[0] == (pytest.approx(0.6), pytest.approx(moved / 1638.4), "GPU 2")
    assert found[1][0] == 0.0
    assert run.info.devices[0].name == "MI200"
    hits = run.metrics.filter(pl.col("metric").cast(pl.String) == "TCC_HIT_sum")
    assert set(rows(hits, "value")) == {(12.0,)}
    assert not run.info.serialised


@pytest.mark.parametrize("alone", [False, True])
def test_counters_of_a_dispatch_that_is_written_twice_are_taken_once(tmp_path: Path, alone: bool) -> None:
    folder = Path(shutil.copytree(SAMPLES / "rocprofiler_compute", tmp_path / "workload"))
    counters = folder / "pmc_perf.csv"
    lines = counters.read_text().splitlines()
    counters.write_text("\n".join([*lines, *lines[1:3]]) + "\n")
    if alone:
        (folder / "timestamps.csv").unlink()
    (run,) = open_run(str(folder))
    kernels = run.kernels.collect()
    assert kernels.height == len(lines) - 1 and kernels["tensor"].null_count() == 0
    left_out = f"counters of 2 of {len(lines) + 1} dispatches match no timed launch and were left out"
    assert left_out in run.info.warnings


@pytest.mark.parametrize("lost", ["sysinfo.csv", "pmc_perf.csv"])
def test_without_limits_or_counters_utilisation_is_not_known(lost: str, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "rocprofiler_compute", tmp_path / "workload")
    (tmp_path / "workload" / lost).unlink()
    run = load(tmp_path / "workload" / "timestamps.csv", tmp_path)
    assert run.kernels.collect().height == 12
    assert set(rows(run.kernels, "tensor", "dram")) == {(None, None)}


def renumbered(folder: Path, later: int, lost: int = 0) -> None:
    """The timed dispatches count from 1, are timed in a pass of their own, and the last of them are missing."""
    header, *lines = (folder / "timestamps.csv").read_text().splitlines()
    cells = [line.rsplit(",", 2) for line in lines[: len(lines) - lost]]
    (folder / "timestamps.csv").write_text("\n".join([header, *(
        f"{number},{start.partition(',')[2]},{int(begin) + later},{int(end) + later}"
        for number, (start, begin, end) in enumerate(cells, 1)
    )]) + "\n")


@pytest.mark.parametrize("later", [0, 77_777])
def test_counters_go_to_their_launch_however_the_files_count(later: int, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "rocprofiler_compute", tmp_path / "workload")
    renumbered(tmp_path / "workload", later)
    before, after = (open_run(str(folder))[0] for folder in (SAMPLES / "rocprofiler_compute", tmp_path / "workload"))
    assert rows(after.kernels, "name", "tensor", "dram") == rows(before.kernels, "name", "tensor", "dram")
    assert rows(after.metrics, "ts_ns", "metric", "value") == rows(before.metrics, "ts_ns", "metric", "value")


def test_counters_that_fit_no_launch_are_counted(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "rocprofiler_compute", tmp_path / "workload")
    renumbered(tmp_path / "workload", 77_777, lost=1)
    (run,) = open_run(str(tmp_path / "workload"))
    assert run.kernels.collect().height == 11
    assert any("dispatches match no timed launch and were left out" in said for said in run.info.warnings)


def test_rocprof_results_with_and_without_header_are_the_same_launches(tmp_path: Path) -> None:
    columns = ("start_ns", "dur_ns", "name", "kind", "device", "stream", "pid", "grid", "block", "registers")
    named, bare = (load(SAMPLES / f"rocprof_{how}.csv", tmp_path) for how in ("results", "bare"))
    assert rows(named.kernels, *columns) == rows(bare.kernels, *columns)
    assert named.has("metrics") and named.info.serialised
    assert not bare.has("metrics") and not bare.info.serialised


def test_what_rpd2tracing_writes_has_its_kernels(tmp_path: Path) -> None:
    """A Chrome trace without categories: processes named after GPUs, numbers as text, operations' types in ``desc``."""
    def event(pid: int, tid: int, name: str, ts: int, dur: float, desc: str) -> str:
        return (
            f',{{"pid":"{pid}","tid":"{tid}","name":"{name}","ts":"{ts}","dur":"{dur}","ph":"X",'
            f'"args":{{"desc":"{desc}"}}}}\n'
        )

    path = tmp_path / "trace.json"
    path.write_text(
        '[ {}\n,{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}\n'
        ',{"name":"thread_name","ph":"M","pid":"1560","tid":"1560","args":{"name":"Hip 1560"}}\n'
        + event(2, 3, "Cijk_Ailk", 100, 7.25, "KernelExecution") + event(2, 3, "ncclDevKernel", 120, 5, "Task")
        + event(2, 3, "CopyHostToDevice", 140, 2, "CopyHostToDevice") + event(2, 3, "FillBuffer", 150, 1, "FillBuffer")
        + event(2, 3, "train", 99, 60, "UserMarker frame: 4 ops") + event(1560, 1560, "hipLaunchKernel", 90, 4, "")
        + event(1560, 1560, "train", 80, 30, "train")
        + ',{"pid":"2","name":"QueueDepth","ph":"C","ts":95,"args":{"depth":3}}\n]\n'
    )
    run = load(path, tmp_path)
    assert run.info.format == "kineto"
    assert rows(run.kernels, pl.col("name").cast(pl.String), "kind", "device", "stream", "dur_ns") == [
        ("Cijk_Ailk", "kernel", "GPU 2", 3, 7_250), ("ncclDevKernel", "collective", "GPU 2", 3, 5_000),
        ("CopyHostToDevice", "memcpy", "GPU 2", 3, 2_000), ("FillBuffer", "memset", "GPU 2", 3, 1_000),
    ]
    assert sorted(rows(run.host, pl.col("name").cast(pl.String), "kind")) == [
        ("hipLaunchKernel", "runtime"), ("train", "annotation")
    ]
    assert rows(run.metrics, "device", "value") == [("GPU 2", 3.0)]


# Recordings, against readings that share nothing with the loaders.


def recordings(data: Path, pattern: str) -> list[Path]:
    found = sorted((data / "traces").glob(pattern))
    assert found, pattern
    return found


def csv_rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("pattern", ["rocprof/*kernel_trace.csv", "rocprof/sdk_docs_new/kernel_trace*.csv",
                                     "rocprof/sdk_docs_new/counter_collection.csv"])
def test_recorded_kernels_equal_a_plain_reading(data: Path, pattern: str, tmp_path: Path) -> None:
    for path in recordings(data, pattern):
        read = csv_rows(path)
        wanted = tally((row["Kernel_Name"], int(row["End_Timestamp"]) - int(row["Start_Timestamp"])) for row in read)
        assert by_name(load(path, tmp_path)) == wanted, path.name


@pytest.mark.parametrize("name", [
    "hip_compile_trace", "hip_runtime_trace", "hip_trace", "hsa_api_trace", "hsa_core_api_trace", "marker_api_trace",
    "rccl_trace", "rocdecode_api_trace", "rocjpeg_api_trace", "python_bindings", "rocpd-to-csv",
])
def test_recorded_calls_equal_a_plain_reading(data: Path, name: str, tmp_path: Path) -> None:
    path = data / "traces" / "rocprof" / "sdk_docs_new" / f"{name}.csv"
    read = [row for row in csv_rows(path) if row["Function"] and row["Function"].strip()]
    wanted = tally((row["Function"], int(row["End_Timestamp"]) - int(row["Start_Timestamp"])) for row in read)
    run = load(path, tmp_path)
    assert tally(rows(run.host, pl.col("name").cast(pl.String), "dur_ns")) == wanted
    kind = "annotation" if "marker" in name or "python" in name else "driver" if "hsa" in name else "runtime"
    assert set(rows(run.host, pl.col("kind").cast(pl.String))) == {(kind,)}


def test_recorded_copies_and_memory_equal_a_plain_reading(data: Path, tmp_path: Path) -> None:
    folder = data / "traces" / "rocprof" / "sdk_docs_new"
    read = csv_rows(folder / "memory_copy_trace.csv")
    wanted = tally((row["Direction"], int(row["End_Timestamp"]) - int(row["Start_Timestamp"])) for row in read)
    run = load(folder / "memory_copy_trace.csv", tmp_path)
    assert tally(rows(run.kernels, pl.col("name").cast(pl.String), "dur_ns")) == wanted
    assert set(rows(run.kernels, "kind", "device")) == {("memcpy", "Agent 4")}
    for name, count in (("scratch_memory_trace", 2), ("memory_allocation_trace", 4)):
        assert load(folder / f"{name}.csv", tmp_path).host.collect().height == count
    run = load(folder / "memory_allocation_trace.csv", tmp_path)
    assert [value for (value,) in rows(run.metrics, "value")] == [1024.0, 2048.0, 1024.0, 0.0]
    stats = load(folder / "hip_api_stats.csv", tmp_path)
    calls = [(row["Name"], int(row["Calls"]), int(row["TotalDurationNs"])) for row in
             csv_rows(folder / "hip_api_stats.csv")]
    assert rows(stats.host_stats, pl.col("name").cast(pl.String), "count", "total_ns") == calls


def test_a_recorded_document_equals_a_plain_reading(data: Path, tmp_path: Path) -> None:
    (path,) = recordings(data, "rocprof/*_results.json.gz")
    (tool,) = json.loads(gzip.decompress(path.read_bytes()))["rocprofiler-sdk-tool"]
    names = {one["kernel_id"]: one["demangled_kernel_name"] for one in tool["kernel_symbols"]}
    dispatches = tool["buffer_records"]["kernel_dispatch"]
    run = load(path, tmp_path)
    assert by_name(run) == tally(
        (names[one["dispatch_info"]["kernel_id"]], one["end_timestamp"] - one["start_timestamp"]) for one in dispatches
    )
    assert run.kernels.select(pl.col("correlation").n_unique()).collect().item() == len(
        {one["correlation_id"]["internal"] for one in dispatches}
    )
    gpus = [one for one in tool["agents"] if one["type"] == 2]
    assert len(run.info.devices) == len(gpus)
    assert {one.name for one in run.info.devices} == {one["product_name"] for one in gpus}
    assert not any(word in repr(run.info) for word in ("train.py", tool["metadata"]["node"]["hostname"]))


def test_a_recorded_database_equals_a_plain_query(data: Path, tmp_path: Path) -> None:
    (path,) = recordings(data, "rpd/*.rpd.gz")
    plain = tmp_path / "plain.rpd"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    with sqlite3.connect(plain) as query:
        operations = query.execute(
            "select coalesce(nullif(d.string, ''), t.string), o.end - o.start, t.string from rocpd_op o "
            "join rocpd_string t on t.id = o.opType_id left join rocpd_string d on d.id = o.description_id"
        ).fetchall()
        clocks = query.execute("select count(*), sum(value) from rocpd_monitor").fetchone()
        calls = query.execute("select count(*), sum(end - start) from rocpd_api").fetchone()
        ties = query.execute("select count(*) from rocpd_api_ops").fetchone()[0]
        copied = query.execute(
            "select sum(size) from rocpd_copyapi c join rocpd_api_ops t on t.api_id = c.api_ptr_id"
        ).fetchone()[0]
    query.close()
    run = load(path, tmp_path)
    assert by_name(run) == tally((name, ns) for name, ns, kind in operations if kind in ("KernelExecution", "Task"))
    copies = run.kernels.filter(pl.col("kind") == "memcpy")
    assert copies.select(pl.len(), pl.col("bytes").sum()).collect().row(0) == (
        sum(kind.startswith("Copy") for _, _, kind in operations), copied
    )
    assert run.host.select(pl.len(), pl.col("dur_ns").sum()).collect().row(0) == calls
    assert run.kernels.select(pl.col("correlation").count()).collect().item() == ties
    assert run.metrics.collect().height == run.metrics.select(pl.col("dur_ns").count()).collect().item() == clocks[0]
    assert run.metrics.select(pl.col("value").max()).collect().item() < 2500  # MHz


def test_recorded_results_of_rocprof_equal_a_plain_reading(data: Path, tmp_path: Path) -> None:
    for path in recordings(data, "rocprof/kerbowa*.csv"):
        with open(path, newline="") as lines:
            read = [row for row in csv.reader(lines) if row]
        assert by_name(load(path, tmp_path)) == tally((row[1], int(row[18]) - int(row[17])) for row in read)


def test_a_recorded_workload_equals_a_plain_reading(data: Path) -> None:
    for folder in recordings(data, "rocprof/omniperf/*/*"):
        times, counted = (csv_rows(folder / f"{name}.csv") for name in ("timestamps", "pmc_perf"))
        (run,) = open_run(str(folder))
        lengths = [int(row["End_Timestamp"]) - int(row["Start_Timestamp"]) for row in times]
        assert rows(run.kernels, pl.col("name").cast(pl.String), "dur_ns") == [
            (row["Kernel_Name"], length) for row, length in zip(times, lengths, strict=True)
        ]
        moved = [
            64 * float(row["TCC_EA_RDREQ_DRAM_sum"]) + 64 * float(row["TCC_EA_WRREQ_DRAM_sum"]) for row in counted
        ]
        assert rows(run.kernels, "tensor", "dram") == [
            (None, pytest.approx(size / length / 1228.8, rel=1e-4)) for size, length in zip(moved, lengths, strict=True)
        ]


@pytest.mark.parametrize(("pattern", "reason"), [
    ("rocprof/sdk_docs_new/pc_sampling*.csv", "holds program-counter samples"),
    ("rocprof/sdk_docs_new/kernel_names.csv", "holds counters of kernels without their times"),
    ("rocprof/sdk_docs_new/hip_domain_stats.csv", "is a summary by domain"),
    ("rocprof/omniperf/*/*/sysinfo.csv", "describes the machine"),
    ("rocprof/omniperf/*/*/pmc_dispatch_info.csv", "lists kernels of a rocprofiler-compute workload"),
])
def test_what_is_no_trace_is_refused_by_what_it_is(data: Path, pattern: str, reason: str) -> None:
    for path in recordings(data, pattern):
        with pytest.raises(Unreadable, match=reason) as caught:
            open_run(str(path))
        assert caught.value.advice
