"""Jobs as they lie on disk: folders of rank folders, archives, and ranks that cannot be read."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Literal

import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import discovery, inputs
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace


def trace(rank: int | None = None, kernels: int = 3) -> bytes:
    """A recording of one rank, which it says of itself if given."""
    events = [
        {"ph": "X", "cat": "kernel", "name": f"k{n}", "pid": 0, "tid": 7, "ts": 1_700_000_000_000_000 + n, "dur": 0.5}
        for n in range(kernels)
    ]
    about: dict[str, Any] = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 4}}
    return json.dumps({"schemaVersion": 1, **about, "traceEvents": events}).encode()


def write(folder: Path, **files: bytes) -> Path:
    for name, data in files.items():
        place = folder / name.replace("__", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.with_name(f"{place.name}.pt.trace.json").write_bytes(data)
    return folder


def opened(path: Path) -> Trace:
    (run,) = open_run(str(path), use_cache=False, compiled=False)
    return run


def test_folders_of_ranks_are_one_job(tmp_path: Path) -> None:
    job = write(tmp_path / "job", rank0__trace=trace(), rank1__trace=trace(), rank12__trace=trace())
    assert opened(job).info.ranks == (0, 1, 12)


def test_links_to_folders_of_ranks_are_one_job_and_a_link_back_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "kept", rank0__trace=trace(), rank1__trace=trace())
    (tmp_path / "job").mkdir()
    for name in ("rank0", "rank1"):
        (tmp_path / "job" / name).symlink_to(tmp_path / "kept" / name)
    (tmp_path / "job" / "again").symlink_to(tmp_path / "job")
    assert opened(tmp_path / "job").info.ranks == (0, 1)


def test_what_a_recording_says_of_itself_goes_before_its_folder(tmp_path: Path) -> None:
    job = write(tmp_path / "job", node0__rank0__t=trace(3), node1__rank0__t=trace(2))
    assert opened(job).info.ranks == (2, 3)


def test_files_go_before_folders_beside_them(tmp_path: Path) -> None:
    job = write(tmp_path / "job", rank0=trace(), rank1=trace(), old__rank7=trace())
    assert opened(job).info.ranks == (0, 1)


@pytest.mark.parametrize("broken", [b"", b'{"schemaVersion": 1, "traceEvents": [' + b"\xff" * 9, b"\x1f\x8b\x08broken"])
def test_a_rank_that_cannot_be_read_is_named_and_the_rest_opens(tmp_path: Path, broken: bytes) -> None:
    job = write(tmp_path / "job", rank0=trace(), rank1=broken, rank2=trace())
    run = opened(job)
    assert set(run.info.ranks) >= {0, 2}
    assert any("rank1" in said or "rank 1" in said for said in run.info.warnings)


def test_where_no_rank_can_be_read_nothing_opens(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        opened(write(tmp_path / "job", rank0=b"", rank1=b""))
    (tmp_path / "hollow" / "inside").mkdir(parents=True)
    with pytest.raises(Unreadable, match="holds no trace"):
        opened(tmp_path / "hollow")


def tar(path: Path, mode: Literal["w", "w:gz"], **members: bytes) -> Path:
    with tarfile.open(path, mode) as packed:
        for name, data in members.items():
            entry = tarfile.TarInfo(name.replace("__", "/") + ".pt.trace.json")
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_is_the_folder_it_was_made_of(tmp_path: Path, mode: Literal["w", "w:gz"]) -> None:
    packed = tar(tmp_path / "job.tar", mode, job__rank0=trace(), job__rank1=trace())
    run = opened(packed)
    assert run.info.ranks == (0, 1)
    assert run.info.facts["files"]["1"] == f"{packed}/job/rank1.pt.trace.json"


def test_a_zip_is_the_folder_it_was_made_of(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "job.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("rank0.json", trace())
        packed.writestr("rank1.json", trace())
    assert opened(tmp_path / "job.zip").info.ranks == (0, 1)


def test_nothing_is_written_outside_the_folder(tmp_path: Path) -> None:
    packed = tmp_path / "evil.tar"
    with tarfile.open(packed, "w") as out:
        for name, kind, link in (
            ("../escaped.json", tarfile.REGTYPE, ""), ("/absolute.json", tarfile.REGTYPE, ""),
            ("link.json", tarfile.SYMTYPE, "/etc/passwd"), ("pipe.json", tarfile.FIFOTYPE, ""),
            ("hard.json", tarfile.LNKTYPE, "../x"), ("good.pt.trace.json", tarfile.REGTYPE, ""),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, link
            entry.size = len(trace()) if kind == tarfile.REGTYPE else 0
            out.addfile(entry, io.BytesIO(trace()) if entry.size else None)
    target = tmp_path / "inside" / "here"
    target.mkdir(parents=True)
    passed = inputs.unpack("evil.tar", packed, target, lambda *_: None)
    assert [said.partition(" was left out")[0] for said in passed] == [
        "evil.tar/../escaped.json", "evil.tar//absolute.json", "evil.tar/link.json", "evil.tar/pipe.json",
        "evil.tar/hard.json",
    ]
    assert sorted(path.name for path in tmp_path.rglob("*") if not path.is_dir()) == ["evil.tar", "good.pt.trace.json"]
    run = opened(packed)
    assert run.has("kernels") and any("link.json was left out: it is a link" in said for said in run.info.warnings)


def test_a_file_without_a_name_in_an_archive_is_left_out(tmp_path: Path) -> None:
    """A directory of a zip whose only entry has none: the smallest input of a failure that fuzzing met."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(entry), 0, 0)
    (tmp_path / "run.zip").write_bytes(entry + end)
    with pytest.raises(Unreadable, match="an archive without files"):
        inputs.unpack("run.zip", tmp_path / "run.zip", tmp_path, lambda *_: None)


