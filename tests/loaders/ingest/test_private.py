"""What is believed without another look comes only from where nobody else can have put it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from counted_reads import Counted, kernel, let_go

from warplens.loaders.ingest import cache, private, spill
from warplens.loaders.native import code_cache, emit
from warplens.loaders.native.code_cache import Program
from warplens.loaders.native.functions import Objects, Unusable

SOMEBODY = 12_345
"""A user that is not the one who runs the tests."""


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A program of one function, whose compilation takes no time."""
    source = tmp_path / "program_of_a_test.py"
    source.write_text("")
    monkeypatch.setattr(emit, "emit", lambda *_: Objects("a processor", ("one",), (b"code",)))
    monkeypatch.setattr(code_cache, "Native", lambda code, names: (code, names))
    return Program("test", source.stem, ("one",), (str(source),))


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


def test_whatever_the_umask_nobody_else_can_write_to_compiled_code(umask: int, program: Program) -> None:
    program.compile()
    place = program.folder()
    assert place is not None and program.functions() is not None
    assert modes(place.parent) == {str(place.parent): 0o700, str(place): 0o700, str(place / "code"): 0o600}


@pytest.mark.parametrize("what", ["folder", "file"])
@pytest.mark.parametrize("how", ["mode", "owner"])
def test_code_that_somebody_else_can_have_written_is_never_run(program: Program, what: str, how: str) -> None:
    program.compile()
    place = program.folder()
    assert place is not None
    target = place if what == "folder" else place / "code"
    if how == "mode":
        target.chmod(0o770 if what == "folder" else 0o660)
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(target, SOMEBODY, -1)
    assert program.functions() is None
    assert what == "folder" or not program.ready(), "the next load compiles anew"


def test_code_from_a_folder_of_somebody_else_is_compiled_elsewhere(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    theirs = tmp_path / "theirs" / "warplens"
    theirs.mkdir(parents=True)
    os.chown(theirs, SOMEBODY, -1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(theirs.parent))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    place = program.folder()
    assert place is not None and theirs not in place.parents


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


@pytest.mark.parametrize("damage", DAMAGE, ids=NAMES)
def test_whatever_became_of_compiled_code_it_is_compiled_anew(
    program: Program, damage: Callable[[Path], None]
) -> None:
    program.compile()
    place = program.folder()
    assert place is not None
    damage(place / "code")
    assert program.functions() is None
    assert not program.ready()
    program.compile()
    code_cache._functions.cache_clear()
    assert program.functions() is not None


def test_a_mark_that_is_no_file_does_not_keep_anybody_from_compiling(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[object]()
    start = subprocess.Popen

    def noted(_: object, **options: Any) -> subprocess.Popen[bytes]:
        started.append(1)
        with start(["true"], **options) as process:
            return process

    monkeypatch.setattr("subprocess.Popen", noted)
    place = program.folder()
    assert place is not None
    for damage in (_fifo, _folder):
        damage(place / "compiling")
        program.prepare()
    assert len(started) == 2


def test_code_of_another_numba_has_another_folder(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    one = program.folder()
    monkeypatch.setattr(code_cache, "_version", lambda package: b"another")
    code_cache._folder.cache_clear()
    assert program.folder() != one


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
    assert issubclass(Unusable, Exception)
