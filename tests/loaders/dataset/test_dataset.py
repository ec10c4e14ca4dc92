"""Datasets on disk: plain Parquet by rank, whole or not there, and hostile as any input."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from warplens.loaders import registry, schema
from warplens.loaders.dataset import layout, read, write
from warplens.loaders.errors import Unreadable
from warplens.loaders.events import Event, Failed, Loaded
from warplens.loaders.in_place import in_place
from warplens.loaders.ingest import cache
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.ingest.process import Ingest
from warplens.loaders.loader import Job
from warplens.loaders.trace import REDUCED, Device, Info, Trace


def reduced(rank: int, epoch: int | None = 1000, cycles: int = 2, warnings: tuple[str, ...] = ()) -> Trace:
    """A reduced recording of one rank with nothing but cycles."""
    info = Info(
        f"/job/rank{rank}.json", f"rank{rank}", "kineto", ranks=(rank,), epoch_ns=epoch, bytes=100, warnings=warnings,
        devices=(Device(f"GPU {rank}", "Made-up GPU"),), facts={REDUCED: {"without": ["host"]}, "host_name": "node0"},
    )
    rows = pl.LazyFrame({"cycle": range(cycles), "start_ns": [10 * n for n in range(cycles)], "dur_ns": [9] * cycles,
                         "rank": [rank] * cycles, "label": ["step"] * cycles})
    sums = pl.LazyFrame({"rank": [rank], "epoch_ns": [epoch]})
    return Trace(info, cycles=schema.conform("cycles", rows), rank_sums=schema.conform("rank_sums", sums))


def dataset(folder: Path, *runs: Trace) -> Path:
    for run in runs:
        staged, part = write.stage(run, folder, "session", [(run.info.source, 1, 2)], 1)
        write.commit(folder, staged, part)
    write.clean(folder, "session")
    write.finish(folder, folder.name)
    return folder


def opened(path: Path) -> Trace:
    (run,) = open_run(str(path), use_cache=False)
    return run


def test_it_opens_as_one_run_of_all_ranks_on_one_clock(tmp_path: Path) -> None:
    run = opened(dataset(tmp_path / "job", reduced(3, 1500), reduced(0, 1000), reduced(12, 1100)))
    assert run.info.ranks == (0, 3, 12) and run.info.epoch_ns == 1000 and run.info.format == "dataset"
    starts = run.cycles.sort("rank", "cycle").select("rank", "start_ns").collect().rows()
    assert starts == [(0, 0), (0, 10), (3, 500), (3, 510), (12, 100), (12, 110)]
    assert run.info.facts["hosts"] == {"0": "node0", "3": "node0", "12": "node0"} and run.info.bytes == 300


def test_a_rank_that_knows_no_absolute_time_keeps_every_clock_as_it_is(tmp_path: Path) -> None:
    run = opened(dataset(tmp_path / "job", reduced(0, 1000), reduced(1, None)))
    assert run.cycles.select(pl.col("start_ns").max()).collect().item() == 10
    assert "not every rank recorded an absolute time: each starts at its own 0" in run.info.warnings


def test_its_files_are_plain_tables_by_rank(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "job", reduced(0), reduced(1))
    files = sorted(file.name for file in (folder / "cycles").iterdir())
    assert files == ["rank-000000.parquet", "rank-000001.parquet"]
    frame = pl.read_parquet(folder / "cycles/*.parquet")
    assert frame.schema["label"] == pl.String and sorted(frame["rank"]) == [0, 0, 1, 1]
    assert set(frame.columns) == {field.name for field in schema.TABLES["cycles"]}
    assert "| `rank` |" in (folder / "README.md").read_text()
    assert json.loads((folder / "dataset.json").read_text())["layout"] == layout.LAYOUT


def test_a_warning_of_many_ranks_is_said_once(tmp_path: Path) -> None:
    run = opened(dataset(tmp_path / "job", *(reduced(rank, warnings=("truncated",)) for rank in range(11))))
    assert run.info.warnings == ("ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more: truncated",)


def test_a_part_that_is_not_whole_is_not_there(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "job", reduced(0), reduced(1))
    (folder / "cycles/rank-000001.parquet").unlink()
    assert [part.part for part in write.parts(folder)] == ["rank-000000"]
    (folder / "ranks/rank-000000.json").write_bytes(b"{")
    assert write.parts(folder) == []


def test_what_was_staged_and_not_committed_leaves_nothing(tmp_path: Path) -> None:
    write.stage(reduced(0), tmp_path / "job", "mine", [], 1)
    other, _ = write.stage(reduced(1), tmp_path / "job", "theirs", [], 1)
    write.clean(tmp_path / "job", "mine")
    assert other.exists() and not (tmp_path / "job/.staging/mine").exists()
    write.clean(tmp_path / "job", "theirs")
    assert not (tmp_path / "job/.staging").exists()


def test_a_rank_reduced_again_replaces_all_its_tables(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "job", reduced(0), reduced(1))
    before = set((folder / "packed").iterdir())
    dataset(folder, reduced(0, cycles=0))
    run = opened(folder)
    assert run.cycles.select("rank").collect()["rank"].to_list() == [1, 1] and run.info.ranks == (0, 1)
    assert not before & set((folder / "packed").iterdir())


def test_what_is_described_stays_until_the_next_description(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "job", reduced(0))
    staged, part = write.stage(reduced(0, cycles=7), folder, "session", [], 1)
    write.commit(folder, staged, part)  # and is killed here
    assert opened(folder).cycles.select(pl.len()).collect().item() == 2
    write.finish(folder, "job")
    assert opened(folder).cycles.select(pl.len()).collect().item() == 7
    assert len(list((folder / "cycles").iterdir())) == 1


def test_the_cache_holds_no_copy_and_notices_what_is_new(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "job", reduced(0), reduced(1))
    assert open_run(str(folder))[0].info.ranks == (0, 1)
    (entry,) = cache.entries()
    assert entry.bytes < 1000
    assert open_run(str(folder))[0].info.ranks == (0, 1)
    dataset(folder, reduced(2))
    (run,) = open_run(str(folder))
    assert run.info.ranks == (0, 1, 2) and run.cycles.select(pl.len()).collect().item() == 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda told: told | {"layout": 99}, "newer layout"),
        (lambda told: told | {"parts": []}, "without ranks"),
        (lambda told: told | {"parts": 7}, "damaged dataset description"),
        (lambda told: told | {"packed": {"cycles": "../../../etc/passwd"}}, "damaged or missing"),
        (lambda told: told | {"packed": {}, "parts": [told["parts"][0] | {"part": "../rank-000000"}]}, "or missing"),
        (lambda told: told | {"packed": {"cycles": "0" * 16}}, "damaged or missing"),
        (lambda told: told | {"info": {}}, "damaged or missing"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(tmp_path: Path, change: object, said: str) -> None:
    place = dataset(tmp_path / "job", reduced(0), reduced(1)) / "dataset.json"
    told = json.loads(place.read_text())
    assert callable(change)
    place.write_text(json.dumps({"format": told["format"], **change(told)}, separators=(",", ":")))
    with pytest.raises(Unreadable, match=said):
        opened(tmp_path / "job")


def test_damaged_tables_are_a_sentence_when_it_opens(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "job", reduced(0))
    (folder / "cycles/rank-000000.parquet").write_bytes(b"PAR1 no more PAR1")
    with pytest.raises(Unreadable, match="files are damaged or missing"):
        read.load(Job(folder / "dataset.json", tmp_path))


def test_sizes_that_cannot_be_true_are_a_sentence_when_it_opens(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "job", reduced(0, cycles=5))
    file = folder / "cycles/rank-000000.parquet"
    file.write_bytes(file.read_bytes().replace(b"\x2c\x15\x0a", b"\x2c\x15\x01"))
    with pytest.raises(Unreadable, match="claims -1 of 5 values"):
        read.load(Job(folder / "dataset.json", tmp_path))


def test_a_type_that_polars_cannot_read_is_a_sentence_when_it_opens(tmp_path: Path) -> None:
    """Polars panics at the kind of type 22 in the Arrow schema of a Parquet file: an input that fuzzing met."""
    folder = dataset(tmp_path / "job", reduced(0))
    file = folder / "cycles/rank-000000.parquet"
    pl.DataFrame({"cycle": [1]}).write_parquet(file)
    data = file.read_bytes()
    packed = re.search(rb"/////[A-Za-z0-9+/]+=*", data)
    assert packed is not None
    kinds = base64.b64decode(packed[0])
    said = []
    for at in [at for at, byte in enumerate(kinds) if byte == 2]:  # one of them says that the column is of integers
        changed = base64.b64encode(kinds[:at] + bytes([22]) + kinds[at + 1 :])
        file.write_bytes(data[: packed.start()] + changed + data[packed.end() :])
        try:
            read.load(Job(folder / "dataset.json", tmp_path))
        except Unreadable as refused:
            said.append(str(refused))
    assert any("not yet implemented" in one for one in said)


def test_ranks_that_an_older_version_reduced_open_with_the_others(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "job", reduced(0), reduced(1))
    old = folder / "cycles/rank-000000.parquet"
    pl.read_parquet(old).drop("label").with_columns(gone=pl.lit(1)).write_parquet(old)
    write.finish(folder, "job")
    labels = opened(folder).cycles.sort("rank", "cycle").collect()["label"].cast(pl.String).to_list()
    assert labels == [None, None, "step", "step"]


def test_the_description_is_written_last_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = dataset(tmp_path / "job", reduced(0))
    before = (folder / "dataset.json").read_bytes()

    def stop(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(OSError, match="no space"):
        write.finish(folder, "job")
    assert (folder / "dataset.json").read_bytes() == before and not list(folder.glob(".*json*"))


def told(path: Path) -> list[Event]:
    events: list[Event] = []
    ingest = Ingest(str(path), use_cache=False)
    ingest.start(events.append)
    ingest.wait()
    return events


def test_the_app_opens_it_without_a_process_that_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = dataset(tmp_path / "job", reduced(0), reduced(1))
    monkeypatch.setattr(subprocess, "Popen", None)  # to call it raises
    for path in (folder, folder / "dataset.json"):
        (event,) = told(path)
        assert isinstance(event, Loaded) and event.traces[0].info.ranks == (0, 1)


def test_what_is_wrong_with_it_is_a_sentence_in_the_app_too(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "job", reduced(0))
    (folder / "dataset.json").write_bytes(b'{"format":"warplens-dataset","layout":')
    (event,) = told(folder)
    assert isinstance(event, Failed) and "is a damaged dataset description" in event.message


def test_a_file_that_only_has_its_name_is_read_as_what_it_is(tmp_path: Path) -> None:
    trace = tmp_path / "dataset.json"
    trace.write_text('{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{}}]}')
    for path in (trace, tmp_path):
        assert in_place(path) is None
    assert opened(trace).info.format == "kineto"


def test_opening_it_imports_no_reader_of_another_format(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "job", reduced(0), reduced(1))
    program = (
        "import sys; from warplens.loaders.ingest.opening import open_run; open_run(sys.argv[1], use_cache=False); "
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    there = {name for name in done.stdout.split() if name.startswith("warplens.loaders.")}
    assert "warplens.loaders.dataset.read" in there
    others = {"warplens.loaders." + module.partition(":")[0] for module in registry.MODULES if module != "dataset"}
    assert not there & others