def test_a_damaged_entry_with_a_line_end_in_its_name_is_refused_in_one_line(tmp_path: Path) -> None:
    """What fuzzing met: a name in the directory that is not the one in front of the data, with a line end in it."""
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as out:
        out.writestr("rank0.json", trace())
    data = (tmp_path / "run.zip").read_bytes()
    at = data.rindex(b"rank0.json")
    (tmp_path / "run.zip").write_bytes(data[:at] + b"ran\n0.json" + data[at + 10 :])
    with pytest.raises(Unreadable) as refused:
        inputs.unpack("run.zip", tmp_path / "run.zip", tmp_path, lambda *_: None)
    assert "ran?0.json was left out" in str(refused.value) and "\n" not in str(refused.value)


def test_a_wrong_checksum_around_an_archive_is_said(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "job.tar", "w") as out:
        entry = tarfile.TarInfo("rank0.json")
        entry.size = len(trace())
        out.addfile(entry, io.BytesIO(trace()))
    packed = bytearray(gzip.compress((tmp_path / "job.tar").read_bytes()))
    packed[-8] ^= 1
    (tmp_path / "job.tar.gz").write_bytes(packed)
    run = opened(tmp_path / "job.tar.gz")
    assert run.has("kernels") and any("gzip checksum is wrong" in said for said in run.info.warnings)


def test_a_damaged_entry_is_named_and_the_others_open(tmp_path: Path) -> None:
    packed = tmp_path / "job.zip"
    with zipfile.ZipFile(packed, "w") as out:
        for rank in range(3):
            out.writestr(f"rank{rank}.json", trace())
    data = bytearray(packed.read_bytes())
    with zipfile.ZipFile(packed) as archive:
        begin = archive.getinfo("rank1.json").header_offset
    data[begin] ^= 1
    packed.write_bytes(data)
    run = opened(packed)
    assert run.info.ranks == (0, 2)
    assert any("rank1.json was left out: it is damaged (Bad magic" in said for said in run.info.warnings)


def test_an_entry_with_a_wrong_checksum_is_read_to_its_end(tmp_path: Path) -> None:
    packed = tmp_path / "job.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("rank0.json", trace())
        out.writestr("rank1.json", trace())
    data = bytearray(packed.read_bytes())
    data[data.rindex(b"PK\x01\x02") + 16] ^= 1  # its checksum in the list of files
    packed.write_bytes(data)
    run = opened(packed)
    assert run.info.ranks == (0, 1)
    assert [said for said in run.info.warnings if "the checksum of rank1.json is wrong: it was read in full" in said]


