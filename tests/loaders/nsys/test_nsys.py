"""Nsight Systems exports: every generation of the schema, read to the last number, and nothing private shown."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from warplens.analysis.contract.options import Options
from warplens.analysis.core.thread_names import thread_name
from warplens.analysis.timeline.lanes import timeline_of
from warplens.loaders.errors import Cancelled, Unreadable
from warplens.loaders.ingest import store
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.ingest.ranks import merge
from warplens.loaders.loader import Job
from warplens.loaders.nsys import LOADER, database, host
from warplens.loaders.nsys.database import NsysDatabase
from warplens.loaders.recognition import recognised
from warplens.loaders.recording import spool
from warplens.loaders.recording.faults import Faults
from warplens.loaders.trace import Trace

BEFORE, AFTER = "nsys-ai/mfu_2gpu_before.sqlite", "nsys-ai/mfu_2gpu_after.sqlite"
RECORDINGS = (BEFORE, AFTER, "nsys-ai/h100_2gpu_1s.sqlite", "power_iteration__baseline.sqlite")
PID, OTHER = 77, 78
TID = 1 << 48 | PID << 24 | PID
EVENT = "start integer, end integer, deviceId integer, contextId integer, streamId integer, correlationId integer"


def make(path: Path, script: str) -> Path:
    with sqlite3.connect(path) as connection:
        connection.executescript("create table if not exists StringIds (id integer primary key, value text);" + script)
    connection.close()
    return path


def load(path: Path, workspace: Path) -> Trace:
    (trace,) = LOADER.load(Job(path, workspace))
    return trace


def rows(frame: pl.LazyFrame, *columns: str) -> list[tuple[object, ...]]:
    return frame.select(columns).collect().rows()


def activity(run: Trace) -> dict[tuple[str, str], tuple[int, int]]:
    groups = run.kernels.filter(pl.col("kind") != "sync").select(
        "device", "dur_ns", kind=pl.col("kind").cast(pl.String).replace("collective", "kernel")
    )
    found = groups.group_by("kind", "device").agg(pl.len(), pl.col("dur_ns").sum()).collect()
    return {(kind, device): (count, total) for kind, device, count, total in found.rows()}


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings_equal_an_independent_query(data: Path, name: str, tmp_path: Path) -> None:
    file = data / "traces" / "nsys_sqlite" / name
    expected = {}
    with sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True) as query:
        tables = {row[0] for row in query.execute("select name from sqlite_master")}
        for kind in ("kernel", "memcpy", "memset"):
            if (table := f"CUPTI_ACTIVITY_KIND_{kind.upper()}") in tables:
                sums = query.execute(f"select deviceId, count(*), sum(end - start) from {table} group by 1")
                expected |= {(kind, f"GPU {device}"): (count, total) for device, count, total in sums}
        names = query.execute(
            "select value, count(*), sum(end - start) from CUPTI_ACTIVITY_KIND_KERNEL, StringIds "
            "where id = demangledName group by 1"
        ).fetchall()
        calls = query.execute("select count(*), sum(end - start) from CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()
        ranges = query.execute("select count(*) from NVTX_EVENTS where end is not null").fetchone()[0]
    query.close()
    run = load(file, tmp_path)
    assert activity(run) == expected
    by_name = run.kernels.filter(pl.col("kind").is_in(["kernel", "collective"])).group_by(
        pl.col("name").cast(pl.String)
    ).agg(pl.len(), pl.col("dur_ns").sum())
    assert sorted(by_name.collect().rows()) == sorted(names)
    called = run.host.filter(pl.col("kind").is_in(["runtime", "driver"]))
    assert called.select(pl.len(), pl.col("dur_ns").sum()).collect().row(0) == calls
    assert run.host.filter(pl.col("kind").is_in(["annotation", "op"])).collect().height == ranges


def test_the_pair_has_the_published_totals(data: Path, tmp_path: Path) -> None:
    for name, count, milliseconds in ((BEFORE, 4010, 535.2), (AFTER, 3587, 488.8)):
        run = load(data / "traces" / "nsys_sqlite" / name, tmp_path)
        kernels = run.kernels.filter(pl.col("kind").is_in(["kernel", "collective"])).collect()
        assert kernels.height == count
        assert round(kernels["dur_ns"].sum() / 1e6, 1) == milliseconds
        assert kernels["device"].n_unique() == 2


def test_no_activity_is_tied_to_a_call_of_another_process(data: Path, tmp_path: Path) -> None:
    run = load(data / "traces" / "nsys_sqlite" / BEFORE, tmp_path)
    calls = run.host.filter(pl.col("kind").is_in(["runtime", "driver"]), pl.col("correlation").is_not_null())
    pairs = run.kernels.join(calls, on="correlation", suffix="_call").collect()
    assert pairs.height > 4000
    assert (pairs["pid"] == pairs["pid_call"]).all()


def test_every_table_reads_the_same_by_pages_and_by_sqlite(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_LEAST_PAGES", 1)
    files = [samples / "nsys.sqlite"]
    shared = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "traces" / "nsys_sqlite"
    files += [shared / name for name in RECORDINGS if (shared / name).exists()]
    by_pages = 0
    for file in files:
        fast, plain = NsysDatabase(file, Faults()), NsysDatabase(file, Faults(), fast=False)
        for table, columns in fast.tables.items():
            declared = {row[1]: str(row[2]) for row in plain._connection.execute(f"pragma table_info({table})")}
            kinds = [[c for c in columns if declared[c].upper() == kind] for kind in ("INTEGER", "TEXT", "REAL")]
            left, right = fast.read(table, *kinds), plain.read(table, *kinds)
            if left is not None and left.height and right is not None:
                assert_frame_equal(left, right)
                by_pages += left.height
        fast.close()
        plain.close()
    assert by_pages > 500


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=40), st.booleans())
def test_a_damaged_export_opens_or_is_refused_in_a_sentence(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: list[tuple[int, int]], cut: bool
) -> None:
    monkeypatch.setattr(database, "_LEAST_PAGES", 1)
    content = bytearray((samples / "nsys.sqlite").read_bytes())
    for position, byte in damage:
        content[16 + position % (len(content) - 16)] = byte
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(content[: len(content) // 2] if cut else content)
    try:
        run = load(path, tmp_path)
    except Unreadable as refused:
        assert "\n" not in refused.reason
    else:
        run.kernels.collect()


def test_a_truncated_export_gives_what_it_has(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.sqlite"
    content = (samples / "nsys.sqlite").read_bytes()
    path.write_bytes(content[: len(content) * 3 // 4])
    try:
        (run,) = open_run(str(path), use_cache=False)
    except Unreadable as refused:
        assert "cut.sqlite" in str(refused)
    else:
        assert any("only in part" in warning for warning in run.info.warnings)


def test_the_sample_is_what_its_script_makes(samples: Path, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_nsys", samples / "make_nsys.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make(tmp_path / "made.sqlite")
    dumps = []
    for path in (tmp_path / "made.sqlite", samples / "nsys.sqlite"):
        connection = sqlite3.connect(path)
        dumps.append(list(connection.iterdump()))
        connection.close()
    assert dumps[0] == dumps[1]


def test_the_sample_says_what_it_recorded(samples: Path, tmp_path: Path) -> None:
    run = load(samples / "nsys.sqlite", tmp_path)
    assert run.info.tool == "Nsight Systems 2025.3.1.90"
    assert [(d.id, d.name, d.properties["smCount"]) for d in run.info.devices] == [
        ("GPU 0", "NVIDIA A100-SXM4-40GB", 108), ("GPU 1", "NVIDIA A100-SXM4-40GB", 108),
    ]
    assert run.info.warnings == ("Nsight Systems warning: Not all NVTX events might have been collected.",)
    first = run.kernels.filter(pl.col("grid") == "64,2,1").head(1)
    assert rows(first, "block", "registers", "shared_bytes", "pid", "device", "graph") == [
        ("128,1,1", 202, 81920, 4242, "GPU 0", None)
    ]
    assert run.kernels.filter(pl.col("graph") == 5).collect().height == 16
    operators = run.host.filter(pl.col("kind") == "op").select(pl.col("name").cast(pl.String).unique().sort()).collect()
    assert operators["name"].to_list() == [
        "AddmmBackward0", "aten::gelu", "aten::linear", "aten::native_layer_norm", "c10d::allreduce_",
    ]
    assert run.host.filter(pl.col("name") == "Optimizer.step#AdamW.step").collect().height == 8
    assert run.host.filter(pl.col("name") == "on CPU").collect().height == 8
    assert sorted(run.host.filter(pl.col("kind") == "io").collect()["name"].unique().to_list()) == ["read"]
    assert sorted(rows(run.metrics.select("metric", "unit").unique(), "metric", "unit")) == [
        ("DRAM Read Bandwidth [Throughput %]", "%"), ("GPC Clock Frequency [MHz]", "MHz"),
        ("SMs Active [Throughput %]", "%"), ("Tensor Active [Throughput %]", "%"),
    ]


def test_times_begin_at_zero_and_the_epoch_moves_with_them(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", f"""
        create table CUPTI_ACTIVITY_KIND_KERNEL ({EVENT}, demangledName integer);
        create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer);
        insert into StringIds values (1, 'k');
        insert into TARGET_INFO_SESSION_START_TIME values (1000000000000);
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (900, 950, 0, 1, 7, 2, 1), (500, 520, 0, 1, 7, 1, 1);
    """)
    run = load(path, tmp_path)
    assert run.info.epoch_ns == 1000000000500
    assert rows(run.kernels, "index", "start_ns", "dur_ns", "correlation") == [(0, 0, 20, 1), (1, 400, 50, 2)]


def test_an_export_of_2020_without_a_version(tmp_path: Path) -> None:
    """Everything is NOT NULL there: what was not recorded is 0 or an empty text, and calls have no class."""
    path = make(tmp_path / "old.qdrep.sqlite", f"""
        create table CUPTI_ACTIVITY_KIND_KERNEL (id integer primary key autoincrement, start int not null,
          end int not null, deviceId int not null, contextId int not null, streamId int not null,
          correlationId int not null, globalPid int not null, demangledName int not null, shortName int not null,
          registersPerThread int not null, gridX int not null, gridY int not null, gridZ int not null,
          blockX int not null, blockY int not null, blockZ int not null, staticSharedMemory int not null,
          dynamicSharedMemory int not null, graphNodeId int not null);
        create table CUPTI_ACTIVITY_KIND_RUNTIME (start int not null, end int not null, globalTid int not null,
          correlationId int not null, nameId int not null, returnValue int not null);
        create table NVTX_EVENTS (start int not null, end int not null, eventType int not null, text text not null,
          globalTid int not null, textId int not null, domainId int not null);
        create table GENERIC_EVENT_SOURCES (sourceId integer primary key, data text not null);
        create table GENERIC_EVENT_TYPES (typeId integer primary key, sourceId integer not null, data text not null);
        create table GENERIC_EVENTS (rawTimestamp integer, timestamp integer, typeId integer, data text);
        insert into StringIds values (1, 'void k<float>()'), (2, 'cudaLaunchKernel_v7000'), (3, 'cuLaunchKernel'),
          (4, 'registered');
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (1, 100, 150, 0, 1, 7, 11, {TID}, 1, 1, 32, 4, 1, 1, 64, 1, 1, 16,
          0, 0);
        insert into CUPTI_ACTIVITY_KIND_RUNTIME values (50, 60, {TID}, 11, 2, 0), (70, 75, {TID}, 0, 3, 0);
        insert into NVTX_EVENTS values (40, 90, 59, 'written', {TID}, 0, 0), (41, 80, 59, '', {TID}, 4, 0),
          (45, 0, 34, 'a mark', {TID}, 0, 0);
        insert into GENERIC_EVENT_SOURCES values (9, '{{"Name": "GPU Metrics"}}');
        insert into GENERIC_EVENT_TYPES values ({1 << 56 | 1}, 9, '{{"Name": "GA100"}}'), (5, 9, '{{}}');
        insert into GENERIC_EVENTS values (0, 110, {1 << 56 | 1}, '{{"SM Active": "37", "Clock": 1410, "note": "x"}}');
    """)
    run = load(path, tmp_path)
    assert "schema" not in run.info.facts
    assert rows(run.kernels, "name", "pid", "graph", "grid", "correlation", "shared_bytes") == [
        ("void k<float>()", PID, None, "4,1,1", 11, 16)
    ]
    assert rows(run.host, "name", "kind", "start_ns", "dur_ns", "pid", "tid", "correlation") == [
        ("written", "annotation", 0, 50, PID, PID, None), ("registered", "annotation", 1, 39, PID, PID, None),
        ("cudaLaunchKernel_v7000", "runtime", 10, 10, PID, PID, 11),
        ("cuLaunchKernel", "driver", 30, 5, PID, PID, None),
    ]
    assert sorted(rows(run.metrics, "metric", "device", "value", "ts_ns")) == [
        ("Clock", "GPU 1", 1410.0, 70), ("SM Active", "GPU 1", 37.0, 70),
    ]


def test_graphs_by_id_by_node_and_as_a_whole(tmp_path: Path) -> None:
    path = make(tmp_path / "graphs.sqlite", f"""
        create table CUPTI_ACTIVITY_KIND_KERNEL ({EVENT}, globalPid integer, shortName integer, graphNodeId integer,
          graphId integer);
        create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE ({EVENT}, globalPid integer, graphId integer, graphExecId integer);
        insert into StringIds values (1, 'k');
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (1, 2, 0, 1, 7, 1, {TID}, 1, {9 << 32 | 3}, 4),
          (3, 4, 0, 1, 7, 1, {TID}, 1, {9 << 32 | 3}, null), (5, 6, 0, 1, 7, 1, {TID}, 1, null, null);
        insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (7, 30, 0, 1, 7, 2, {TID}, 12, 13);
    """)
    run = load(path, tmp_path)
    assert rows(run.kernels, "name", "kind", "graph", "dur_ns") == [
        ("k", "kernel", 4, 1), ("k", "kernel", 9, 1), ("k", "kernel", None, 1), ("CUDA graph 12", "kernel", 12, 23),
    ]
    assert any("recorded as a whole" in warning for warning in run.info.warnings)


def test_devices_are_those_of_the_machine_not_of_the_process(tmp_path: Path) -> None:
    other = 1 << 48 | OTHER << 24
    path = make(tmp_path / "visible.sqlite", f"""
        create table CUPTI_ACTIVITY_KIND_KERNEL ({EVENT}, globalPid integer, shortName integer);
        create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, globalTid integer, correlationId integer,
          nameId integer);
        create table TARGET_INFO_CUDA_DEVICE (gpuId integer, cudaId integer, pid integer);
        create table MPI_RANKS (globalTid integer, rank integer);
        insert into StringIds values (1, 'k'), (2, 'cudaLaunchKernel');
        insert into TARGET_INFO_CUDA_DEVICE values (2, 0, {PID}), (5, 0, {OTHER});
        insert into MPI_RANKS values ({TID}, 0), ({other}, 1);
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (1, 2, 0, 1, 7, 3, {TID}, 1), (2, 4, 0, 1, 7, 3, {other}, 1);
        insert into CUPTI_ACTIVITY_KIND_RUNTIME values (0, 1, {TID}, 3, 2), (1, 2, {other}, 3, 2);
    """)
    run = load(path, tmp_path)
    assert rows(run.kernels, "device", "pid", "rank") == [("GPU 2", PID, 0), ("GPU 5", OTHER, 1)]
    tied = run.kernels.join(run.host, on="correlation", suffix="_call")
    assert set(rows(tied, "pid", "pid_call")) == {(PID, PID), (OTHER, OTHER)}  # a join promises no order
    assert run.info.ranks == (0, 1)


def test_a_described_gpu_without_a_number_is_the_one_that_ran(tmp_path: Path) -> None:
    path = make(tmp_path / "old.sqlite", f"""
        create table CUPTI_ACTIVITY_KIND_KERNEL ({EVENT}, shortName integer);
        create table TARGET_INFO_GPU (name text, smCount integer);
        insert into StringIds values (1, 'k');
        insert into TARGET_INFO_GPU values ('Tesla V100', 80);
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (1, 2, 0, 1, 7, 3, 1);
    """)
    assert [(device.id, device.name) for device in load(path, tmp_path).info.devices] == [("GPU 0", "Tesla V100")]


def test_without_kernels_it_still_opens_and_says_so(tmp_path: Path) -> None:
    path = make(tmp_path / "host.sqlite", f"""
        create table OSRT_API (start integer, end integer, globalTid integer, nameId integer);
        insert into StringIds values (1, 'poll'), (2, 'fwrite');
        insert into OSRT_API values (5, 9, {TID}, 1), (10, 8, {TID}, 2), (20, 30, {TID}, 99);
    """)
    run = load(path, tmp_path)
    assert rows(run.host, "name", "kind", "start_ns", "dur_ns") == [("poll", "sched", 0, 4), ("fwrite", "io", 5, None)]
    assert any("no device activity" in warning for warning in run.info.warnings)
    assert "1 value of OSRT_API (end) could not be read: ends before it starts" in run.info.warnings
    with pytest.raises(Unreadable, match="no event with a time"):
        load(make(tmp_path / "empty.sqlite", "create table OSRT_API (start integer)"), tmp_path)


def test_the_environment_is_never_shown(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "private.sqlite"
    path.write_bytes((samples / "nsys.sqlite").read_bytes())
    make(path, """
        create table TARGET_INFO_SYSTEM_ENV (name text, value text);
        insert into TARGET_INFO_SYSTEM_ENV values ('EnvVars', 'TOKEN=hunter2');
        insert into META_DATA_CAPTURE values ('PROCESS_ENV', 'TOKEN=hunter2');
        insert into META_DATA_EXPORT values ('EXPORT_USER', 'hunter2');
    """)
    run = load(path, tmp_path)
    store.write((run,), tmp_path / "out")
    assert b"hunter2" not in b"".join(file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert "hunter2" not in json.dumps(run.info.facts) + repr(run.info)


def test_nothing_appears_beside_it_and_a_compressed_one_opens(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "recordings" / "run.sqlite"
    path.parent.mkdir()
    path.write_bytes((samples / "nsys.sqlite").read_bytes())
    path.chmod(0o444)
    (direct,) = open_run(str(path))
    assert [entry.name for entry in path.parent.iterdir()] == ["run.sqlite"]
    packed = tmp_path / "run.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    (run,) = open_run(str(packed))
    assert run.info.label == direct.info.label == "run"
    assert run.kernels.collect().equals(direct.kernels.collect())


def test_it_can_be_stopped(samples: Path, tmp_path: Path) -> None:
    def stop(done: int, total: int, events: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        LOADER.load(Job(samples / "nsys.sqlite", tmp_path, progress=stop))


blocks = st.lists(st.lists(st.integers(0, 50) | st.none(), max_size=8), max_size=12)


@given(blocks)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_that_went_through_files_are_in_the_order_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: list[list[int | None]]
) -> None:
    monkeypatch.setattr(spool, "_PART_BYTES", 100)
    monkeypatch.setattr(spool, "_STRETCH_ROWS", 5)
    monkeypatch.setattr(spool, "_SAMPLED", 2)
    tables, writer = [], ThreadPoolExecutor(1)
    for waiting in (0, 300, 1 << 30):
        monkeypatch.setattr(spool, "WAITING_BYTES", waiting)
        rows = spool.TableSpool("host", tmp_path, writer)
        numbers = iter(range(1000))
        for times in blocks:
            block = [(time, 1 - (time or 0) % 3, next(numbers)) for time in times]
            rows.add(pl.DataFrame(block, schema=dict.fromkeys(("start_ns", "dur_ns", "pid"), pl.Int64), orient="row"))
        tables.append(rows.finish(lambda table: table.with_columns(pl.col("start_ns") + 7)).collect())
        assert not list(tmp_path.glob(".host-*"))
        assert rows.rows == tables[-1].height
        times = tables[-1]["start_ns"].drop_nulls()
        assert rows.earliest == (min(times) - 7 if times.len() else None)
    writer.shutdown()
    read = enumerate(time for times in blocks for time in times)
    both = [(None if time is None else time + 7, number) for number, time in read]
    expected = [*sorted(row for row in both if row[0] is not None), *(row for row in both if row[0] is None)]
    for table in tables:
        assert table.select("start_ns", "pid").rows() == expected
        assert_frame_equal(table, tables[0])


@pytest.mark.parametrize("name", ["", BEFORE])
def test_a_big_export_goes_through_files_and_comes_out_the_same(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found: Path = request.getfixturevalue("data" if name else "samples")
    file = found / "traces" / "nsys_sqlite" / name if name else found / "nsys.sqlite"
    small = load(file, directory(tmp_path, "small"))
    for setting, value in (("WAITING_BYTES", 1000), ("_PART_BYTES", 5000), ("_STRETCH_ROWS", 700)):
        monkeypatch.setattr(spool, setting, value)
    monkeypatch.setattr(database, "_LEAST_PAGES", 1)
    monkeypatch.setattr(host, "SCHEDULED_ROWS", 3)
    big = load(file, directory(tmp_path, "big"))
    assert (tmp_path / "big" / "kernels.arrow").exists()
    assert big.info == small.info
    for table in ("kernels", "host", "metrics"):
        assert_frame_equal(big.table(table).collect(), small.table(table).collect())


def directory(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def test_threads_are_called_by_their_recorded_names(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "named.sqlite"
    shutil.copy(samples / "nsys.sqlite", path)
    with closing(sqlite3.connect(path)) as database:
        thread, = database.execute("select globalTid from CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()
        database.executescript(f"""create table ThreadNames (nameId integer, priority integer, globalTid integer);
            insert into StringIds values (9001, 'pt_main_0'), (9002, 'someone else''s');
            insert into ThreadNames values (9001, 20, {thread}), (9002, 20, {1 << 48 | 1 << 24 | 5})""")
        database.commit()
    (run,) = open_run(str(path), use_cache=False)
    pid, tid = thread >> 24 & 0xFFFFFF, thread & 0xFFFFFF
    assert run.info.facts["threads"] == {f"{pid} {tid}": "pt_main_0"}
    assert thread_name(run, None, pid, tid) == f"thread {tid} pt_main_0"
    assert thread_name(run, 3, pid, 1) == "rank 3 thread 1"
    assert f"thread {tid} pt_main_0" in [lane.name for lane in timeline_of(run, Options()).lanes]
    job = merge("job", "job", (run, run), (0, 1))
    assert thread_name(job, 1, pid, tid) == f"rank 1 thread {tid}", "of a job each rank has names of its own"


def test_a_kernel_launched_within_a_call_of_nccl_is_a_collective_by_record(tmp_path: Path) -> None:
    path = make(tmp_path / "ranges.sqlite", f"""
        insert into StringIds values (1, 'plain_kernel'), (2, 'cudaLaunchKernel');
        create table CUPTI_ACTIVITY_KIND_KERNEL ({EVENT}, globalPid integer, demangledName integer, gridX integer,
            gridY integer, gridZ integer);
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (200, 300, 0, 1, 7, 1, {TID}, 1, 8, 1, 1),
            (400, 500, 0, 1, 7, 2, {TID}, 1, 8, 1, 1), (600, 700, 0, 1, 7, 3, {TID}, 1, 8, 1, 1);
        create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, globalTid integer, nameId integer,
            correlationId integer);
        insert into CUPTI_ACTIVITY_KIND_RUNTIME values (110, 115, {TID}, 2, 1), (210, 215, {TID}, 2, 2),
            (330, 335, {TID}, 2, 3);
        create table NVTX_EVENTS (start integer, end integer, eventType integer, globalTid integer, text text,
            domainId integer);
        insert into NVTX_EVENTS values (0, null, 75, {TID}, 'NCCL', 4), (100, 150, 59, {TID}, 'ncclAllReduce', 4),
            (300, 350, 59, {TID}, 'ncclGroupEnd', 4);""")
    names = ("kind", "by", "collective")
    kernels = recognised(load(path, tmp_path)).kernels.with_columns(pl.col(names).cast(pl.String))
    assert rows(kernels, *names) == [
        ("collective", "record", "AllReduce"), ("kernel", None, None), ("collective", "record", None)]
