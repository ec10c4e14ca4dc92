"""Reports of Nsight Systems through their exports, and exports as Parquet: the same tables, or what to do instead."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import opening
from warplens.loaders.loader import Job
from warplens.loaders.nsys import LOADER, PARQUET, report
from warplens.loaders.trace import TABLE_NAMES, Trace


def opened(path: Path) -> Trace:
    (run,) = opening.open_run(str(path), use_cache=False, compiled=False)
    return run


def same(one: Trace, other: Trace) -> bool:
    return all(one.table(name).collect().equals(other.table(name).collect()) for name in TABLE_NAMES)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A report without an export."""
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"\x00\x01 nobody knows this format" * 40)
    return path


def program(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for nsys on the PATH."""
    folder.mkdir(exist_ok=True)
    made = folder / "nsys"
    made.write_text(f"#!/bin/sh\n{script}\n")
    made.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_export_beside_a_report_is_read(recorded: Path, samples: Path) -> None:
    for name in ("run.sqlite", "run.nsys-rep.sqlite"):
        shutil.copy(samples / "nsys.sqlite", recorded.with_name(name))
        run = opened(recorded)
        assert same(run, opened(samples / "nsys.sqlite"))
        assert (run.info.label, run.info.source, run.info.format) == ("run", str(recorded), "nsys")
        assert f"read from the export next to the report, {name}" in run.info.warnings
        assert same(opened(recorded.parent), run)  # a folder of both is one recording
        recorded.with_name(name).unlink()


def test_an_export_older_than_its_report_is_said(recorded: Path, samples: Path) -> None:
    export = Path(shutil.copy(samples / "nsys.sqlite", recorded.with_suffix(".sqlite")))
    os.utime(export, (1, 1))
    assert any("the export is older than the report" in said for said in opened(recorded).info.warnings)


def test_without_an_export_nsys_is_asked_for_one(recorded, samples, tmp_path, monkeypatch) -> None:
    program(tmp_path / "bin", f'[ "$1 $2 $3" = "export --type sqlite" ] && cp {samples / "nsys.sqlite"} "$7"',
            monkeypatch)
    told: list[int] = []
    job = Job(recorded, tmp_path / "work", lambda done, total, events: told.append(done))
    job.workspace.mkdir()
    (run,) = report.LOADER.load(job)
    assert same(run, LOADER.load(Job(samples / "nsys.sqlite", tmp_path))[0]) and run.info.label == "run"
    assert "read from an export that nsys made of the report just now" in run.info.warnings
    assert not list(job.workspace.glob("export*")) and told


def test_what_nsys_says_of_a_report_it_cannot_export_is_the_reason(recorded, tmp_path, monkeypatch) -> None:
    program(tmp_path / "bin", "echo Importer error: the report is truncated. >&2; exit 3", monkeypatch)
    with pytest.raises(Unreadable, match="could not be exported by nsys") as refused:
        opened(recorded)
    assert "the report is truncated" in str(refused.value)


def test_a_load_that_is_stopped_stops_nsys(recorded, tmp_path, monkeypatch) -> None:
    program(tmp_path / "bin", f"echo $$ > {tmp_path}/pid; exec sleep 60", monkeypatch)

    def stop(done: int, total: int, events: int) -> None:
        if (tmp_path / "pid").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        report.LOADER.load(Job(recorded, tmp_path, stop))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_where_nsys_is_not_installed_the_refusal_has_the_command(recorded, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(recorded.parent))
    with pytest.raises(Unreadable) as refused:
        opened(recorded)
    assert "nsys export --type sqlite" in refused.value.advice and "not installed here" in refused.value.reason


def test_a_damaged_export_is_the_reports_reason(recorded: Path) -> None:
    recorded.with_suffix(".sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 200)
    with pytest.raises(Unreadable, match="has an export that is damaged"):
        opened(recorded)


def test_parquet_has_the_tables_of_sqlite(samples: Path) -> None:
    parquet_run, sqlite_run = opened(samples / "nsys_pqtdir"), opened(samples / "nsys.sqlite")
    assert same(parquet_run, sqlite_run)
    assert parquet_run.info.label == "nsys" and parquet_run.info.tool == sqlite_run.info.tool
    assert parquet_run.info.warnings == sqlite_run.info.warnings
    assert same(opened(samples / "nsys_pqtdir" / "NVTX_EVENTS.parquet"), sqlite_run)


def test_columns_and_tables_an_export_lacks_are_null_or_empty(samples: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(samples / "nsys_pqtdir", tmp_path / "few"))
    kernels = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    pl.read_parquet(kernels).drop("gridX", "streamId").write_parquet(kernels)
    (folder / "NVTX_EVENTS.parquet").unlink()
    pl.DataFrame({"unknown": [1, 2]}).write_parquet(folder / "OSRT_API.parquet")
    run = opened(folder)
    rows = run.kernels.filter(pl.col("kind") == "kernel").collect()
    assert rows.height == 48 and rows["stream"].null_count() == rows["grid"].null_count() == 48
    assert not run.host.filter(pl.col("kind") == "annotation").collect().height


def test_a_damaged_table_is_said_and_the_others_are_read(samples: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(samples / "nsys_pqtdir", tmp_path / "torn"))
    (folder / "CUPTI_ACTIVITY_KIND_RUNTIME.parquet").write_bytes(b"PAR1 and nothing after it")
    run = opened(folder)
    assert any("CUPTI_ACTIVITY_KIND_RUNTIME.parquet could not be read" in said for said in run.info.warnings)
    assert run.kernels.collect().height == 80


def test_a_page_of_minus_one_values_is_said_and_does_not_end_the_process(samples: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(samples / "nsys_pqtdir", tmp_path / "aborting"))
    table = folder / "OSRT_API.parquet"
    pl.DataFrame({"id": range(5)}).write_parquet(table, compression="uncompressed")
    table.write_bytes(table.read_bytes().replace(b"\x2c\x15\x0a", b"\x2c\x15\x01"))
    run = opened(folder)
    assert any("OSRT_API.parquet could not be read (a page claims -1 of 5 values)" in one for one in run.info.warnings)
    assert run.kernels.collect().height == 80


def test_parquet_with_bytes_changed_opens_or_is_refused(samples: Path, tmp_path: Path, deep: bool) -> None:
    chance, ended, tries = random.Random(7), Counter[str](), 300 if deep else 10
    for _ in range(tries):
        folder = Path(shutil.copytree(samples / "nsys_pqtdir", tmp_path / "some", dirs_exist_ok=True))
        file = chance.choice(sorted(folder.iterdir()))
        data = bytearray(file.read_bytes())
        for _ in range(chance.choice((1, 3, 20))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        file.write_bytes(bytes(data))
        try:
            (run,) = PARQUET.load(Job(folder / "StringIds.parquet", tmp_path))
        except Unreadable:
            ended["refused"] += 1
            continue
        for name in TABLE_NAMES:
            run.table(name).collect()
        ended["said" if any("could not be read" in one for one in run.info.warnings) else "opened"] += 1
    assert ended["opened"] and ended["said"] and ended.total() == tries, ended
