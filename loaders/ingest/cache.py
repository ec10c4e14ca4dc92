"""Tables of traces that were read before, so that opening one again takes no time.

An entry is a directory named by a hash of what it came from: the file's real path, size and times, and the state of
the loaders' code, so that finding one needs neither the format nor its loader. Files read with it, the loader and its
version are noted inside and checked too. It is written under a temporary name, synced, then renamed, so an
entry that exists is whole. All the same it is used only where nobody else can have written to it (``private``) and
where every file is the one that was put there: size, time of modification and time of change, which nobody can set
back. Anything else is discarded and read anew. The least recently used entries go when the cache
outgrows its limit, never one that a process has open. Without a place to write, everything works from temporary
directories. Holds no data frames, so that ``warplens cache`` starts at once.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import private, spill
from .digest import blake2b

LAYOUT = 2
"""Goes up when the files of an entry change in a way an older version cannot read."""
_ENTRY = "entry.json"
DERIVED = "derived"
"""The folder of each trace in an entry that is not part of it: what was found out since (``store.derived``)."""
Stamp = tuple[str, int, int, int]
"""A file's real path, size, time of modification and time of change, both in nanoseconds."""
_MOST_ENTRIES = 2000
_MOST_DESCRIPTION = 1 << 20
"""Bytes of an entry's description: a folder of four thousand ranks has four thousand entries, not a long one."""
_DEFAULT_BYTES, _DEFAULT_SHARE = 20 << 30, 0.1
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Entry(NamedTuple):
    """One cached input: where it came from, what it takes, when it was used, and whether its source is unchanged."""

    path: Path
    source: str
    loader: str
    source_bytes: int
    bytes: int
    used: float
    current: bool


class Origin(NamedTuple):
    """What an entry comes from: the input's file and those read with it, and the loader.

    ``alone`` says that the loader is one of ours and reads nothing beside the file, so that the file's own state is
    enough to trust the entry.
    """

    stamps: tuple[Stamp, ...]
    loader: str
    version: int
    alone: bool


class CacheEntry(NamedTuple):
    """An entry that is held for this process: where its tables are and what they come from."""

    directory: Path
    origin: Origin


def path() -> Path:
    """The directory of the cache, whether or not it exists."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("warplens", appauthor=False)) / "traces"


def limit() -> int:
    """The most bytes the cache may take: WARPLENS_CACHE_MAX ('500M', '20G'), else 20 GiB or a tenth of the disk."""
    asked = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", os.environ.get("WARPLENS_CACHE_MAX", "").lower())
    if asked:
        return int(float(asked[1]) * _UNITS[asked[2]])
    try:
        total = shutil.disk_usage(_nearest(path())).total
    except OSError:
        return _DEFAULT_BYTES
    return min(_DEFAULT_BYTES, int(total * _DEFAULT_SHARE))


def stamps(files: Sequence[str | os.PathLike[str]]) -> tuple[Stamp, ...]:
    """Real path, size and times of change of each file; the inode's own time tells a restored mtime. Raises OSError."""
    found = []
    for file in files:
        real = os.path.realpath(file)
        state = os.stat(real)
        found.append((real, state.st_size, state.st_mtime_ns, state.st_ctime_ns))
    return tuple(found)


def find(file: str | os.PathLike[str]) -> CacheEntry | None:
    """The file's entry, held for this process and marked as used; None where none is whole and current."""
    try:
        (stamp,) = stamps([file])
        directory = path() / _digest(stamp)
        if not _is_ours() or not os.path.lexists(directory):
            return None
        if not spill.hold(directory):
            if not spill.is_held(directory):
                discard(directory)
            return None
    except OSError:
        return None
    raw = _read(directory)
    if raw is None or _stamps_of(raw)[0] != stamp or not _is_current(raw):
        discard(directory)
        return None
    return CacheEntry(directory, Origin(_stamps_of(raw), raw["loader"], raw["version"], raw["alone"]))


def begin() -> Path:
    """A temporary directory on the cache's disk to write an entry into. Raises OSError where there can be none."""
    root = path()
    private.make(Path(os.path.realpath(root.parent)))
    return spill.directory(private.make(root))


def commit(origin: Origin, written: Path) -> Path:
    """Make the written directory the entry; gives where the tables are, which is ``written`` if it may not be kept.

    It is kept unless the source changed meanwhile or it alone outgrows the limit. Raises OSError on a full disk.
    """
    _sync(written)
    states = {str(file.relative_to(written)): file.stat() for file in _inside(written) if not file.is_dir()}
    files = {name: _state(state) for name, state in states.items()}
    size, most = sum(state.st_size for state in states.values()), limit()
    if size > most or not _unchanged(origin.stamps):
        return written
    entry = {
        "stamps": [[os.fsencode(stamp[0]).hex(), *stamp[1:]] for stamp in origin.stamps],
        "loader": origin.loader, "version": origin.version, "alone": origin.alone,
        "bytes": size, "files": files, "created": time.time(),
    }
    # Not brought to the disk: a description that a crash cut is told by its checksum.
    private.write(written / _ENTRY, private.sealed(json.dumps(entry).encode()))
    target = path() / _digest(origin.stamps[0])
    for _ in range(2):
        if spill.keep(written, target):
            _shrink(most, origin.stamps[0][0])
            return target
        if (found := find(origin.stamps[0][0])) is not None and found.origin == origin:  # another was faster
            spill.remove(written)
            return target
        discard(target)
    return written


