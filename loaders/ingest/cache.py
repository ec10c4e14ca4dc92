"""The cache of tables of traces read before, so that reopening one is instant.

An entry is a directory named by two hashes: of the source's real path, and of its size, times and the state of the
loaders' code; so it is found without knowing the format. A source is a file, or the folder of a job whose files were
read into one entry. An entry is written under a temporary name, synced, then renamed; it is used only if the cache
folder is private and the entry's files are unchanged (size, times), else it is discarded and the source read again. If
the cache exceeds its limit, the least recently used entries are removed, but never one that a process has open. If the
cache is not writable, temporary directories are used. Does not import polars.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import stat
import struct
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from .. import private
from ..private import blake2b
from . import spill

LAYOUT = 3  # Incremented when entries change in a way that older versions cannot read.
_ENTRY = "entry.json"
DERIVED = "derived"
"""Subfolder of each trace for results computed later (``store.DerivedFiles``), not part of the entry proper."""
Stamp = tuple[str, int, int, int]
"""A file's real path, size, time of modification and time of change, both in nanoseconds."""
_SUM = "sum.json"
_SUM_SECONDS = 86_400
"""Lifetime of the running sum, which does not include derived files added to an entry later."""
_OTHER_SECONDS = 86_400  # Two versions in use side by side, as in two environments, would else read all files in turn.
_ROOM = 0.9  # Eviction goes down to this fraction of the limit, so that not every later open scans all entries.
_MOST_ENTRIES = 20_000
_MOST_IN_FOLDER = 20_000
"""Maximum files and subfolders of a folder cached as one entry; beyond that, caching each file is cheaper."""
_DEFAULT_BYTES, _DEFAULT_SHARE = 20 << 30, 0.1
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Entry(NamedTuple):
    """One cached input: its source and loader, sizes, time of last use, and whether the source is unchanged."""

    path: Path
    source: str
    loader: str
    source_bytes: int
    bytes: int
    used: float
    current: bool


class Origin(NamedTuple):
    """The source of an entry: stamps of the input file and of files read with it, and the loader.

    ``alone``: the loader is part of this package and reads only that file, so the file's own state is enough to trust
    the entry.
    """

    stamps: tuple[Stamp, ...]
    loader: str
    version: int
    alone: bool


class CacheEntry(NamedTuple):
    """An entry held by this process: the directory of its tables, and their source."""

    directory: Path
    origin: Origin


def path() -> Path:
    """The cache directory, which may not exist."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("warplens", appauthor=False)) / "traces"


def limit() -> int:
    """Maximum bytes of the cache: WARPLENS_CACHE_MAX ('500M', '20G'), else 20 GiB or, if less, 10% of the disk."""
    text = os.environ.get("WARPLENS_CACHE_MAX", "").lower()
    setting = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text)
    if setting:
        return int(float(setting[1]) * _UNITS[setting[2]])
    folder = next(folder for folder in (path(), *path().parents) if folder.is_dir())
    return min(_DEFAULT_BYTES, int(shutil.disk_usage(folder).total * _DEFAULT_SHARE))


def stamps(files: Sequence[str | os.PathLike[str]]) -> tuple[Stamp, ...]:
    """Real path, size, mtime and ctime of each file; ctime reveals a restored mtime. Raises OSError.

    A folder's stamp covers everything in it: the total size, and a hash of names, sizes and times instead of times.
    """
    return tuple(_stamp(os.path.realpath(file)) for file in files)


def _stamp(real: str) -> Stamp:
    state = os.stat(real)
    if not stat.S_ISDIR(state.st_mode):
        return real, state.st_size, state.st_mtime_ns, state.st_ctime_ns
    folders, states = [real], list[tuple[str, int, int, int]]()
    for folder in folders:
        with os.scandir(folder) as inside:
            for item in inside:
                if item.name.startswith("."):
                    continue
                if item.is_dir(follow_symlinks=False):
                    folders.append(item.path)
                elif item.is_file():
                    one = item.stat()
                    states.append((item.path, one.st_size, one.st_mtime_ns, one.st_ctime_ns))
                if len(folders) + len(states) > _MOST_IN_FOLDER:
                    raise OSError(f"{real} holds too many files")
    text = repr(sorted(states)).encode(errors="surrogateescape")
    low, high = struct.unpack("<QQ", blake2b(text, digest_size=16).digest())
    return real, sum(one[1] for one in states), low, high


def find(file: str | os.PathLike[str]) -> CacheEntry | None:
    """The file's entry, held by this process and marked as used; None if there is no intact and current one."""
    try:
        (stamp,) = stamps([file])
        directory = path() / _name(stamp)
        if not os.path.lexists(directory) or not private.is_private(path()):
            return None
        if not spill.hold(directory):
            if not spill.is_held(directory):
                discard(directory)
            return None
    except OSError:
        return None
    raw = _read(directory)
    if raw is None or _stamps_of(raw)[0] != stamp or not _unchanged(_stamps_of(raw)):
        discard(directory)
        return None
    return CacheEntry(directory, Origin(_stamps_of(raw), raw["loader"], raw["version"], raw["alone"]))


