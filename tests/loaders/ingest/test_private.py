"""Cached tables come only from a folder of the user's own, and damaged ones are read again."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from counted_reads import Counted, kernel, let_go

from warplens.loaders import private
from warplens.loaders.ingest import cache, spill

SOMEBODY = 12_345
"""A user that is not the one who runs the tests."""


def tick_of(file: Path) -> None:
    """Come back when the file system's clock has moved on: two changes within one tick are not told apart."""
    before = file.stat().st_ctime_ns
    scratch = file.parent / "tick"
    while True:
        scratch.touch()
        if scratch.stat().st_ctime_ns > before:
            break
    scratch.unlink()


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_whatever_the_umask_the_cache_is_the_users_alone(umask: int, loader: Counted, file: Path) -> None:
    before = os.umask(umask)
    try:
        assert kernel(file) == kernel(file) == "COUNTED one" and loader.reads == 1
        assert stat.S_IMODE(cache.path().stat().st_mode) == 0o700
        cache.path().chmod(0o775)  # as another program may have left it: set right before anything is written
        let_go()
        assert cache.entries() == () and kernel(file) == "COUNTED one" and loader.reads == 2
        assert stat.S_IMODE(cache.path().stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_an_entry_of_another_file_under_this_ones_name_is_not_used(
    loader: Counted, file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.counted"
    other.write_text("COUNTED two")
    kernel(file)
    kernel(other)
    places = {entry.source: entry.path for entry in cache.entries()}
    let_go()
    shutil.rmtree(places[str(file)])
    places[str(other)].rename(places[str(file)])
    assert kernel(file) == "COUNTED one"


def _flipped(path: Path) -> None:
    state, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 1] = bytes([data[len(data) // 2] ^ 0x10]) if data else b"x"
    path.write_bytes(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _folder(path: Path) -> None:
    private.discard(path)
    (path / "inside").mkdir(parents=True)


DAMAGE = [_flipped, lambda path: os.truncate(path, 3), lambda path: path.write_bytes(b""), private.discard]
NAMES = ["flipped", "cut", "emptied", "gone"]


@pytest.mark.parametrize("damage", DAMAGE, ids=NAMES)
@pytest.mark.parametrize("name", ["entry.json", "0/info.json", "0/kernels.arrow", ".held"])
def test_whatever_became_of_a_cached_file_the_trace_is_read_anew_and_cached_again(
    loader: Counted, file: Path, name: str, damage: Callable[[Path], None]
) -> None:
    kernel(file)
    (entry,) = cache.entries()
    let_go()
    tick_of(entry.path / name)
    damage(entry.path / name)
    assert kernel(file) == "COUNTED one"
    let_go()
    assert len(cache.entries()) == 1
    reads = loader.reads
    assert kernel(file) == "COUNTED one" and loader.reads == reads
    let_go()
    cache.clear()
    assert list(cache.path().iterdir()) == []


def _file(path: Path) -> None:
    private.discard(path)
    path.write_text("x")


@pytest.mark.parametrize("damage", [_folder, _file], ids=["folder", "file"])
def test_whatever_lies_where_an_entry_should_goes(loader: Counted, file: Path, damage: Callable[[Path], None]) -> None:
    kernel(file)
    (entry,) = cache.entries()
    let_go()
    damage(entry.path)
    assert kernel(file) == kernel(file) == "COUNTED one"
    assert loader.reads == 2 and private.is_private(entry.path)


def test_somebody_elses_temporary_directory_by_our_name_is_left_alone(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    theirs = tmp_path / f"{spill._PREFIX}x"
    theirs.mkdir()
    (theirs / ".held").touch()
    os.chown(theirs, SOMEBODY, -1)
    spill.sweep(tmp_path)
    assert theirs.exists()


def test_a_file_is_replaced_whole_and_a_cut_one_is_refused(tmp_path: Path) -> None:
    private.write(tmp_path / "file", private.sealed(b"one"))
    private.write(tmp_path / "file", private.sealed(b"12345"))
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert private.unsealed((tmp_path / "file").read_bytes()) == b"12345"
    for cut in ((tmp_path / "file").read_bytes()[:-1], b"12345", b""):
        with pytest.raises(ValueError, match="damaged"):
            private.unsealed(cut)
