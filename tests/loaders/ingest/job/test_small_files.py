"""A job of small files is one entry of the cache, and holds what its files hold when each is cached alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from warplens.loaders.events import Event, Loaded
from warplens.loaders.ingest import cache, opening, spill
from warplens.loaders.ingest.job import small_files
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.ingest.process import Ingest
from warplens.loaders.trace import TABLE_NAMES, Trace

RANKS = 5


def recording(rank: int) -> dict[str, Any]:
    """Two operators on the host, one in the other, with a kernel each; the same process id on every rank."""
    base, events = 1.7e12 + 10 * rank, list[dict[str, Any]]()
    for number, (start, dur) in enumerate(((0, 100 + rank), (10, 20))):
        on_host = {"pid": 1, "tid": 1, "args": {"External id": number + 1}}
        on_device = {"pid": 0, "tid": 7, "args": {"device": 0, "stream": 7, "External id": number + 1}}
        events += [
            {"ph": "X", "cat": "cpu_op", "name": f"aten::o{number}", "ts": base + start, "dur": dur} | on_host,
            {"ph": "X", "cat": "kernel", "name": f"k{number}", "ts": base + start + 5, "dur": rank + 1} | on_device,
        ]
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": RANKS}, "traceEvents": events}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(RANKS):
        (folder / f"rank{rank}.json").write_text(json.dumps(recording(rank)))
    return folder


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are read, as they are."""
    files: list[Path] = []
    read = small_files.SmallFiles.read

    def counted(self: small_files.SmallFiles, part: Any, request: Any) -> tuple[Trace, ...]:
        files.append(part.path)
        return read(self, part, request)

    monkeypatch.setattr(small_files.SmallFiles, "read", counted)
    return files


def opened(folder: Path, use_cache: bool = True) -> Trace:
    (run,) = open_run(str(folder), use_cache=use_cache)
    return run


def tables(run: Trace) -> dict[str, pl.DataFrame]:
    return {name: run.table(name).collect() for name in TABLE_NAMES if run.has(name)}


@pytest.mark.parametrize("memory", [pytest.param(1 << 30, marks=pytest.mark.deep), 0])
def test_it_holds_what_its_files_hold_one_by_one(job: Path, monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    monkeypatch.setattr(small_files, "_MOST_MEMORY", memory)
    cold, again, without = opened(job), opened(job), opened(job, use_cache=False)
    assert len(cache.entries()) == 1
    monkeypatch.setattr(opening, "are_small", lambda parts: False)
    monkeypatch.setattr(cache, "find", lambda file: None)
    alone = opened(job)
    expected = tables(alone)
    assert expected["host"]["parent"].null_count() == RANKS, "the call tree is that of each rank"
    for run in (cold, again, without):
        assert run.info == alone.info
        found = tables(run)
        assert found.keys() == expected.keys()
        for name, rows in expected.items():
            assert found[name].equals(rows), name


def test_a_second_open_reads_nothing_and_a_change_reads_all(job: Path, loads: list[Path]) -> None:
    opened(job)
    opened(job)
    assert len(loads) == RANKS
    (job / "rank3.json").write_text(json.dumps(recording(3) | {"traceEvents": recording(5)["traceEvents"]}))
    assert opened(job).kernels.filter(pl.col("rank") == 3).collect()["dur_ns"].to_list() == [6000, 6000]
    assert len(loads) == 2 * RANKS
    (job / f"rank{RANKS}.json").write_text(json.dumps(recording(RANKS)))
    assert len(opened(job).info.ranks) == RANKS + 1


def test_what_is_wrong_with_a_file_is_said_each_time(job: Path) -> None:
    (job / "rank3.json").write_text('{"schemaVersion": 1, "traceEvents": 7}')
    for run in (opened(job), opened(job)):
        assert 3 not in run.info.ranks
        assert any("rank3.json was left out" in said for said in run.info.warnings)


def test_one_of_its_files_is_still_picked_by_number(job: Path) -> None:
    opened(job)
    (run,) = open_run(str(job), worker=2)
    assert run.info.ranks == (2,), "in the order of names"


def events_of(folder: Path) -> list[Event]:
    events: list[Event] = []
    ingest = Ingest(str(folder))
    ingest.start(events.append)
    ingest.wait()
    return events


def test_the_app_has_it_at_once_the_second_time(job: Path) -> None:
    assert len(events_of(job)) > 1
    (event,) = events_of(job)
    assert isinstance(event, Loaded)
    assert event.traces[0].info.ranks == tuple(range(RANKS))


def test_nothing_is_left_of_it_without_the_cache(job: Path) -> None:
    run = opened(job, use_cache=False)
    made = [directory for directory in spill._temporary if directory.is_dir()]
    assert run.has("kernels") and not cache.path().exists()
    spill.remove_all()
    assert made and not any(directory.exists() for directory in made)