def begin() -> Path:
    """A temporary directory on the cache's disk for a new entry. Raises OSError if it cannot be created."""
    root = path()
    private.make(Path(os.path.realpath(root.parent)))
    return spill.directory(private.make(root))


def commit(origin: Origin, written: Path) -> Path:
    """Turn the written directory into a cache entry; returns the directory of the tables, ``written`` if not cached.

    It is cached unless the source has changed or the entry alone exceeds the limit. Raises OSError on a full disk.
    """
    _sync(written)
    files = _states(written)
    size = sum(size for _, size, *_ in files.values())
    if size > limit() or not _unchanged(origin.stamps):
        return written
    entry = {
        "stamps": [[os.fsencode(stamp[0]).hex(), *stamp[1:]] for stamp in origin.stamps],
        "loader": origin.loader, "version": origin.version, "alone": origin.alone,
        "bytes": size, "files": files, "created": time.time(),
    }
    # Not synced: a description truncated by a crash fails its checksum.
    private.write(written / _ENTRY, private.sealed(json.dumps(entry).encode()))
    target = path() / _name(origin.stamps[0])
    for _ in range(2):
        if spill.keep(written, target):
            return target
        if (other := find(origin.stamps[0][0])) is not None and other.origin == origin:  # another process was faster
            spill.remove(written)
            return target
        discard(target)
    return written


def drop(directory: Path) -> bool:
    """Remove one entry unless another process has it open; returns whether it was removed."""
    spill.release(directory)
    return spill.remove_if_free(directory)


def discard(directory: Path) -> None:
    """Remove an invalid or outdated entry, unless a process is reading it."""
    if not drop(directory) and not spill.is_held(directory):
        private.discard(directory)


def entries() -> tuple[Entry, ...]:
    """All cached entries, most recently used first."""
    cached = []
    with contextlib.suppress(OSError):
        for directory in path().iterdir() if private.is_private(path()) else ():
            if directory.name != _SUM and (raw := _read(directory)) is not None:
                (source, size, *_), used = _stamps_of(raw)[0], (directory / spill.HOLD).lstat().st_mtime
                derived = sum(file.lstat().st_size for file in directory.glob(f"*/{DERIVED}/*"))
                loader, current = raw["loader"], _unchanged(_stamps_of(raw))
                cached.append(Entry(directory, source, loader, size, raw["bytes"] + derived, used, current))
    return tuple(sorted(cached, key=lambda entry: -entry.used))


def clear() -> tuple[int, int, int]:
    """Remove all entries that no process has open; returns (entries removed, bytes removed, entries left). Raises
    OSError if nothing can be removed from the folder."""
    if not private.is_private(path()):
        return 0, 0, 0
    try:
        os.close(os.open(path() / _SUM, os.O_RDWR | os.O_CREAT | spill.OWN, 0o600))
    except OSError as error:  # a read-only file system
        raise type(error)(error.errno, error.strerror, os.fspath(path())) from None
    spill.sweep(path())
    gone = [entry for entry in entries() if drop(entry.path)]
    with contextlib.suppress(OSError):
        for rest in path().iterdir():  # damaged entries, which ``entries`` does not list
            if not spill.is_temporary(rest):
                discard(rest)
    return len(gone), sum(entry.bytes for entry in gone), len(entries())


