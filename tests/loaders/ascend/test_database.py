"""Ascend's database: the same run as the tables and the trace beside it, ties included."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from warplens.loaders.ascend import DATABASE as LOADER
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import Job
from warplens.loaders.trace import Device, Trace

NAME = "ascend_pytorch_profiler_1.db"
COLUMNS = ("start_ns", "dur_ns", "name", "device")


def load(path: Path, folder: Path) -> Trace:
    (trace,) = LOADER.load(Job(path, folder))
    return trace


def changed(samples: Path, folder: Path, script: str) -> Path:
    path = Path(shutil.copy(samples / NAME, folder))
    with sqlite3.connect(path) as database:
        database.executescript(script)
    database.close()
    return path


def of_kinds(trace: Trace, *kinds: str) -> list[tuple[object, ...]]:
    rows = trace.kernels.filter(pl.col("kind").cast(pl.String).is_in(kinds)).select(COLUMNS)
    return rows.collect().sort("start_ns").rows()


def test_kernels_and_collectives_are_those_of_the_tables(samples: Path, tmp_path: Path) -> None:
    (text,) = open_run(str(samples / "ascend" / "rank1_ascend_pt"))
    run = load(samples / NAME, tmp_path)
    earlier = (run.info.epoch_ns or 0) - (text.info.epoch_ns or 0)
    for kind in ("kernel", "collective"):
        wanted, found = of_kinds(text, kind), of_kinds(run, kind)
        whole = {(start, name) for start, _, name, _ in wanted if "hcom" in str(name) or kind == "kernel"}
        assert {(start + earlier, name) for start, _, name, _ in found} == whole and found
    assert run.info.devices == (Device("NPU 0", "Made-up NPU"),) and run.info.ranks == (1,)
    assert run.info.facts["host_name"] == "made-up-host" and not run.info.warnings


def test_operators_and_calls_are_tied_to_what_they_launched(samples: Path, tmp_path: Path) -> None:
    run = load(samples / NAME, tmp_path)
    columns = ("name", "op_id", "correlation", "kind", "grid", "bytes", "dtype", "in_elements")
    kernels = run.kernels.select(columns).collect()
    host = run.host.select("name", "external_id", "correlation", "kind", "pid", "tid").collect()
    operators = kernels.join(host.filter(kind="op"), left_on="op_id", right_on="external_id")
    assert operators.height == kernels.height == 10
    assert set(operators.select("name", "name_right").rows()) >= {("aclnnMm_MatMulV2", "aclnnMm")}
    calls = kernels.join(host.filter(kind="runtime").drop_nulls("correlation"), on="correlation")
    assert calls.height == 10 and set(calls["name_right"]) == {"rtKernelLaunch"}, "the innermost of each connection"
    assert set(host.select("pid", "tid").drop_nulls().rows()) == {(4711, 4711), (4711, 4755)}
    one = {row["kind"]: row for row in kernels.to_dicts()}
    assert one["memcpy"]["bytes"] == 1 << 20 and one["kernel"]["grid"] == "40,1,1"
    assert (one["collective"]["dtype"], one["collective"]["in_elements"]) == ("FP32", 1 << 20)


def test_steps_and_memory_are_there(samples: Path, tmp_path: Path) -> None:
    run = load(samples / NAME, tmp_path)
    steps = run.host.filter(pl.col("kind").cast(pl.String) == "annotation").select("name").collect()
    assert steps["name"].to_list() == ["ProfilerStep#7", "ProfilerStep#8"]
    held = run.metrics.filter(pl.col("metric").cast(pl.String) == "memory allocated").collect()
    assert held["value"].to_list() == [(100.5 + n) * (1 << 20) for n in range(3)] and held["device"][0] == "NPU 0"


def test_a_database_of_the_command_line_tool_has_no_operators(samples: Path, tmp_path: Path) -> None:
    path = changed(samples, tmp_path, "drop table PYTORCH_API; drop table CONNECTION_IDS; drop table RANK_DEVICE_MAP;")
    run = load(path.rename(tmp_path / "msprof_20260302.db"), tmp_path)
    assert run.kernels.collect().height == 10 and run.info.ranks == ()
    assert "op" not in run.host.collect()["kind"].cast(pl.String).to_list()


def test_a_connection_that_is_none_ties_nothing(samples: Path, tmp_path: Path) -> None:
    path = changed(samples, tmp_path, """
        update TASK set connectionId = 4294967295; update COMMUNICATION_OP set connectionId = 4294967295;
        update CANN_API set connectionId = 4294967295;
    """)
    run = load(path, tmp_path)
    assert run.kernels.collect()["correlation"].null_count() == 10
    assert run.host.collect()["correlation"].drop_nulls().is_empty()


def test_waits_are_waits_and_records_of_events_are_no_activity(samples: Path, tmp_path: Path) -> None:
    path = changed(samples, tmp_path, """
        insert into STRING_IDS values (900, 'NOTIFY_WAIT_SQE');
        insert into TASK select startNs, endNs, 0, 1, 900, globalPid, 900, 0, 3, 900, 0 from TASK limit 1;
    """)
    kinds = load(path, tmp_path).kernels.collect()["kind"].cast(pl.String).value_counts().rows()
    assert dict(kinds) == {"kernel": 6, "collective": 2, "memcpy": 2, "sync": 1}


def test_a_folder_with_only_the_database_opens_and_one_with_the_tables_too_is_one_run(
    samples: Path, tmp_path: Path
) -> None:
    inside = tmp_path / "rank1_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    inside.mkdir(parents=True)
    shutil.copy(samples / NAME, inside)
    (run,) = open_run(str(inside.parent))
    assert run.info.format == "ascend-db"
    both = Path(shutil.copytree(samples / "ascend" / "rank1_ascend_pt", tmp_path / "both_ascend_pt"))
    shutil.copy(samples / NAME, both / "ASCEND_PROFILER_OUTPUT")
    (run,) = open_run(str(both))
    assert run.info.format == "ascend"


def test_a_database_without_a_time_is_refused(samples: Path, tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no event with a time"):
        load(changed(samples, tmp_path, """
            delete from TASK; delete from COMMUNICATION_OP; delete from CANN_API; delete from PYTORCH_API;
            delete from STEP_TIME; delete from MEMORY_RECORD;
        """), tmp_path)
