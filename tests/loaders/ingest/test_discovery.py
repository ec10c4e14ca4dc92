"""Traces are found by their first bytes, near ones first, and nothing that lies about stops the search."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from warplens.loaders.ingest.discovery import discover


def test_finds_traces_whatever_they_are_called(tmp_path: Path, samples: Path) -> None:
    table = samples / "kernel_table_bert_training.txt"
    shutil.copy(table, tmp_path / "no-suffix")
    (tmp_path / "deeper").mkdir()
    shutil.copy(table, tmp_path / "deeper" / "b.log")
    (tmp_path / "notes.txt").write_text("not a trace")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / ".hidden").mkdir()
    shutil.copy(table, tmp_path / ".hidden" / "c.txt")

    found = list(discover(tmp_path))

    assert [one.path.relative_to(tmp_path).as_posix() for one in found] == ["no-suffix", "deeper/b.log"]
    assert {one.format for one in found} == {"kernel-table"}
    assert found[0].bytes == table.stat().st_size


def test_files_that_are_one_recording_are_offered_once(tmp_path: Path, samples: Path) -> None:
    shutil.copytree(samples / "rocprofv3", tmp_path / "out")
    shutil.copytree(samples / "rocprofiler_compute", tmp_path / "workload")
    offered = [(one.path.relative_to(tmp_path).as_posix(), one.format) for one in discover(tmp_path)]
    assert offered == [("out/run_hip_api_trace.csv", "rocprofv3-csv"), ("workload", "rocprofiler-compute")]


def test_passes_over_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "broken.json.gz").write_bytes(b"\x1f\x8b\x08\x00garbage")
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling.json")
    assert list(discover(tmp_path)) == []
    assert list(discover(tmp_path / "absent")) == []