def settle(new_entries: Collection[Path]) -> None:
    """Account for the entries added by one open: remove those of older source states, keep the cache within limits.

    Those of another version of this package stay while it is in use. Called once per open, not once per file. Other
    processes may do so concurrently; the sum is updated under a lock.
    """
    names = {directory.name for directory in new_entries if directory.parent == path()}
    if not names:
        return
    with contextlib.suppress(OSError):
        sources = {name.partition("-")[0] for name in names}
        for name in os.listdir(path()):
            if name.partition("-")[0] in sources and name not in names and not _is_of_other_code(path() / name):
                spill.remove_if_free(path() / name)
        sizes = [raw["bytes"] for name in names if (raw := _description(path() / name)) is not None]
        descriptor = os.open(path() / _SUM, os.O_RDWR | os.O_CREAT | spill.OWN, 0o600)
        try:
            spill.exclusive(descriptor)
            total, count, since = _running_sum(descriptor)
            total, count = total + sum(sizes), count + len(sizes)
            if total > limit() or count > _MOST_ENTRIES or time.time() - since > _SUM_SECONDS:
                (total, count), since = _evict(), time.time()
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps([total, count, since]).encode(), 0)
        finally:
            os.close(descriptor)


def _is_of_other_code(directory: Path) -> bool:
    """Whether another version of this package has read or written the entry within the last day."""
    parts = directory.name.split("-")
    with contextlib.suppress(OSError):
        return len(parts) == 3 and parts[1] != _version() and time.time() - (
            directory / spill.HOLD).lstat().st_mtime < _OTHER_SECONDS
    return False


def _running_sum(descriptor: int) -> tuple[int, int, float]:
    """(bytes of all entries, number of entries, time of the last full count); zeros if the file is damaged."""
    try:
        total, count, since = json.loads(os.pread(descriptor, 1 << 10, 0))
        return int(total), int(count), float(since)
    except (ValueError, TypeError):
        return 0, 0, 0.0


def _evict() -> tuple[int, int]:
    """Remove the least recently used entries if a limit is exceeded; returns bytes and number of the remaining ones."""
    cached, max_bytes = entries(), limit()
    size, count = sum(entry.bytes for entry in cached), len(cached)
    if size > max_bytes or count > _MOST_ENTRIES:
        for oldest in cached[:0:-1]:
            if size <= max_bytes * _ROOM and count <= _MOST_ENTRIES * _ROOM:
                break
            if spill.remove_if_free(oldest.path):
                size, count = size - oldest.bytes, count - 1
    return size, count


def _name(stamp: Stamp) -> str:
    """The directory name of an entry: a hash of the source, to find its older states, of the code, and of the state."""
    return f"{_digest(stamp[0])}-{_version()}-{_digest(repr(stamp))}"


@functools.cache
def _version() -> str:
    return _digest(repr((LAYOUT, _code())))[:12]


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()


@functools.cache
def _code() -> str:
    """The state of this package's loader sources: other code may write other tables, even with equal versions."""
    folder = Path(__file__).parents[1]
    states = [(file.relative_to(folder), file.stat()) for file in sorted(folder.rglob("*.py"))]
    return repr([(str(name), state.st_size, state.st_mtime_ns) for name, state in states])


def _read(directory: Path) -> dict[str, Any] | None:
    """The entry's description; None if it or any file of the entry was changed or damaged."""
    raw = _description(directory)
    with contextlib.suppress(OSError):
        return raw if raw is not None and _states(directory) == raw["files"] else None
    return None


def _description(directory: Path) -> dict[str, Any] | None:
    """The entry's description; None if it is damaged or missing."""
    try:
        return cast(dict[str, Any], json.loads(private.unsealed((directory / _ENTRY).read_bytes())))
    except (OSError, ValueError):
        return None


def _states(directory: Path) -> dict[str, list[int]]:
    """Mode, size and times of each file of an entry, except its description, its lock file and derived files."""
    states = {}
    for path in (*directory.iterdir(), *directory.glob("[0-9]*/*")):
        state = path.lstat()
        if path.name not in (spill.HOLD, _ENTRY) and not stat.S_ISDIR(state.st_mode):
            states[str(path.relative_to(directory))] = [
                state.st_mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns,
            ]
    return states


def _stamps_of(raw: dict[str, Any]) -> tuple[Stamp, ...]:
    return tuple((os.fsdecode(bytes.fromhex(name)), size, mtime, ctime) for name, size, mtime, ctime in raw["stamps"])


def _unchanged(recorded: tuple[Stamp, ...]) -> bool:
    try:
        return stamps([stamp[0] for stamp in recorded]) == recorded
    except OSError:
        return False


def _sync(directory: Path) -> None:
    """fsync all files of the directory, several in parallel, so that the file system commits them together."""
    from concurrent.futures import ThreadPoolExecutor

    def bring(name: str) -> None:
        descriptor = os.open(directory / name, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(bring, _states(directory)))
