"""A part of a run as a Chrome trace: what was in it, no more, and the same answers when it is opened again."""

from __future__ import annotations

import errno
import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from runs import host, kernel, run_of, steps
from runs import samples as readings

from warplens.analysis.contract.options import Options
from warplens.analysis.cycles.scope import scoped
from warplens.analysis.timeline.chrome_trace import document, gzipped, with_launches
from warplens.cli.main import main
from warplens.loaders import files
from warplens.loaders.ingest.opening import open_run


def a_run():
    return run_of(
        kernels=[kernel(0, 1_001, 2_500, "gemm <a>", stream=7, correlation=1, grid="2,1,1"),
                 kernel(1, 10_000, 999, "nccl", stream=8, kind="collective", correlation=2)],
        host=[host("cudaLaunchKernel", 500, 100, "runtime", correlation=1),
              host("cudaLaunchKernel", 6_000, 100, "runtime", correlation=2), host("aten::mm", 5_900, 300)],
        metrics=readings("sm", "GPU 0", (100, 5.0), (9_000, 7.0), unit="%"), cycles=steps(5_000, 6_000),
    )


def events(run):
    return json.loads(b"".join(document(run)))["traceEvents"]


def test_every_slice_is_there_to_the_nanosecond():
    made = [e for e in events(a_run()) if e["ph"] == "X"]
    assert [(e["cat"], e["name"]) for e in made] == [
        ("cuda_runtime", "cudaLaunchKernel"), ("cuda_runtime", "cudaLaunchKernel"), ("cpu_op", "aten::mm"),
        ("kernel", "gemm <a>"), ("kernel", "nccl"),
    ]
    text = b"".join(document(a_run()))
    assert b'"ts":1.001,"dur":2.500' in text and b'"ts":10.000,"dur":0.999' in text


def test_a_launch_and_what_it_launched_are_joined():
    flows = [e for e in events(a_run()) if e["ph"] in "sf"]
    assert [(e["ph"], e["id"], e["ts"]) for e in flows] == [
        ("s", 0, 0.5), ("f", 0, 1.001), ("s", 1, 6.0), ("f", 1, 10.0),
    ]
    assert {(e["pid"], e["tid"]) for e in flows if e["ph"] == "s"} == {(1, 1)}
    slices = {(e["pid"], e["tid"], e["ts"]) for e in events(a_run()) if e["ph"] == "X"}
    assert all((e["pid"], e["tid"], e["ts"]) in slices for e in flows)


def test_a_cycle_keeps_what_it_launched_and_the_call_that_did():
    run = a_run()
    part = scoped(run, Options(from_ns=9_000, to_ns=20_000))
    names = [e["name"] for e in events(with_launches(run, part)) if e["ph"] == "X"]
    assert names == ["cudaLaunchKernel", "nccl"]
    counters = [e for e in events(part) if e["ph"] == "C"]
    assert [(e["ts"], e["args"]) for e in counters] == [(9.0, {"%": 7.0})]


@pytest.mark.parametrize("name", ["part.json", "part.json.gz"])
def test_the_command_writes_a_trace_that_opens_again(samples: Path, tmp_path: Path, name: str) -> None:
    source, out = samples / "kineto.pt.trace.json", tmp_path / name
    assert main(["slice", str(source), "-o", str(out), "--no-cache"]) == 0
    before, after = (open_run(str(path), use_cache=False)[0].kernels.collect() for path in (source, out))
    for column in ("start_ns", "dur_ns", "stream", "correlation"):
        one, other = before[column].to_list(), after[column].to_list()
        if column == "start_ns":
            one, other = ([value - min(values) for value in values] for values in (one, other))
        assert sorted(one, key=str) == sorted(other, key=str), column
    assert sorted(before["name"].cast(str)) == sorted(after["name"].cast(str))
    assert list(tmp_path.iterdir()) == [out]


def test_a_scope_that_is_not_there_is_refused(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "part.json"
    assert main(["slice", str(samples / "kineto.pt.trace.json"), "-o", str(out), "--cycle", "99", "--no-cache"]) == 2
    assert "99" in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize("name", ["part.json", "part.json.gz"])
def test_a_trace_that_fails_half_way_leaves_the_file_that_was_there(tmp_path: Path, name: str) -> None:
    def pieces():
        yield b'{"traceEvents":['
        raise OSError(errno.ENOSPC, "the disk is full")

    def save(pieces: Iterable[bytes], path: Path) -> None:
        files.write(path, gzipped(pieces) if name.endswith(".gz") else pieces)

    path = tmp_path / name
    path.write_bytes(b"before")
    with pytest.raises(OSError, match="full"):
        save(pieces(), path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == {path: b"before"}
    save([b"one ", b"two"], path)
    whole = path.read_bytes()
    assert (gzip.decompress(whole) if name.endswith(".gz") else whole) == b"one two"
