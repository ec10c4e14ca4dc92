"""The cache: a second open reads nothing, and nothing that goes wrong with it keeps a trace from opening."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from counted_reads import Counted, kernel, let_go

from warplens.loaders import registry
from warplens.loaders.ingest import cache, spill


class Accompanied(Counted):
    """The same, with a second file beside the first."""

    def companions(self, path: Path) -> tuple[Path, ...]:
        beside = path.with_suffix(".beside")
        return (beside,) if beside.exists() else ()


def test_a_second_open_reads_nothing(loader: Counted, file: Path) -> None:
    assert kernel(file) == kernel(file) == "COUNTED one"
    assert loader.reads == 1
    (entry,) = cache.entries()
    assert (entry.source, entry.loader, entry.current) == (str(file), "counted", True)
    assert entry.source_bytes == len("COUNTED one")


def test_a_link_to_it_finds_the_same_entry(loader: Counted, file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    assert kernel(file) == kernel(tmp_path / "link")
    assert loader.reads == 1


def test_a_file_that_changed_is_read_again(loader: Counted, file: Path) -> None:
    kernel(file)
    before = file.stat()
    file.write_text("COUNTED two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kernel(file) == "COUNTED two"
    let_go()
    assert not any(entry.source == str(file) and not entry.current for entry in cache.entries()[:1])


def test_a_newer_loader_reads_again(loader: Counted, file: Path) -> None:
    kernel(file)
    loader.version = 2
    kernel(file)
    assert loader.reads == 2


def test_a_file_read_beside_it_counts_as_well(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    one = Accompanied()
    monkeypatch.setattr(registry, "installed", lambda: (one,))
    kernel(file)
    file.with_suffix(".beside").write_text("1")
    kernel(file)
    assert one.reads == 2
    file.with_suffix(".beside").write_text("22")
    kernel(file)
    kernel(file)
    assert one.reads == 3


@pytest.mark.parametrize("damage", ["cut", "overwritten", "no description", "emptied"])
def test_a_damaged_entry_is_dropped_and_read_again(loader: Counted, file: Path, damage: str) -> None:
    kernel(file)
    (entry,) = cache.entries()
    table = entry.path / "0" / "kernels.arrow"
    size = table.stat().st_size
    if damage == "cut":
        os.truncate(table, size // 2)
    elif damage == "overwritten":
        table.write_bytes(b"\xa5" * size)
    elif damage == "no description":
        (entry.path / "entry.json").write_text('{"files": 3')
    else:
        (entry.path / "entry.json").write_text("{}")
    assert kernel(file) == "COUNTED one"
    assert loader.reads == 2
    assert kernel(file) == "COUNTED one"
    assert loader.reads == 2


def test_without_the_cache_nothing_is_kept(loader: Counted, file: Path) -> None:
    assert kernel(file, use_cache=False) == kernel(file, use_cache=False)
    assert loader.reads == 2
    assert not cache.path().exists()


def test_a_home_one_may_not_write_to_works_without(
    loader: Counted, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))  # a file: no directory can be made in it, not even by root
    assert kernel(file) == "COUNTED one"
    assert cache.entries() == ()


def test_a_full_disk_falls_back_to_a_temporary_directory(loader: Counted, file: Path) -> None:
    loader.fails.append(OSError(28, "No space left on device"))
    assert kernel(file) == "COUNTED one"
    assert loader.reads == 2
    assert cache.entries() == ()


def test_a_limit_drops_the_least_recently_used(
    loader: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{number}.counted" for number in range(4)]
    for number, path in enumerate(files):
        path.write_text(f"COUNTED {number}")
    kernel(files[0])
    room = cache.entries()[0].bytes * 5 // 2
    for used, path in enumerate(files[1:3]):
        kernel(path)
        os.utime(next(e.path for e in cache.entries() if e.source == str(path)) / ".held", (used + 1, used + 1))
    monkeypatch.setenv("WARPLENS_CACHE_MAX", str(room))
    spill.release(next(e.path for e in cache.entries() if e.source == str(files[1])))
    kernel(files[3])
    assert str(files[1]) not in {entry.source for entry in cache.entries()}
    assert {str(files[0]), str(files[2])} <= {entry.source for entry in cache.entries()}, "those are held"
    let_go()
    kernel(files[1])
    assert len(cache.entries()) == 2


def test_what_alone_outgrows_the_limit_is_not_kept(
    loader: Counted, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLENS_CACHE_MAX", "10")
    assert kernel(file) == "COUNTED one"
    assert cache.entries() == ()


def test_what_a_file_costs_does_not_grow_with_the_entries(
    loader: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel(_written(tmp_path, 0))
    read: list[Path] = []
    description = cache._description

    def counted(directory: Path) -> dict[str, Any] | None:
        read.append(directory)
        return description(directory)

    monkeypatch.setattr(cache, "_description", counted)
    costs = []
    for number in range(1, 9):
        kernel(_written(tmp_path, number))
        costs.append(len(read))
        read.clear()
    assert len(cache.entries()) == 9
    assert len(set(costs)) == 1


@pytest.mark.parametrize("harm", ["", "[]", "nothing", '[-1, -1, "now"]', "[0, 0, 0]"])
def test_a_running_sum_that_cannot_be_believed_is_counted_anew(
    loader: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    for number in range(4):
        kernel(_written(tmp_path, number))
    let_go()
    (cache.path() / "sum.json").write_text(harm)
    monkeypatch.setenv("WARPLENS_CACHE_MAX", str(cache.entries()[0].bytes * 5 // 2))
    kernel(_written(tmp_path, 4))
    assert len(cache.entries()) == 2


def test_more_entries_than_the_most_go_by_their_last_use(
    loader: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_MOST_ENTRIES", 10)
    for number in range(12):
        kernel(_written(tmp_path, number))
        (entry,) = (one for one in cache.entries() if one.source.endswith(f"/{number}.counted"))
        os.utime(entry.path / ".held", (number, number))
        let_go()
    assert {Path(entry.source).stem for entry in cache.entries()} == {"2", *"3456789", "10", "11"}


def test_entries_that_many_processes_add_at_once_are_all_counted(loader: Counted, tmp_path: Path) -> None:
    kernel(_written(tmp_path, 0))
    size = cache.entries()[0].bytes
    directories = [cache.entries()[0].path]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(cache.settle, [directories] * 32))
    assert json.loads((cache.path() / "sum.json").read_text())[:2] == [33 * size, 33]


def _written(folder: Path, number: int) -> Path:
    path = folder / f"{number}.counted"
    path.write_text(f"COUNTED {number}")
    return path


@pytest.mark.parametrize("text, size", [
    ("0", 0), ("1000", 1000), ("2k", 2048), ("1.5 MB", 3 << 19), ("3GiB", 3 << 30), ("1t", 1 << 40),
])
def test_the_limit_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("WARPLENS_CACHE_MAX", text)
    assert cache.limit() == size


def test_two_versions_of_the_package_keep_their_own_entries(
    loader: Counted, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = ["0123456789ab", "ba9876543210"]
    for version in versions * 3:
        monkeypatch.setattr(cache, "_version", lambda version=version: version)
        kernel(file)
        let_go()
    assert loader.reads == 2
    for entry in cache.entries():
        os.utime(entry.path / spill.HOLD, (1, 1))
    file.write_text("COUNTED two")
    kernel(file)
    assert len(cache.entries()) == 1, "neither an older state nor a version that nobody uses stays"


def test_clear_leaves_what_is_open(loader: Counted, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.counted"
    other.write_text("COUNTED other")
    kernel(file)
    kernel(other)
    spill.release(next(e.path for e in cache.entries() if e.source == str(other)))
    holder = (
        "import sys, pathlib; from warplens.loaders.ingest import spill;"
        "print(spill.hold(pathlib.Path(sys.argv[1])), flush=True); sys.stdin.read()"
    )
    held = next(e.path for e in cache.entries() if e.source == str(file))
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(held)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        let_go()
        gone, size, left = cache.clear()
        process.communicate()
    assert (gone, left) == (1, 1)
    assert size > 0
    assert cache.clear()[0] == 1
    assert list(cache.path().iterdir()) == []


def test_what_a_killed_writer_left_goes_with_the_next_one() -> None:
    writer = (
        "import os, signal; from warplens.loaders.ingest import cache; made = cache.begin(); (made / 'half').touch();"
        "print(made, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", writer], capture_output=True, text=True)
    left = Path(done.stdout.strip())
    assert (left / "half").exists()
    mine = cache.begin()
    assert not left.exists()
    assert mine.exists()
    cache.begin()
    assert mine.exists(), "what a living process writes stays"


@pytest.mark.parametrize("end", ["sys.exit(3)", "os.kill(os.getpid(), 15)", "os.kill(os.getpid(), 1)", "1 / 0"])
def test_temporary_directories_go_with_their_process(end: str) -> None:
    program = f"import os, sys; from warplens.loaders.ingest import spill; print(spill.directory(), flush=True); {end}"
    minded = "import signal; signal.signal(1, signal.SIG_DFL); "  # these tests may run under nohup
    done = subprocess.run([sys.executable, "-c", minded + program], capture_output=True, text=True)
    assert done.returncode != 0
    assert not Path(done.stdout.strip()).exists()


def test_more_directories_are_held_than_files_may_be_open_at_first() -> None:
    program = (
        "import resource; from warplens.loaders.ingest import spill;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]));"
        "spill.expect(200); print(len({spill.directory() for _ in range(200)}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "200\n"


def test_looking_at_the_cache_loads_nothing_heavy() -> None:
    program = "import sys; from warplens.loaders.ingest import cache, process; cache.entries(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"polars", "numpy", "orjson", "pyarrow"}.isdisjoint(done.stdout.split())
