"""Reading in a process of its own: events in order, stopped by a kill, never outliving us, a crash is a sentence."""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.events import Event, Failed, FirstRows, Loaded, Progress
from warplens.loaders.ingest import cache, spill
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.ingest.process import Ingest
from warplens.loaders.trace import Trace


@pytest.fixture(autouse=True)
def own_temporary_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return place


def events_of(path: Path | str, **options: object) -> list[Event]:
    events: list[Event] = []
    ingest = Ingest(str(path), **options)
    ingest.start(events.append)
    ingest.wait()
    return events


def waiting(tmp_path: Path) -> tuple[Path, int]:
    """A FIFO somebody has open for writing and never writes to: reading it takes for ever."""
    fifo = tmp_path / "fifo.json"
    os.mkfifo(fifo)
    return fifo, os.open(fifo, os.O_RDWR)


def remove_tables(loaded: Loaded) -> None:
    assert isinstance(loaded.opened, partial)
    for directory in loaded.opened.args[0]["directories"]:
        spill.remove(Path(directory))


@pytest.mark.parametrize("use_cache", [True, False])
def test_it_gives_what_opening_gives(samples: Path, use_cache: bool) -> None:
    sample = samples / "kernel_table_unet_training.txt"
    *before, last = events_of(sample, use_cache=use_cache)
    assert all(isinstance(event, (Progress, FirstRows)) for event in before)
    assert isinstance(last, Loaded)
    (run,), (direct,) = last.traces, open_run(str(sample), use_cache=False)
    assert run.info == direct.info
    assert run.kernels.collect().equals(direct.kernels.collect())
    again = events_of(sample, use_cache=use_cache)
    assert isinstance(again[-1], Loaded)
    assert len(again) == 1 or not use_cache, "a cached one is there at once"
    remove_tables(last)


def test_tables_of_recordings_that_were_closed_are_removed_and_entries_released(
    samples: Path, own_temporary_place: Path, tmp_path: Path
) -> None:
    """An app that follows a growing file opens it again and again: each is a directory and an open file."""
    sample = samples / "kernel_table_unet_training.txt"

    def run_of(path: Path, **options: object) -> Trace:
        last = events_of(path, **options)[-1]
        assert isinstance(last, Loaded)
        (run,) = last.traces
        return run

    kept = run_of(sample, use_cache=False)
    for number in range(2):
        copy = tmp_path / f"{number}.txt"
        shutil.copy(sample, copy)
        run_of(copy)
        run_of(sample, use_cache=False).remember("itself", (), lambda: kept)
        gc.collect()
    assert kept.kernels.collect().height == 560
    assert len(list(own_temporary_place.iterdir())) == 2, "that which is open, and that which was closed last"
    assert not [folder for folder in spill.held_directories() if folder.is_relative_to(cache.path())]


def test_a_folder_of_ranks_is_shown_rank_by_rank(tmp_path: Path) -> None:
    for rank in range(4):  # the ranks of small files are shown together
        about = {"distributedInfo": {"rank": rank, "world_size": 4}, "schemaVersion": 1}
        events = [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.7e15, "dur": 1}]
        (tmp_path / f"{rank}.json").write_text(json.dumps(about | {"traceEvents": events}) + " " * (2 << 20))
    (tmp_path / "4.json").write_text('{"schemaVersion": 1, "traceEvents": 7}')
    events = events_of(tmp_path)
    shown = [event for event in events if isinstance(event, FirstRows) and event.of]
    assert [(event.read, event.of) for event in shown] == [(1, 5), (2, 5), (3, 5), (4, 5)]
    assert [event.traces[0].info.ranks for event in shown] == [(0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)]
    assert isinstance(events[-1], Loaded)
    assert any("4.json was left out" in said for said in events[-1].traces[0].info.warnings)


def test_one_that_began_early_tells_everything_from_the_start(samples: Path) -> None:
    sample = samples / "kernel_table_unet_training.txt"
    ingest, events = Ingest(str(sample), use_cache=False), list[Event]()
    ingest.begin()
    ingest.begin()
    assert ingest._process is not None
    worker = ingest._process.pid
    ingest.start(events.append)
    ingest.wait()
    assert ingest._process.pid == worker, "the worker that began is the one that tells"
    last = events[-1]
    assert isinstance(last, Loaded)
    assert last.traces[0].kernels.collect().height > 0
    remove_tables(last)


def test_it_stands_back_behind_the_screen(samples: Path) -> None:
    """By its nice value and, where sessions have one, that of its session, which without rights may be set now and then
    only."""
    ingest, told = Ingest(str(samples / "kernel_table_unet_training.txt"), use_cache=False), list[tuple[int, str]]()

    def look(event: Event) -> None:
        if isinstance(event, Loaded):  # the process waits until this returns
            assert ingest._process is not None
            pid = ingest._process.pid
            group = Path(f"/proc/{pid}/autogroup")
            told.append((os.getpriority(os.PRIO_PROCESS, pid), group.read_text() if group.exists() else ""))
            remove_tables(event)

    ingest.start(look)
    ingest.wait()
    ((nice, group),) = told
    assert nice == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)
    assert not group or os.geteuid() != 0 or group.split()[-1] == "5"


