"""What is believed without another look comes only from where nobody else can have put it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from counted_reads import Counted, kernel, let_go

from warplens.loaders import private
from warplens.loaders.ingest import cache, spill

SOMEBODY = 12_345
"""A user that is not the one who runs the tests."""


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    found = [folder, *folder.rglob("*")]
    return {str(path): stat.S_IMODE(path.lstat().st_mode) for path in found}


def tick_of(file: Path) -> None:
    """Come back when the file system's clock has moved on: two changes within one tick are not told apart."""
    before = file.stat().st_ctime_ns
    scratch = file.parent / "tick"
    while True:
        scratch.touch()
        if scratch.stat().st_ctime_ns > before:
            break
    scratch.unlink()


def test_whatever_the_umask_nobody_else_can_write_to_the_cache(umask: int, loader: Counted, file: Path) -> None:
    kernel(file)
    assert kernel(file) == "COUNTED one" and loader.reads == 1
    found = modes(cache.path().parent)
    assert {mode for path, mode in found.items() if os.path.isdir(path)} == {0o700}
    assert {mode for path, mode in found.items() if os.path.isfile(path)} == {0o600}


def test_tables_that_somebody_else_can_have_written_are_read_anew(loader: Counted, file: Path) -> None:
    kernel(file)
    (entry,) = cache.entries()
    entry.path.chmod(0o770)
    let_go()
    assert kernel(file) == "COUNTED one" and loader.reads == 2
    assert {stat.S_IMODE(entry.path.stat().st_mode) for entry in cache.entries()} == {0o700}
    (entry.path / "0" / "kernels.arrow").chmod(0o666)
    let_go()
    assert kernel(file) == "COUNTED one" and loader.reads == 3


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


def _fifo(path: Path) -> None:
    private.discard(path)
    os.mkfifo(path, 0o600)


def _folder(path: Path) -> None:
    private.discard(path)
    (path / "inside").mkdir(parents=True)


def _link(path: Path) -> None:
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to(moved)


def _nested(path: Path) -> None:
    path.write_bytes(private.sealed(b"[" * 100_000) if path.name == "entry.json" else b"[" * 100_000)


DAMAGE = [_flipped, lambda path: os.truncate(path, 3), lambda path: path.write_bytes(b""), private.discard, _fifo,
          _folder, _link, _nested]  # fmt: skip
NAMES = ["flipped", "cut", "emptied", "gone", "fifo", "folder", "link", "nested"]


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


@pytest.mark.parametrize("damage", [_fifo, _folder, _file, _link], ids=["fifo", "folder", "file", "link"])
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


def test_what_a_private_file_holds_is_read_up_to_a_length(tmp_path: Path) -> None:
    private.write(tmp_path / "file", b"12345")
    assert private.read(tmp_path / "file", 5) == b"12345"
    with pytest.raises(private.NotOurs, match="longer"):
        private.read(tmp_path / "file", 4)
    with pytest.raises(ValueError, match="damaged"):
        private.unsealed(b"12345")
