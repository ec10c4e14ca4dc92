"""``warplens reduce``: what it does, does not do again, names, and exits with."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from made_job import write_job

from warplens.cli.main import main
from warplens.loaders.ingest.job import pool


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a job of three ranks."""
    job = write_job(tmp_path_factory.mktemp("made"), ranks=3)
    return {file.name: file.read_bytes() for file in job.iterdir()}


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked is what becomes of the recordings: the processes have tests of their own."""

    def run(task: Callable[[Any, Any], Any], work: Sequence[Any], workers: int) -> Iterator[pool.TaskOutcome]:
        for number, one in enumerate(work):
            yield pool.TaskOutcome(number, value=task(one, lambda told: None))

    monkeypatch.setattr(pool, "run", run)


@pytest.fixture
def job(tmp_path: Path, recordings: dict[str, bytes]) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    for name, content in recordings.items():
        (folder / name).write_bytes(content)
    return folder


def test_a_job_becomes_a_dataset_and_only_what_is_new_is_done_again(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = tmp_path / "fleet"
    assert main(["reduce", str(job), "-o", str(dataset), "--jobs", "1"]) == 0
    told = capsys.readouterr()
    assert told.out == f"{dataset}\n" and told.err.startswith("3 ranks: 3 reduced in")
    marks = {file.name: file.stat().st_mtime_ns for file in (dataset / "ranks").iterdir()}
    assert main(["reduce", str(job), "-o", str(dataset)]) == 0
    assert capsys.readouterr().err == "3 ranks: nothing was new\n"
    os.utime(job / "rank0001.pt.trace.json", ns=(1, 1))
    assert main(["reduce", str(job), "-o", str(dataset)]) == 0
    assert ": 1 reduced in" in (said := capsys.readouterr().err) and "2 were there already" in said
    changed = {file.name for file in (dataset / "ranks").iterdir() if marks[file.name] != file.stat().st_mtime_ns}
    assert changed == {"rank-000001.json"} and not (dataset / ".staging").exists()


@pytest.mark.usefixtures("in_this_process")
def test_ranks_of_another_folder_are_added(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (job / "rank0002.pt.trace.json").rename(other / "rank0002.pt.trace.json")
    for folder in (job, other):
        assert main(["reduce", str(folder), "-o", str(tmp_path / "fleet")]) == 0
    capsys.readouterr()
    assert main(["report", str(tmp_path / "fleet"), "--view", "ranks", "--format", "json"]) == 0
    assert sorted(row["rank"] for row in json.loads(capsys.readouterr().out)["rows"]) == [0, 1, 2]


@pytest.mark.usefixtures("in_this_process")
def test_a_rank_that_cannot_be_read_is_named_and_leaves_the_dataset(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = tmp_path / "fleet"
    assert main(["reduce", str(job), "-o", str(dataset)]) == 0
    good = (job / "rank0001.pt.trace.json").read_bytes()
    (job / "rank0001.pt.trace.json").write_bytes(good[: good.index(b"traceEvents")] + b"\xff\xff")
    capsys.readouterr()
    assert main(["reduce", str(job), "-o", str(dataset)]) == 0
    said = capsys.readouterr().err
    assert "rank0001" in said and "2 ranks" in said and "1 could not be read" in said
    (job / "rank0002.pt.trace.json").unlink()
    (job / "rank0001.pt.trace.json").write_bytes(b"\x1f\x8b broken")
    assert main(["reduce", str(job), "-o", str(tmp_path / "another")]) == 0
    assert "rank0001" in capsys.readouterr().err


@pytest.mark.usefixtures("in_this_process")
def test_none_that_can_be_read_is_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(2):
        (folder / f"rank{rank}.json").write_bytes(b'{"schemaVersion": 1, "traceEvents": [\xff')
    assert main(["reduce", str(folder), "-o", str(tmp_path / "fleet")]) == 3
    said = capsys.readouterr().err
    assert "rank0" in said and "rank1" in said and "none of 2 recordings could be read" in said
    assert main(["reduce", str(tmp_path / "nothing"), "-o", str(tmp_path / "fleet")]) == 3


@pytest.mark.usefixtures("in_this_process")
def test_two_recordings_of_one_rank_are_no_two_ranks(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job / "rank0002.pt.trace.json").unlink()
    (job / "rank0007.pt.trace.json").write_bytes((job / "rank0001.pt.trace.json").read_bytes())
    assert main(["reduce", str(job), "-o", str(tmp_path / "fleet")]) == 0
    said = capsys.readouterr().err
    assert "skipped, another recording has rank 1" in said and "2 ranks: 2 reduced" in said


@pytest.mark.usefixtures("in_this_process")
def test_a_dataset_is_of_one_job_and_is_as_before_where_another_is_refused(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset, other = tmp_path / "fleet", write_job(tmp_path / "other", ranks=2)
    assert main(["reduce", str(job), "-o", str(dataset)]) == 0

    def content() -> dict[str, bytes]:
        return {str(file): file.read_bytes() for file in dataset.rglob("*") if file.is_file()}

    before = content()
    assert main(["reduce", str(other), "-o", str(dataset)]) == 2
    assert "is another job's (3 ranks of job); name another dataset, or --replace" in capsys.readouterr().err
    assert content() == before
    assert main(["reduce", str(other), "-o", str(dataset), "--replace"]) == 0
    capsys.readouterr()
    assert main(["report", str(dataset), "--view", "ranks", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2


def test_a_folder_of_other_files_is_not_written_to(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reduce", str(job), "-o", str(job)]) == 2
    assert "is the input; name another output" in capsys.readouterr().err
    assert main(["reduce", str(job), "-o", str(job / "rank0000.pt.trace.json")]) == 2


def test_a_scheduler_needs_the_extra(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:9")
    assert main(["reduce", str(job), "-o", str(tmp_path / "fleet")]) == 2
    assert "pip install 'warplens[fleet]'" in capsys.readouterr().err


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["here", "processes"])
def test_a_cluster_gives_the_same_dataset(
    processes: bool, job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker is a process of its own, or threads of this one that are sent the same."""
    distributed = pytest.importorskip("distributed")
    root = Path(__file__).resolve().parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / ".dev"), os.environ.get("PYTHONPATH", "")]))
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=processes, protocol="tcp", dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        assert main(["reduce", str(job), "-o", str(tmp_path / "far"), "--scheduler", address]) == 0
    assert main(["reduce", str(job), "-o", str(tmp_path / "near")]) == 0
    rows = []
    for name in ("far", "near"):
        capsys.readouterr()
        assert main(["report", str(tmp_path / name), "--view", "ranks", "--format", "json"]) == 0
        rows.append(json.loads(capsys.readouterr().out)["rows"])
    assert rows[0] == rows[1] and len(rows[0]) == 3


