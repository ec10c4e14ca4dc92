"""doctor's list of tables: by what the container holds, read or not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from warplens.loaders.ingest.opening import open_run


def test_a_list_that_no_reader_knows_is_listed(samples: Path, tmp_path: Path) -> None:
    document = json.loads((samples / "rocprofv3_results.json").read_text())
    document["rocprofiler-sdk-tool"][0]["buffer_records"]["of_a_later_version"] = [{"x": 1}] * 7
    (tmp_path / "run_results.json").write_text(json.dumps(document))
    (trace,) = open_run(str(tmp_path / "run_results.json"), use_cache=False)
    tables = [tuple(table) for table in trace.info.facts["tables"]]
    assert ("of_a_later_version", 7, False) in tables and ("kernel_dispatch", 12, True) in tables


def test_a_file_of_the_run_that_no_reader_knows_is_listed(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "rocprofv3", tmp_path / "run")
    (tmp_path / "run" / "run_later_trace.csv").write_text('"Kind","Start_Timestamp"\n' + '"X",3489389197000000\n' * 9)
    (trace,) = open_run(str(tmp_path / "run"), use_cache=False)
    tables = [tuple(table) for table in trace.info.facts["tables"]]
    assert ("run_later_trace.csv", 9, False) in tables and ("run_kernel_trace.csv", 12, True) in tables
    assert not any(table == "run_agent_info.csv" for table, _, _ in tables)


def test_a_dispatch_without_a_time_does_not_move_the_zero(samples: Path, tmp_path: Path) -> None:
    import sqlite3

    shutil.copy(samples / "rocpd_results.db", path := tmp_path / "results.db")
    path.chmod(0o644)
    with sqlite3.connect(path) as database:
        (table,) = next(iter(database.execute("select name from sqlite_master where name like '%kernel_dispatch%' "
                                              "and type = 'table'")))
        database.execute(f'update "{table}" set start = 0, end = 0 where id = (select min(id) from "{table}")')
    (trace,) = open_run(str(path), use_cache=False)
    assert 0 <= trace.kernels.collect()["start_ns"].min() < 1_000_000  # type: ignore[operator]
