"""Folders as profilers of training runs and serving engines leave them: ranks, their windows, and what drives them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from warplens.loaders import kineto
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import cache, opening
from warplens.loaders.ingest.job import pool
from warplens.loaders.ingest.job.files import Request
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import Job
from warplens.loaders.trace import Trace

BEGIN = 1_700_000_000_000_000
"""µs"""


def recording(at_us: int = 0, rank: int | None = None, device: bool = True) -> bytes:
    """Two kernels (or host slices) a millisecond after that, of a rank that it says of itself if given."""
    category = "kernel" if device else "cpu_op"
    events = [
        {"ph": "X", "cat": category, "name": "k", "pid": 0, "tid": 7, "ts": BEGIN + at_us + n, "dur": 0.5}
        for n in range(2)
    ]
    about: dict[str, Any] = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 4}}
    return json.dumps({"schemaVersion": 1, **about, "traceEvents": events}).encode()


def opened(folder: Path, files: dict[str, bytes], **more: Any) -> Trace:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (run,) = open_run(str(folder), **({"use_cache": False, "compiled": False} | more))
    return run


def launches(run: Trace) -> list[tuple[int, int]]:
    """Rank and start in µs of every launch, in order."""
    return run.kernels.select("rank", pl.col("start_ns") // 1000).sort("rank", "start_ns").collect().rows()


def test_windows_of_several_ranks_are_joined_rank_by_rank(tmp_path: Path) -> None:
    run = opened(tmp_path / "job", {
        "n0_71.1700000000001.pt.trace.json": recording(0, 0), "n0_71.1700000000901.pt.trace.json": recording(900, 0),
        "n0_72.1700000000002.pt.trace.json": recording(5, 1), "n0_72.1700000000902.pt.trace.json": recording(905, 1),
    })
    assert run.info.ranks == (0, 1)
    assert launches(run) == [(0, 0), (0, 1), (0, 900), (0, 901), (1, 5), (1, 6), (1, 905), (1, 906)]
    assert run.kernels.select(pl.col("index").n_unique()).collect().item() == 8


@pytest.mark.parametrize("name", ["iteration_{1}0/rank{0}_trace.json", "worker{0}_step_{1}0.json"])
@pytest.mark.parametrize("says", [True, False])
def test_steps_in_names_are_windows_and_no_ranks(tmp_path: Path, name: str, says: bool) -> None:
    files = {
        name.format(rank, step): recording(900 * step + rank, rank if says else None)
        for rank in range(2) for step in (1, 2)
    }
    for file in files:
        (tmp_path / "job" / file).parent.mkdir(parents=True, exist_ok=True)
    run = opened(tmp_path / "job", files)
    assert run.info.ranks == (0, 1)
    assert launches(run) == [(0, 0), (0, 1), (0, 900), (0, 901), (1, 1), (1, 2), (1, 901), (1, 902)]


def test_windows_of_one_process_by_step_are_no_ranks(tmp_path: Path) -> None:
    run = opened(tmp_path / "job", {"trace_step_10.json": recording(0), "trace_step_20.json": recording(900)})
    assert run.info.ranks == () and [start for _, start in launches(run)] == [0, 1, 900, 901]


def test_names_that_contradict_what_some_say_make_no_job(tmp_path: Path) -> None:
    files = {"rank0.json": recording(0, 3), "rank1.json": recording(0, 2), "rank2.json": recording(0)}
    with pytest.raises(Unreadable, match=r"rank2\.json records no rank"):
        opened(tmp_path / "job", files)
    fitting = {"rank0.json": recording(0, 0), "rank1.json": recording(0)}
    assert opened(tmp_path / "other", fitting).info.ranks == (0, 1)


def test_local_ranks_of_several_nodes_are_counted_through(tmp_path: Path) -> None:
    files = {f"node{rank // 2}/rank_{rank % 2}/trace.json": recording(10 * rank) for rank in range(4)}
    for file in files:
        (tmp_path / "job" / file).parent.mkdir(parents=True)
    run = opened(tmp_path / "job", files)
    assert launches(run) == [(rank, 10 * rank + n) for rank in range(4) for n in range(2)]


def test_a_rank_may_have_more_windows_than_another(tmp_path: Path) -> None:
    run = opened(tmp_path / "job", {
        "rank0.1700000000001.json": recording(0), "rank0.1700000000901.json": recording(900),
        "rank1.1700000000002.json": recording(5),
    })
    assert run.info.ranks == (0, 1) and len(launches(run)) == 6


def test_stages_of_a_serving_engine_are_windows_of_their_rank(tmp_path: Path) -> None:
    files = {
        f"1754000000.25-TP-{rank}-{stage}.trace.json": recording(at + rank)
        for rank in range(2) for stage, at in (("EXTEND", 0), ("DECODE", 500))
    }
    run = opened(tmp_path / "job", files)
    assert run.info.ranks == (0, 1)
    assert launches(run) == [(0, 0), (0, 1), (0, 500), (0, 501), (1, 1), (1, 2), (1, 501), (1, 502)]


def test_what_drives_the_ranks_of_a_serving_engine_is_none_of_them(tmp_path: Path) -> None:
    run = opened(tmp_path / "job", {
        "dp0_pp0_tp0_rank0.1754000000123.pt.trace.json": recording(0),
        "dp0_pp0_tp1_rank1.1754000000124.pt.trace.json": recording(1),
        "host_99.async_llm.1754000000125.pt.trace.json": recording(2, device=False),
    })
    assert run.info.ranks == (0, 1) and len(launches(run)) == 4
    assert any("async_llm" in said and "only drives the ranks" in said for said in run.info.warnings)


def test_a_folder_of_nothing_but_what_drives_ranks_opens(tmp_path: Path) -> None:
    run = opened(tmp_path / "job", {"api_server.json": recording(0, device=False)})
    assert run.has("host") and not run.info.warnings


def test_a_rank_in_the_name_goes_before_other_places_in_it(tmp_path: Path) -> None:
    files = {f"dp{n // 2}_tp{n % 2}_rank{9 - n}.json": recording(n) for n in range(4)}
    assert opened(tmp_path / "job", files).info.ranks == (6, 7, 8, 9)


def test_two_recordings_of_one_rank_that_are_no_windows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"one job: a\.json and b\.json both say they are rank 0"):
        opened(tmp_path / "job", {"a.json": recording(0, 0), "b.json": recording(1, 0), "c.json": recording(1, 1)})


def test_large_files_of_a_job_are_read_by_processes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_here: list[str] = []
    load = kineto.LOADER.load

    def counted(job: Job) -> tuple[Trace, ...]:
        read_here.append(job.path.name)
        return load(job)

    monkeypatch.setattr(opening, "are_small", lambda files: False)
    monkeypatch.setattr(opening, "_PARALLEL_BYTES", 1)
    monkeypatch.setattr(pool, "most_workers", lambda _: 2)
    monkeypatch.setattr(type(kineto.LOADER), "load", lambda self, job: counted(job))
    files = {f"rank{rank}.json": recording(rank) for rank in range(4)}
    files |= {"rank9.json": b'{"schemaVersion": 1, "traceEvents": 7}'}
    told: list[tuple[int, int, int]] = []
    run = opened(tmp_path / "job", files, use_cache=True, progress=lambda *told_: told.append(told_))
    assert run.info.ranks == (0, 1, 2, 3) and len(launches(run)) == 8
    assert read_here == ["rank0.json", "rank9.json"]  # the first, whose rows are shown soonest, and the broken one
    assert any("rank9.json was left out" in said for said in run.info.warnings)
    assert len(cache.entries()) == 4 and told


@pytest.mark.parametrize("at_once", [False, True], ids=["one after the other", "by processes"])
def test_ranks_are_told_of_as_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    if at_once:
        monkeypatch.setattr(opening, "_PARALLEL_BYTES", 1)
        monkeypatch.setattr(pool, "most_workers", lambda _: 2)
    files = {f"rank{rank}.json": recording(rank, rank) for rank in range(6)}
    files["rank3.json"] = b'{"schemaVersion": 1, "traceEvents": 7}'
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    told: list[tuple[int, list[str]]] = []

    def some_read(read: Sequence[Path], directories: Sequence[Path], of: int) -> None:
        (run,) = opening.Opened(str(tmp_path), tuple(map(str, read)), tuple(directories)).traces()
        told.append((of, [path.name for path in read]))
        assert len(launches(run)) == 2 * len(read)

    found = opening.ingest(str(tmp_path), Request(use_cache=at_once, some_read=some_read))
    assert [len(names) for _, names in told] == [1, 2, 3, 4, 5]
    assert {of for of, _ in told} == {6} and "rank3.json" not in told[-1][1]
    (run,) = found.traces()
    assert run.info.ranks == (0, 1, 2, 4, 5)
    assert any("rank3.json was left out" in said for said in run.info.warnings)


def test_of_many_ranks_only_clearly_more_are_told_of(tmp_path: Path) -> None:
    files = {f"rank{rank}.json": recording(rank, rank) for rank in range(40)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    told: list[int] = []
    opening.ingest(str(tmp_path), Request(False, some_read=lambda read, directories, of: told.append(len(read))))
    assert told == [*range(1, 17), 18, 20, 22, 24, 27, 30, 33, 37]


def test_files_that_do_not_say_whose_they_are_are_shown_together_only(tmp_path: Path) -> None:
    for name in ("tp0.json", "tp1.json"):
        (tmp_path / name).write_bytes(recording())
    found = opening.ingest(str(tmp_path), Request(False))
    assert not found.has_distinct_ranks() and found.traces()[0].info.ranks == (0, 1)


def test_of_very_many_unreadable_files_some_are_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    run = opened(tmp_path / "job", {f"rank{n}.json": recording(n, n) if n < 2 else b"" for n in range(102)})
    said = [warning for warning in run.info.warnings if "left out" in warning]
    assert len(said) == 17 and said[-1] == "84 more files were left out, too"