def drop(directory: Path) -> bool:
    """Remove one entry unless another process has it open."""
    spill.release(directory)
    return spill.remove_if_free(directory)


def discard(directory: Path) -> None:
    """Remove what is no entry, or no longer one, from where an entry should be; not one that a process reads."""
    if not drop(directory) and not spill.is_held(directory):
        private.discard(directory)


def entries() -> tuple[Entry, ...]:
    """What is cached, the most recently used first."""
    found = []
    with contextlib.suppress(OSError):
        for directory in path().iterdir() if _is_ours() else ():
            if (raw := _read(directory)) is not None:
                found.append(_entry(directory, raw))
    return tuple(sorted(found, key=lambda entry: -entry.used))


def clear() -> tuple[int, int, int]:
    """Remove all that no process has open: how many entries went, how many bytes, how many are still there."""
    if not _is_ours():
        return 0, 0, 0
    spill.sweep(path())
    gone = [entry for entry in entries() if drop(entry.path)]
    with contextlib.suppress(OSError):
        for left in path().iterdir():  # damaged entries are no entries
            if not spill.is_temporary(left):
                discard(left)
    return len(gone), sum(entry.bytes for entry in gone), len(entries())


def _shrink(most: int, source: str) -> None:
    """Drop what an older state of the source left, then the least recently used entries until the rest fits."""
    kept = []
    for entry in entries():
        if entry.current or entry.source != source or not spill.remove_if_free(entry.path):
            kept.append(entry)
    size = sum(entry.bytes for entry in kept)
    while (size > most or len(kept) > _MOST_ENTRIES) and len(kept) > 1:
        oldest = kept.pop()
        if spill.remove_if_free(oldest.path):
            size -= oldest.bytes


def _digest(stamp: Stamp) -> str:
    text = repr((LAYOUT, _code(), stamp)).encode(errors="surrogateescape")
    return blake2b(text, digest_size=16).hexdigest()


@functools.cache
def _code() -> str:
    """The state of our own loaders: tables that other code wrote may differ, whether or not it said so."""
    here = Path(__file__).parents[1]
    states = [(file.relative_to(here), file.stat()) for file in sorted(here.rglob("*.py"))]
    return repr([(str(name), state.st_size, state.st_mtime_ns) for name, state in states])


def _is_ours() -> bool:
    """Whether the cache is there and nobody else can have put anything into it."""
    root = path()
    return private.is_private(Path(os.path.realpath(root.parent))) and private.is_private(root)


def _read(directory: Path) -> dict[str, Any] | None:
    """The entry's description, None where it, or any of its files, is not what was put there."""
    try:
        if not private.is_private(directory):
            return None
        raw: dict[str, Any] = json.loads(private.unsealed(private.read(directory / _ENTRY, _MOST_DESCRIPTION)))
        present = {str(file.relative_to(directory)) for file in _inside(directory) if not file.is_dir()}
        whole = present == raw["files"].keys() and all(
            _state_of(directory / name) == state for name, state in raw["files"].items()
        )
        return raw if whole and _stamps_of(raw) else None
    except (OSError, ValueError, KeyError, AttributeError, TypeError, IndexError, RecursionError):
        return None


def _inside(directory: Path) -> list[Path]:
    """What an entry is made of but its description, its lock and what is kept beside; links are not followed."""
    return sorted(
        file for file in directory.rglob("*")
        if file.name != spill.HOLD and file != directory / _ENTRY and DERIVED not in file.parts[-2:]
    )


def _state(state: os.stat_result) -> list[int]:
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns]


def _state_of(file: Path) -> list[int]:
    descriptor = private.open_file(file)
    try:
        return _state(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _entry(directory: Path, raw: dict[str, Any]) -> Entry:
    (source, size, *_), used = _stamps_of(raw)[0], (directory / spill.HOLD).lstat().st_mtime
    written = raw["bytes"] + _derived_bytes(directory)
    return Entry(directory, source, raw["loader"], size, written, used, _is_current(raw))


def _derived_bytes(directory: Path) -> int:
    found = 0
    for file in directory.glob(f"*/{DERIVED}/*"):
        with contextlib.suppress(OSError):
            found += file.lstat().st_size
    return found


def _stamps_of(raw: dict[str, Any]) -> tuple[Stamp, ...]:
    return tuple((os.fsdecode(bytes.fromhex(name)), size, mtime, ctime) for name, size, mtime, ctime in raw["stamps"])


def _is_current(raw: dict[str, Any]) -> bool:
    return _unchanged(_stamps_of(raw))


def _unchanged(known: tuple[Stamp, ...]) -> bool:
    try:
        return stamps([stamp[0] for stamp in known]) == known
    except OSError:
        return False


def _sync(directory: Path) -> None:
    """Bring all files of the directory to the disk, several at a time: the journal takes them together."""
    from concurrent.futures import ThreadPoolExecutor

    files = _inside(directory)
    with ThreadPoolExecutor(max(1, min(8, len(files)))) as pool:
        list(pool.map(_sync_one, files))


def _sync_one(path: Path) -> None:
    """One file to the disk; a file or folder becomes the user's own, whatever the umask was."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        private.close_to_others(descriptor)
        if not path.is_dir():
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _nearest(directory: Path) -> Path:
    return next((place for place in (directory, *directory.parents) if place.is_dir()), Path("/"))
