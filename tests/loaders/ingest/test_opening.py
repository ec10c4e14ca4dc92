"""What the user names becomes a trace, or one sentence that says what it is and what to do."""

from __future__ import annotations

import gzip
import os
import random
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from warplens.loaders import registry
from warplens.loaders.errors import Cancelled, Unreadable
from warplens.loaders.ingest import opening
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import FormatLoader, Job
from warplens.loaders.trace import Info, Trace

BAD: dict[str, tuple[bytes, str]] = {
    "empty.json": (b"", "is empty"),
    "not_a_trace.json": (b'{"hello": [1,2,3]}', "is JSON, but not a trace"),
    "picture.json": (b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(4000), "is a PNG picture"),
    "zeros.json.gz": (b"\x1f\x8b\x08" + bytes(50), "the compressed stream is damaged"),
    "nothing.json.gz": (gzip.compress(b""), "is compressed but empty"),
    "deep.json": (b"[" * 200_000, "is JSON, but not a trace"),
    "text.txt": (b"hello\n" * 100, "is a text file, but not a trace format"),
    "noise.bin": (random.Random(2).randbytes(9000), "is not in a trace format"),
    "report.nsys-rep": (random.Random(3).randbytes(100), "is an Nsight Systems report"),
    "report.ncu-rep": (b"NVR\0" + bytes(100), "is an Nsight Compute report"),
    "perf.data": (b"PERFILE2" + bytes(100), "is a Linux perf recording"),
    "nvprof.csv": (b"==21== NVPROF is profiling process 21\n==21== Profiling result:\n", "is printed by nvprof"),
    "averages.txt": (b"-----  -----\n Name  Self CPU %  Self CPU\n-----  -----\n", "key_averages() prints"),
    "proj.csv": (b"Name,Projected Start (ns),Projected Duration (ns),Style\n", "ranges of nsys stats, but no"),
    "graph.json": (b'{"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": []}', "is an execution graph"),
    "memory.raw.json": (b"[[-1, 1, 37888, 7], [-1, 1, 512, 7]]", "a memory timeline?"),
    "strings.json": (b'["a", "b"]', "is JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_trace_is_told_in_one_sentence(tmp_path: Path, name: str) -> None:
    content, reason = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Unreadable) as caught:
        open_run(str(tmp_path / name))
    assert reason in caught.value.reason
    assert caught.value.advice
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_a_broken_link_and_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    for name, reason in {"missing": "no such file", "link": "a link to a file", "folder": "is an empty folder"}.items():
        with pytest.raises(Unreadable, match=reason):
            open_run(str(tmp_path / name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_one_may_not_read(tmp_path: Path) -> None:
    file = tmp_path / "secret.json"
    file.write_text("{}")
    file.chmod(0)
    with pytest.raises(Unreadable, match="permission denied"):
        open_run(str(file))


def test_no_permission_is_told_whoever_runs_this(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret.json"
    file.write_text("{}")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(Unreadable, match="permission denied"):
        open_run(str(file))


def test_nothing_that_may_never_answer_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.json")
    with pytest.raises(Unreadable, match="a FIFO nobody writes to"):
        open_run(str(tmp_path / "fifo.json"))
    with pytest.raises(Unreadable, match="is a device"):
        open_run("/dev/null")
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as sock:
        sock.bind(f"{short}/s")
        with pytest.raises(Unreadable, match="is a socket"):
            open_run(f"{short}/s")


def test_a_pipe_with_a_writer_and_standard_input_are_read(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = (samples / "kernel_table_unet_training.txt").read_bytes()[:40_000]
    (direct,) = open_run(str(samples / "kernel_table_unet_training.txt"))
    for name in ("-", "fifo"):
        reader, writer = os.pipe()
        os.write(writer, sample)
        os.close(writer)
        with os.fdopen(reader) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            (run,) = open_run("-" if name == "-" else f"/dev/fd/{reader}")
        names = run.kernels.select("name", "dur_ns").head(200).collect()
        assert names.equals(direct.kernels.select("name", "dur_ns").head(200).collect())


class Fake(FormatLoader):
    """A format whose files begin with FAKE, read by whatever the test gives."""

    name, title, suffixes, version = "fake", "a format for tests", (".fake",), 1

    def __init__(self, load: Callable[[Job], tuple[Trace, ...]]) -> None:
        self._load = load

    def sniff(self, head: bytes) -> bool:
        return head.startswith(b"FAKE")

    def load(self, job: Job) -> tuple[Trace, ...]:
        return self._load(job)


def kernels(*starts: int) -> pl.LazyFrame:
    return pl.LazyFrame({
        "index": range(len(starts)), "start_ns": starts, "dur_ns": [10] * len(starts), "name": ["gemm"] * len(starts),
    })


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    def install(load: Callable[[Job], tuple[Trace, ...]], *files: str, times: int = 1) -> str:
        monkeypatch.setattr(registry, "installed", lambda: tuple(Fake(load) for _ in range(times)))
        for file in files or ("a.fake",):
            (tmp_path / file).write_bytes(b"FAKE" + file.encode())
        return str(tmp_path / files[0] if len(files) == 1 else tmp_path) if files else str(tmp_path / "a.fake")

    return install


def failing(error: BaseException) -> Callable[[Job], tuple[Trace, ...]]:
    def load(job: Job) -> tuple[Trace, ...]:
        raise error

    return load


@pytest.mark.parametrize("error, said", [
    (MemoryError(), "needs more memory"),
    (RecursionError(), "is nested too deeply"),
    (OSError(28, "No space left on device"), "no space is left"),
    (OSError(5, "Input/output error"), "cannot be read"),
    (KeyError("a\nb"), "it could not be read (KeyError"),
    (pl.exceptions.PanicException("boom"), "it could not be read (PanicException: boom)"),
])
def test_a_loader_that_fails_is_named_in_one_sentence(
    fake: Callable[..., str], error: BaseException, said: str
) -> None:
    with pytest.raises(Unreadable) as caught:
        open_run(fake(failing(error)))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_loader_that_fails_fails_loudly_when_asked_to(
    fake: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLENS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        open_run(fake(failing(ZeroDivisionError())))


def test_being_stopped_is_no_failure(fake: Callable[..., str]) -> None:
    with pytest.raises(Cancelled):
        open_run(fake(failing(Cancelled())))


def test_two_loaders_that_claim_one_file_are_a_reported_fault(fake: Callable[..., str]) -> None:
    with pytest.raises(Unreadable, match="claimed by several formats"):
        open_run(fake(failing(AssertionError()), times=2))


def test_workers_are_picked_in_file_order(fake: Callable[..., str]) -> None:
    path = fake(lambda job: tuple(Trace(Info(str(job.path), f"worker {n}", "fake"), kernels(n)) for n in (0, 1)))
    assert [run.info.label for run in open_run(path)] == ["worker 0", "worker 1"]
    assert [run.info.label for run in open_run(path, worker=1)] == ["worker 1"]
    with pytest.raises(Unreadable, match="has no worker 2"):
        open_run(path, worker=2)


def test_the_ranks_of_a_folder_are_one_trace_on_one_clock(fake: Callable[..., str], tmp_path: Path) -> None:
    epochs = {"rank_0.fake": 1_000, "rank_1.fake": 1_500, "rank_10.fake": 1_200}

    def load(job: Job) -> tuple[Trace, ...]:
        return (Trace(Info(str(job.path), job.path.name, "fake", epoch_ns=epochs[job.path.name]), kernels(0, 20)),)

    path = fake(load, *epochs)
    (tmp_path / "notes.txt").write_text("not a trace")
    (run,) = open_run(path)
    assert run.info.ranks == (0, 1, 10)
    assert run.info.epoch_ns == 1_000
    rows = run.kernels.select("rank", "index", "start_ns").collect().rows()
    assert rows == [(0, 0, 0), (0, 1, 20), (1, 2, 500), (1, 3, 520), (10, 4, 200), (10, 5, 220)]
    (one,) = open_run(path, worker=1)
    assert one.info.label == "rank_1.fake"


def test_windows_of_one_process_follow_one_another_and_are_no_ranks(fake: Callable[..., str]) -> None:
    epochs = {"host_77.1700000002000.fake": 9_000, "host_77.1700000001000.fake": 1_000}

    def load(job: Job) -> tuple[Trace, ...]:
        ties = pl.lit(5, pl.Int64).alias("correlation")
        about = Info(str(job.path), job.path.name, "fake", epoch_ns=epochs[job.path.name])
        return (Trace(about, kernels(0, 20).with_columns(ties)),)

    (run,) = open_run(fake(load, *epochs))
    assert (run.info.ranks, run.info.epoch_ns) == ((), 1_000)
    assert run.info.warnings[0].startswith("2 successive recordings of one process")
    rows = run.kernels.select("rank", "index", "start_ns", "correlation").collect().rows()
    assert rows == [(None, 0, 0, 5), (None, 1, 20, 5), (None, 2, 8000, 10), (None, 3, 8020, 10)]


def test_windows_that_do_not_know_when_they_were_are_refused(fake: Callable[..., str]) -> None:
    names = "w_1700000001.fake", "w_1700000002.fake"
    path = fake(lambda job: (Trace(Info(str(job.path), "x", "fake"), kernels(0)),), *names)
    with pytest.raises(Unreadable, match="not the ranks of one job"):
        open_run(path)


def test_a_folder_of_unrelated_recordings_is_refused(fake: Callable[..., str]) -> None:
    path = fake(lambda job: (Trace(Info(str(job.path), "x", "fake"), kernels(0)),), "monday.fake", "tuesday.fake")
    with pytest.raises(Unreadable, match="not the ranks of one job"):
        open_run(path)


def test_counters_beside_a_trace_become_its_metrics(
    fake: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(job: Job) -> tuple[Trace, ...]:
        return (Trace(Info(str(job.path), "one", "fake", epoch_ns=1_000_000), kernels(0, 5)),)

    fake(load)
    (tmp_path / "result_counters_data.csv").write_text(
        "counter_name,timestamp,value,hostname\ngpu_sm_frequency_0,1500,1410,node\ngpu_sm_frequency_0,1600,1400,node\n"
    )
    for _ in range(2):  # read, then from the cache
        (run,) = open_run(str(tmp_path))
        assert run.kernels.collect().height == 2
        assert run.metrics.select("ts_ns", "value").collect().rows() == [(500_000, 1410.0), (600_000, 1400.0)]
        assert run.info.format == "fake"


def test_a_folder_with_one_trace_is_that_trace(fake: Callable[..., str], tmp_path: Path) -> None:
    file = fake(lambda job: (Trace(Info(str(job.path), "one", "fake"), kernels(0, 5)),))
    (tmp_path / "notes.txt").write_text("not a trace")
    (run,) = open_run(str(tmp_path))
    assert run.info.source == file
    assert run.kernels.collect().height == 2


@pytest.mark.parametrize("table, reason", [
    ("rocpd_api", "is a rocmProfileData or rocprofv3 database without kernel tables"),
    ("rocpd_kernel_dispatch_0000", "holds no event with a time"),
    ("CUPTI_ACTIVITY_KIND_KERNEL_of_StringTable", "is an nvprof database"),
    ("recipes", "is an SQLite database, but not an Nsight Systems export"),
])
def test_databases_of_others_are_named(tmp_path: Path, table: str, reason: str) -> None:
    with sqlite3.connect(tmp_path / "some.db") as database:
        database.execute(f"create table {table} (id integer)")
    database.close()
    with pytest.raises(Unreadable, match=reason):
        opening.open_run(str(tmp_path / "some.db"))
