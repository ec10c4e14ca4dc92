"""The environment of a recorded process is shown where somebody asks for it, and nowhere else."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from warplens.cli.main import main

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
SECRET = "hunter2"


def kineto(folder: Path) -> Path:
    """Before the events and behind them."""
    known = json.loads((SAMPLES / "kineto.pt.trace.json").read_text())
    known = {"metadata": {"system": {"env": {"API_TOKEN": SECRET}}}, **known, "argv": ["train.py", "--token", SECRET]}
    (path := folder / "kineto.pt.trace.json").write_text(json.dumps(known))
    return path


def nsys(folder: Path) -> Path:
    """In a table, and as the block of variables among the names."""
    path = Path(shutil.copy(SAMPLES / "nsys.sqlite", folder))
    with sqlite3.connect(path) as database:
        database.execute("create table TARGET_INFO_SYSTEM_ENV (globalVid integer, name text, value text)")
        database.execute("insert into TARGET_INFO_SYSTEM_ENV values (1, 'CommandLine', ?)", (f"--token {SECRET}",))
        database.execute("insert into StringIds values (999999, ?)", (f"PATH=/bin\0API_TOKEN={SECRET}\0",))
    database.close()
    return path


@pytest.mark.parametrize("plant", [kineto, nsys])
def test_it_is_shown_where_somebody_asks(
    plant: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(plant(tmp_path))
    assert main(["doctor", run, "--environment"]) == 0
    assert capsys.readouterr().out.count(SECRET) == 2


def test_without_a_run_there_is_no_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--environment"]) == 2
    assert "warplens doctor RUN --environment" in capsys.readouterr().err


@pytest.mark.parametrize("plant", [kineto, nsys])
def test_nothing_else_shows_or_writes_it(
    plant: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run, out = str(plant(tmp_path)), tmp_path / "out"
    out.mkdir()
    for command in (
        ["report", run, "--format", "json", "-o", str(out / "report.json")], ["report", run, "--format", "md"],
        ["report", run, "--view", "launches", "--format", "json", "--top", "0"], ["report", run, "--view", "triage"],
        ["doctor", run], ["slice", run, "-o", str(out / "slice.json")], ["convert", run, "-o", str(out / "tables")],
        ["sql", run, "select * from host"], ["sql", run, "show tables"],
    ):
        assert main(command) == 0, command
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err, command
    files = [path for folder in (out, tmp_path / "cache") for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".json", ".parquet", ".arrow"}
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path
        if path.suffix in (".parquet", ".arrow"):
            frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_ipc(path)
            assert SECRET not in frame.write_json(), path
