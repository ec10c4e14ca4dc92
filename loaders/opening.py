"""From what the user typed to traces: the file or folder, its format, its tables.

This is the one way into the loaders. Whatever goes wrong becomes one ``Unreadable``: a sentence that names the file,
the reason and what to do. A loader's own mistake is among them, with the loader's name; WARPLENS_DEBUG in the
environment lets the original error through.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from . import inputs, ranks, registry, spill, store, stream, unsupported
from .errors import Cancelled, Unreadable
from .loader import Job, Loader
from .trace import Trace

Progress = Callable[[int, int, int], None]
_GIVE = "Give a trace, or the folder that holds one."
_AGAIN = "Write or copy it again."
SCANNED = 4096
"""Files of a folder that are looked into; more are not the ranks of one job."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the input: where it is, who reads it, how big it is."""

    path: Path
    loader: Loader
    size: int


@dataclass(frozen=True, slots=True)
class Request:
    """How to open: with which cache, where to put what is not cached, and whom to tell."""

    use_cache: bool = True
    compiled: bool = True
    progress: Progress = lambda done, total, events: None
    first_rows: Callable[[Trace], None] | None = None


def open_run(
    path: str,
    *,
    worker: int | None = None,
    use_cache: bool = True,
    compiled: bool | None = None,
    progress: Progress | None = None,
    first_rows: Callable[[Trace], None] | None = None,
) -> tuple[Trace, ...]:
    """Open a file, a folder or '-' (standard input); raises Unreadable, or Cancelled when ``progress`` does.

    One trace normally, more where a file holds several runs; ``worker`` picks one of those, from 0 in file order.
    A folder with the files of a job's ranks is one trace. ``compiled=False`` forbids compiled scanners.
    """
    defaults = Request()
    request = Request(use_cache, compiled is not False, progress or defaults.progress, first_rows)
    scratch: list[Path] = []

    def spool() -> Path:
        scratch.append(spill.directory())
        return scratch[0] / "standard-input"

    try:
        found = inputs.regular(path, spool, request.progress)
        shown = "standard input" if path == "-" else path
        folder = found.is_dir()
        parts = _folder(path, found) if folder else [_file(shown, found)]
        directories = _load(shown, parts, request)
        return assemble(shown, [part.path for part in parts] if folder else [Path(shown)], directories, worker)
    finally:
        for made in scratch:
            spill.remove(made)


def _file(shown: str, path: Path) -> Part:
    """The file with the one loader that claims it. Raises Unreadable for what nobody does."""
    head = _head(shown, path)
    claimed = registry.claims(head)
    if len(claimed) == 1:
        return Part(path, claimed[0], path.stat().st_size)
    if claimed:
        names = " and ".join(loader.name for loader in claimed)
        raise Unreadable(shown, f"is claimed by several formats ({names})", "This is a fault of warplens: report it.")
    known = unsupported.recognise(path, head)
    if known is None:
        kind = "is text, but no trace warplens knows" if _is_text(head) else "is in no format warplens knows"
        known = kind, "Run `warplens formats` for what is read."
    raise Unreadable(shown, *known)


def _head(shown: str, path: Path) -> bytes:
    try:
        with stream.Source(path) as source:
            head = stream.head(path)
            if head:
                return head
            if source.size and source.compressed:
                source.read(1)
                raise Unreadable(shown, source.ended or "is compressed and has nothing in it", _AGAIN)
    except PermissionError:
        raise Unreadable(shown, "may not be read (permission denied)", "Copy it to where you may read it.") from None
    except OSError as error:
        raise Unreadable(shown, f"cannot be read ({(error.strerror or str(error)).lower()})", _AGAIN) from None
    raise Unreadable(shown, "is empty", _AGAIN)


def _is_text(head: bytes) -> bool:
    return b"\0" not in head and sum(byte < 9 or 13 < byte < 32 for byte in head[:4096]) < 8