def test_one_that_began_early_is_stopped_as_any_other(tmp_path: Path) -> None:
    fifo, writer = waiting(tmp_path)
    ingest, events = Ingest(str(fifo)), list[Event]()
    ingest.begin()
    ingest.cancel()
    ingest.start(events.append)
    ingest.wait()
    os.close(writer)
    assert not events
    assert ingest._process is not None
    assert ingest._process.returncode == -signal.SIGKILL


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path, samples: Path) -> None:
    (tmp_path / "not\nnice.json").write_text("{}")
    (failed,) = events_of(tmp_path / "not\nnice.json")
    assert isinstance(failed, Failed)
    assert "is JSON, but not a trace" in failed.message
    assert failed.advice
    *_, last = events_of(samples / "kernel_table_unet_training.txt", worker=3)
    if isinstance(last, Loaded):
        with pytest.raises(Unreadable, match="has no worker 3"):
            assert last.traces
    else:
        assert isinstance(last, Failed)
        assert "has no worker 3" in last.message


def test_a_name_that_is_no_text_is_passed_on(tmp_path: Path) -> None:
    (failed,) = events_of(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    assert isinstance(failed, Failed)
    assert "no such file" in failed.message


def test_stopping_it_kills_it_and_nothing_is_heard_or_left(tmp_path: Path, own_temporary_place: Path) -> None:
    fifo, writer = waiting(tmp_path)
    events: list[Event] = []
    ingest = Ingest(str(fifo))
    ingest.start(events.append)
    ingest.cancel()
    ingest.wait()
    assert not any(isinstance(event, (Loaded, Failed)) for event in events)
    assert ingest._process is not None
    assert ingest._process.returncode == -signal.SIGKILL
    assert list(own_temporary_place.iterdir()) == []
    ingest.cancel()
    os.close(writer)


@pytest.mark.parametrize("number, said", [(signal.SIGSEGV, "ended unexpectedly"), (signal.SIGKILL, "out of memory")])
def test_a_crash_is_a_sentence(tmp_path: Path, number: signal.Signals, said: str, own_temporary_place: Path) -> None:
    fifo, writer = waiting(tmp_path)
    events: list[Event] = []

    def crash(event: Event) -> None:
        events.append(event)
        if isinstance(event, Progress):
            assert ingest._process is not None
            ingest._process.send_signal(number)

    ingest = Ingest(str(fifo))
    ingest.start(crash)
    ingest.wait()
    assert isinstance(events[-1], Failed)
    assert said in events[-1].message
    assert list(own_temporary_place.iterdir()) == []
    os.close(writer)


def test_it_ends_when_we_do(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.json"
    os.mkfifo(fifo)
    program = (
        "import os, sys, threading; from warplens.loaders.ingest.process import Ingest\n"
        "os.open(sys.argv[1], os.O_RDWR); reading = threading.Event()\n"
        "Ingest(sys.argv[1]).start(lambda event: reading.set()); reading.wait(); os.kill(os.getpid(), 9)"
    )
    ours = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    subprocess.run([sys.executable, "-c", program, str(fifo)], check=False)
    # Only the worker may still have the FIFO open; once it is gone a writer finds no reader but us, and then none.
    writer = os.open(fifo, os.O_WRONLY)
    os.close(ours)
    poll = select.poll()
    poll.register(writer, select.POLLERR)
    assert poll.poll(30_000), "the worker outlives its parent"
    os.close(writer)


def test_two_that_read_the_same_file_at_once_both_have_it(samples: Path) -> None:
    sample = samples / "kernel_table_bert_training.txt"
    heard: list[list[Event]] = [[], []]
    both = [Ingest(str(sample)), Ingest(str(sample))]
    for ingest, events in zip(both, heard, strict=True):
        ingest.start(events.append)
    for ingest in both:
        ingest.wait()
    runs = [events[-1].traces[0] for events in heard if isinstance(events[-1], Loaded)]
    assert len(runs) == 2
    assert runs[0].kernels.collect().equals(runs[1].kernels.collect())
    assert [entry.source for entry in cache.entries()] == [str(sample)]


def test_standard_input_is_read_by_the_worker(samples: Path) -> None:
    program = (
        "from warplens.loaders.ingest.process import Ingest; seen = []\n"
        "one = Ingest('-'); one.start(seen.append); one.wait()\n"
        "print(seen[-1].traces[0].info.source, seen[-1].traces[0].kernels.collect().height)"
    )
    with open(samples / "kernel_table_unet_training.txt", "rb") as table:
        pipe = subprocess.run([sys.executable, "-c", program], input=table.read(), capture_output=True)
    assert pipe.stdout.startswith(b"standard input 5"), pipe.stderr


def test_it_imports_nothing_from_where_it_is_started(tmp_path: Path, samples: Path) -> None:
    for name in ("polars", "json", "warplens"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(77)")
    program = (
        "import sys; from warplens.loaders.ingest.process import Ingest; seen = []\n"
        "one = Ingest(sys.argv[1], use_cache=False); one.start(seen.append); one.wait()\n"
        "print(type(seen[-1]).__name__)"
    )
    sample = samples / "kernel_table_unet_training.txt"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(sample)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "Loaded\n", done.stderr