def test_the_readable_entries_of_a_cut_tar_open(tmp_path: Path) -> None:
    packed = tar(tmp_path / "job.tar", "w", rank0=trace(), rank1=trace())
    packed.write_bytes(packed.read_bytes()[: 1024 + -(-len(trace()) // 512) * 512 + 40])
    run = opened(packed)
    assert run.has("kernels") and any("is damaged" in said for said in run.info.warnings)


def test_names_with_a_time_of_day_are_taken_and_what_a_system_hides_is_passed_over(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as packed:
        packed.writestr("2026-03-02T14:07:30/rank0.json", trace())
        packed.writestr("2026-03-02T14:07:30/rank1.json", trace())
        packed.writestr("__MACOSX/._rank0.json", b"x")
    run = opened(tmp_path / "job.zip")
    assert run.info.ranks == (0, 1) and not any("left out" in said for said in run.info.warnings)


def test_a_recording_that_lies_packed_and_unpacked_is_read_once(tmp_path: Path) -> None:
    job = write(tmp_path / "job", rank0=trace(), rank1=trace())
    one = next(job.glob("*rank1*"))
    one.with_name(one.name + ".gz").write_bytes(gzip.compress(trace()))
    run = opened(job)
    assert run.info.ranks == (0, 1)
    assert any(said.endswith(f".gz was left out: {one.name} next to it is the same, decompressed")
               for said in run.info.warnings)


def test_an_archive_may_not_unfold_without_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("rank0.json", b"[" + b" " * (3 << 20))
    monkeypatch.setattr("warplens.loaders.ingest.limits.UNCOUNTED_BYTES", 1 << 20)
    with pytest.raises(Unreadable, match="unpacks to more"):
        opened(tmp_path / "bomb.zip")


@pytest.mark.parametrize("cut", [300, 2000])
def test_a_damaged_archive_is_a_sentence(tmp_path: Path, cut: int) -> None:
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as packed:
        for rank in range(9):
            packed.writestr(f"rank{rank}.json", trace())
    data = (tmp_path / "job.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(data[:cut])
    with pytest.raises(Unreadable):
        opened(tmp_path / "cut.zip")


def test_folders_with_recordings_are_named_where_one_opens_without_them_and_few_files_are_read_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, recognise = list[str](), discovery.recognise
    monkeypatch.setattr(discovery, "recognise", lambda file: read.append(file.name) or recognise(file))
    write(tmp_path / "job", here=trace(), old__a=trace(), old__b=trace(), older__c__d=trace())
    (tmp_path / "job" / "notes").mkdir()
    (said,) = opened(tmp_path / "job").info.warnings
    assert said == (f"{tmp_path / 'job'}: recordings in its folders (old, older) were not opened; "
                    "name a folder, or a file in it, to open that")
    assert read == ["a.pt.trace.json", "d.pt.trace.json"]
    assert opened(write(tmp_path / "one", here=trace(), capture_traces__e=trace())).info.warnings == ()
    one = opened(write(tmp_path / "two", here=trace(), in__a=trace()))
    assert "recordings in its folders (in) were not opened" in one.info.warnings[0]
    many = opened(write(tmp_path / "many", here=trace(), **{f"f{at}__a": trace() for at in range(9)}))
    assert "(f0, f1, f2, f3, …)" in many.info.warnings[0] and len(read) == 2 + 1 + 5


def _reports(samples: Path, folder: Path, name: str, apart_ns: int) -> Path:
    import sqlite3

    for number in (1, 2, 3):
        path = Path(shutil.copy(samples / "nsys.sqlite", folder / name.format(number)))
        path.chmod(0o644)
        with sqlite3.connect(path) as database:
            database.execute("update TARGET_INFO_SESSION_START_TIME set utcEpochNs = utcEpochNs + ?",
                             (number * apart_ns,))
        database.close()
    return folder


@pytest.mark.parametrize(("name", "apart_ns", "is_job"), [
    ("report{}.sqlite", 600 * 10**9, False),
    ("rank{}.sqlite", 600 * 10**9, False), ("rank{}.sqlite", 1000, True),
])
def test_recordings_made_one_after_another_are_no_ranks(
    name: str, apart_ns: int, is_job: bool, samples: Path, tmp_path: Path
) -> None:
    folder = _reports(samples, tmp_path, name, apart_ns)
    if is_job:
        (job,) = open_run(str(folder), use_cache=False)
        assert job.info.ranks == (1, 2, 3)
        return
    with pytest.raises(Unreadable, match="3 recordings made one after another: they are not the ranks of one job"):
        open_run(str(folder), use_cache=False)
    (one,) = open_run(str(folder), use_cache=False, worker=1)
    assert one.info.label == name.format(2).split(".")[0] and not one.info.ranks


def session(pid: int, begin_ms: int, device: int = 0, rank: int | None = None, clock: bool = True) -> bytes:
    """A recording of 100 ms of one process, launching on one device."""
    base = 1_700_000_000_000_000 if clock else 1_000
    events = [event for at in range(0, 100, 10) for event in (
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": pid,
         "ts": base + 1000 * (begin_ms + at), "dur": 5, "args": {"correlation": at + 1}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": device, "tid": 7, "dur": 9000,
         "ts": base + 1000 * (begin_ms + at) + 50, "args": {"correlation": at + 1, "device": device}})]
    about: dict[str, Any] = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 4}}
    return json.dumps({"schemaVersion": 1, **about, "traceEvents": events}).encode()


@pytest.mark.parametrize(
    "name", ["run_pp{pp}_tp{tp}", "tp{tp}-pp{pp}", "1700000000-TP-{tp}-EP-0-PP-{pp}", "PP{pp}__tp_{tp}"])
def test_a_layout_in_the_names_gives_ranks_in_its_own_order_and_is_shown(name: str, tmp_path: Path) -> None:
    places = [(pp, tp) for tp in (1, 0) for pp in (1, 0)]
    files = {name.format(pp=pp, tp=tp): session(100 + 2 * pp + tp, 0, device=tp) for pp, tp in places}
    job = opened(write(tmp_path, **files))
    assert job.info.facts["processes"] == {"0": "PP0 TP0", "1": "PP0 TP1", "2": "PP1 TP0", "3": "PP1 TP1"}
    pids = dict(job.host.select("rank", "pid").unique().collect().rows())
    assert pids == {0: 100, 1: 101, 2: 102, 3: 103}


@pytest.mark.parametrize("name", ["run_tp8_{}", "trace-{}", "rank{}", "tp{}", "dp{}_pp0", "worker{}__t"])
def test_runs_made_one_after_another_are_no_ranks_whatever_their_names(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path, **{name.format(at): session(40 + at, 1_000 * at) for at in (1, 2, 3)})
    with pytest.raises(Unreadable, match="3 recordings made one after another: they are not the ranks of one job") as e:
        opened(folder)
    assert "--worker" in str(e.value.advice)
    (second,) = open_run(str(folder), use_cache=False, worker=1)
    assert second.info.label.startswith(name.format(2).split("__")[-1].split(".")[0])


def test_mere_numbers_are_ranks_only_of_other_processes_or_devices_on_one_clock(tmp_path: Path) -> None:
    def job(where: str, **how: Any) -> Trace:
        files = {f"run{at}": session(**{name: of(at) for name, of in how.items()}) for at in (1, 2)}
        return opened(write(tmp_path / where, **files))

    assert job("pids", pid=lambda at: 40 + at, begin_ms=lambda at: 10 * at).info.ranks == (1, 2)
    assert job("devices", pid=lambda _: 40, device=lambda at: at, begin_ms=lambda at: 10 * at).info.ranks == (1, 2)
    with pytest.raises(Unreadable, match="2 recordings of the same process and device"):
        job("copies", pid=lambda _: 40, begin_ms=lambda at: 10 * at)
    with pytest.raises(Unreadable, match="2 recordings without a common clock"):
        job("no clock", pid=lambda at: 40 + at, begin_ms=lambda at: 10 * at, clock=lambda _: False)


def test_ranks_that_each_part_of_a_layout_counts_for_itself_are_told_apart_by_it(tmp_path: Path) -> None:
    files = {f"dp{dp}": session(40 + dp, 0, rank=0) for dp in (0, 1)}
    job = opened(write(tmp_path / "layout", **files))
    assert job.info.ranks == (0, 1) and job.kernels.select("rank").unique().collect().height == 2
    with pytest.raises(Unreadable, match="both say they are rank 0"):
        opened(write(tmp_path / "ranks", **{f"rank{at}": session(40 + at, 0, rank=0) for at in (0, 1)}))


def test_passes_of_any_format_are_one_program(samples: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"pmc_{number}" / "host").mkdir(parents=True)
        shutil.copy(samples / "rocpd_results.db", tmp_path / f"pmc_{number}" / "host" / f"{number}_{7 * number}.db")
    (job,) = open_run(str(tmp_path), use_cache=False)
    (alone,) = open_run(str(samples / "rocpd_results.db"), use_cache=False)
    assert not job.info.ranks and "2 passes" in job.info.warnings[-1]
    assert job.kernels.collect().height == alone.kernels.collect().height
    assert job.launch_metrics.collect().height == 2 * alone.launch_metrics.collect().height