def _folder(shown: str, folder: Path) -> list[Part]:
    """The traces of a folder: of one job, or just one. Raises Unreadable where it holds none or a mixture."""
    try:
        names = sorted(entry.path for entry in os.scandir(folder) if not entry.name.startswith("."))
    except OSError as error:
        raise Unreadable(shown, f"cannot be listed ({(error.strerror or '').lower()})", "Give a file in it.") from None
    files = [Path(name) for name in names if os.path.isfile(name)]
    if not files:
        inside = "has no files in it, only folders" if names else "is an empty folder"
        raise Unreadable(shown, inside, _GIVE)
    whole = {getattr(loader, "directory_file", None) for loader in registry.loaders()}
    if named := [file for file in files if file.name in whole]:
        return [_file(str(named[0]), named[0])]
    parts = []
    for file in files[:SCANNED]:
        try:
            parts.append(_file(str(file), file))
        except Unreadable:
            continue
    if not parts:
        raise Unreadable(shown, f"holds no trace ({len(files)} other files)", _GIVE)
    loaders = sorted({part.loader.name for part in parts})
    if len(loaders) > 1:
        listed = ", ".join(part.path.name for part in parts[:4])
        raise Unreadable(shown, f"holds recordings of several formats ({', '.join(loaders)})", f"Name one: {listed}.")
    return parts


def _load(shown: str, parts: list[Part], request: Request) -> list[Path]:
    """Every part's tables in a directory of their own."""
    total = sum(part.size for part in parts)
    directories: list[Path] = []
    before = seen = 0
    for part in parts:
        latest = 0

        def progress(done: int, of: int, events: int, base: int = before, counted: int = seen) -> None:
            nonlocal latest
            latest = events
            request.progress(base + done, total if len(parts) > 1 else of, counted + events)

        target = spill.directory()
        directories.append(target)
        first = None if len(directories) > 1 else request.first_rows
        with _guard(shown if len(parts) == 1 else str(part.path), part.loader):
            job = Job(part.path, store.workspace(target), progress, first, request.compiled)
            store.write(part.loader.load(job), target)
        before, seen = before + part.size, seen + latest
    return directories


def assemble(shown: str, files: list[Path], directories: list[Path], worker: int | None) -> tuple[Trace, ...]:
    """The traces in the directories as the user sees them: ranks put together, one worker picked."""
    loaded = [store.read(directory) for directory in directories]
    if len(loaded) == 1:
        traces = tuple(_named(trace, str(files[0])) for trace in loaded[0])
    else:
        singles = [_named(trace, str(file)) for file, traces in zip(files, loaded, strict=True) for trace in traces]
        if worker is None:
            recorded = [trace.info.ranks for trace in singles]
            found = ranks.ranks_of(files, recorded) if len(singles) == len(files) else None
            if found is None:
                listed = ", ".join(file.name for file in files[:4]) + (", …" if len(files) > 4 else "")
                raise Unreadable(
                    shown, f"holds {len(files)} recordings that are not the ranks of one job", f"Name one: {listed}."
                )
            return (ranks.merge(shown, Path(shown).name or shown, singles, found),)
        traces = tuple(singles)
    if worker is None and len(traces) > 2:
        told = f"The file holds {len(traces)} runs; these are the first two: --worker N takes another, from 0."
        return tuple(trace.warn(told) for trace in traces[:2])
    if worker is None:
        return traces
    if not 0 <= worker < len(traces):
        runs = "one run" if len(traces) == 1 else f"{len(traces)} runs"
        raise Unreadable(shown, f"has no worker {worker}: it holds {runs}", "Workers count from 0 in file order.")
    return (traces[worker],)


def _named(trace: Trace, source: str) -> Trace:
    return trace if trace.info.source == source else replace(trace, info=replace(trace.info, source=source))


@contextmanager
def _guard(shown: str, loader: Loader) -> Iterator[None]:
    """Any failure of a loader as one sentence, unless WARPLENS_DEBUG asks for the failure itself."""
    try:
        yield
    except (Unreadable, Cancelled, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of polars is no Exception
        if os.environ.get("WARPLENS_DEBUG"):
            raise
        raise _sentence(shown, loader, error) from None


def _sentence(shown: str, loader: Loader, error: BaseException) -> Unreadable:
    if isinstance(error, MemoryError):
        return Unreadable(shown, f"needs more memory than there is to be read as {loader.name}", "Free some memory.")
    if isinstance(error, RecursionError):
        return Unreadable(shown, f"is nested too deeply to be read as {loader.name}", "No profiler writes that.")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unreadable(shown, "cannot be opened: no space is left for its tables", "Free some.")
    if isinstance(error, OSError) and error.strerror:
        return Unreadable(shown, f"cannot be read ({error.strerror.lower()})", "Check the file and its rights.")
    said = (str(error).splitlines() or [""])[0][:160]
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return Unreadable(
        shown, f"could not be read by the {loader.name} loader ({what})",
        "If it is a valid trace, report this; WARPLENS_DEBUG=1 shows where it happened.",
    )