def test_a_scheduler_that_is_not_there_is_named(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("warplens.cli.fleet.workers._CONNECT_S", 0.2)
    assert main(["reduce", str(job), "-o", str(tmp_path / "fleet"), "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err


def test_a_scheduler_that_takes_a_certificate_says_so(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed")
    assert main(["reduce", str(job), "-o", str(tmp_path / "dataset"), "--scheduler", "tls://127.0.0.1:9"]) == 2
    assert "tls://127.0.0.1:9 needs a TLS certificate: set DASK_DISTRIBUTED__COMM__TLS__CA" in capsys.readouterr().err


@pytest.mark.usefixtures("in_this_process")
def test_damaged_files_of_a_dataset_are_made_again(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job / "rank0002.pt.trace.json").unlink()
    dataset = tmp_path / "fleet"
    asked = ["report", str(dataset), "--view", "ranks", "--format", "json", "--no-cache"]
    assert main(["reduce", str(job), "-o", str(dataset)]) == 0 == main(asked)
    before = json.loads(capsys.readouterr().out.partition("\n")[2])["rows"]
    for kind, damage in (("packed", b"PAR1 and then nothing PAR1"), ("collectives", b"nothing")):
        for file in (dataset / kind).iterdir():
            file.write_bytes(damage)
        assert main(["reduce", str(job), "-o", str(dataset)]) == 0 == main(asked)
        assert json.loads(capsys.readouterr().out.partition("\n")[2])["rows"] == before, kind


@pytest.mark.usefixtures("in_this_process")
def test_a_rank_that_no_job_has_is_as_if_not_said(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, rank in enumerate((-3, 2**40, 2**70)):
        file = job / f"rank{number:04}.pt.trace.json"
        said = file.read_text()
        file.write_text(said.replace(f'"rank":{number},', f'"rank":{rank},'))
        assert file.read_text() != said
    assert main(["reduce", str(job), "-o", str(tmp_path / "fleet")]) == 0
    assert capsys.readouterr().err.startswith("3 ranks: 3 reduced in")
    assert main(["report", str(job), "--view", "ranks", "--no-cache", "--format", "json"]) == 0
    assert {row["rank"] for row in json.loads(capsys.readouterr().out)["rows"]} == {0, 1, 2}
