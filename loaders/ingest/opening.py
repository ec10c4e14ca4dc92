"""From what the user typed to traces: the file or folder, its format, its tables.

This is the one way into the loaders. Whatever goes wrong becomes one ``Unreadable``: a sentence that names the file,
the reason and what to do. A loader's own mistake is among them, with the loader's name; WARPLENS_DEBUG in the
environment lets the original error through.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from .. import registry
from ..counters.beside import is_beside, together, with_metrics
from ..errors import Unreadable
from ..loader import Adopted, FormatLoader, Job
from ..native.allocator import keep_freed
from ..trace import Trace
from . import archives, cache, call_tree, failures, inputs, ranks, spill, store, stream, windows
from .advice import nearest, offers, unsupported

Progress = Callable[[int, int, int], None]
_GIVE = "Give a trace, or the folder that holds one."
_AGAIN = "Write or copy it again."
_LOADERS = registry.__name__.rpartition(".")[0] + "."
_DEEPEST = 3
"""Folders within folders that may hold a job's ranks."""
SCANNED = 4096
"""Files of a folder that are looked into; more are not the ranks of one job."""


class InputFile(Struct, frozen=True):
    """One file of the input: where it is, who reads it, how big it is, and its cached tables where they are known."""

    path: Path
    format: str
    size: int
    loader: FormatLoader | None = None
    entry: Path | None = None


class Request(Struct, frozen=True):
    """How to open: with which cache, whether for other processes too, and whom to tell.

    ``align_s`` is when counters beside a trace begin, in seconds from its start; None goes by the clocks.
    """

    use_cache: bool = True
    compiled: bool = True
    lasting: bool = True
    progress: Progress = lambda done, total, events: None
    first_rows: Callable[[Trace], None] | None = None
    align_s: float | None = None


def open_run(
    path: str,
    *,
    worker: int | None = None,
    align_s: float | None = None,
    use_cache: bool = True,
    compiled: bool | None = None,
    progress: Progress | None = None,
    first_rows: Callable[[Trace], None] | None = None,
) -> tuple[Trace, ...]:
    """Open a file, a folder or '-' (standard input); raises Unreadable, or Cancelled when ``progress`` does.

    One trace normally, more where a file holds several runs; ``worker`` picks one of those, from 0 in file order.
    A folder with the files of a job's ranks is one trace; ``align_s`` is when the counters in it begin, in seconds from
    the start of the trace. ``compiled=False`` forbids compiled scanners.
    """
    defaults = Request()
    request = Request(use_cache, compiled is not False, use_cache, progress or defaults.progress, first_rows, align_s)
    return ingest(path, request).traces(worker)


def ingest(path: str, request: Request) -> Opened:
    """Read the input into directories of tables, or find them in the cache. Raises as ``open_run`` does."""
    scratch: list[Path] = []

    def spool() -> Path:
        scratch.append(spill.directory())
        return scratch[0] / "standard-input"

    try:
        found = inputs.regular(path, spool, request.progress)
        shown = "standard input" if path == "-" else path
        unpacked = None
        if found.is_file() and archives.is_archive(found):
            scratch.append(spill.directory())
            unpacked = found = archives.unpack(shown, found, scratch[-1], request.progress)
        folder = found.is_dir()
        if scratch:  # what was copied from a stream or an archive is not there to be read again
            request = replace(request, use_cache=False)
        parts, unread = _folder(path, found, request) if folder else ([_file(shown, found, request)], [])
        read, directories, loaded = _load(shown, parts, request, unread)
        files = tuple(str(part.path) for part in read) if folder else (shown,)
        if unpacked is not None:
            files = tuple(file.replace(str(unpacked), shown, 1) for file in files)
            unread = [said.replace(str(unpacked), shown) for said in unread]
        return Opened(shown, files, tuple(directories), tuple(loaded), tuple(unread), request.align_s)
    except OSError as error:  # a stream that could not be copied; a loader's own errors are sentences already
        if failures.is_full_disk(error):
            advice = "Free some space in the folder of temporary files."
            raise Unreadable(path, "cannot be copied: no space is left", advice) from None
        raise Unreadable(path, f"cannot be read ({(error.strerror or str(error)).lower()})", _AGAIN) from None
    finally:
        for made in scratch:
            spill.remove(made)


def listed(path: str) -> tuple[list[Path], list[str]]:
    """The recordings of a file or folder, none of them read, and what cannot be one, in words. Raises Unreadable."""
    place = Path(path).expanduser()
    if not place.exists():
        raise Unreadable(path, "no such file or directory", "Check the name.")
    if not place.is_dir():
        return [place], []
    parts, unread = _folder(path, place, Request(use_cache=False))
    return [part.path for part in parts if part.format not in _counters()], unread


def _file(shown: str, path: Path, request: Request) -> InputFile:
    """The file with its cache entry or the one loader that claims it. Raises Unreadable for what nobody does."""
    found = cache.find(path) if request.use_cache else None
    if found is not None and found.origin.alone:
        return InputFile(path, found.origin.loader, found.origin.stamps[0][1], entry=found.directory)
    head = _head(shown, path)
    claimed = registry.claims_of(path, head)
    if len(claimed) == 1:
        return InputFile(path, claimed[0].name, path.stat().st_size, claimed[0])
    if claimed:
        names = " and ".join(loader.name for loader in claimed)
        raise Unreadable(shown, f"is claimed by several formats ({names})", "This is a fault of warplens: report it.")
    known = unsupported.recognise(path, head) or offers.part_of(path) or nearest.nearest(head)
    if known is None:
        kind = "is text, but no trace warplens knows" if _is_text(head) else "is in no format warplens knows"
        known = kind, nearest.RECORD
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


def _folder(shown: str, folder: Path, request: Request, depth: int = 0) -> tuple[list[InputFile], list[str]]:
    """The traces of a folder, of one job or just one, and what of it cannot be read, as sentences.

    Where the files of the folder are none, its folders are looked into: each may be one rank's. Raises Unreadable where
    it holds none or a mixture.
    """
    folder = _inside(folder)
    try:
        names = sorted(entry.path for entry in os.scandir(folder) if not entry.name.startswith("."))
    except OSError as error:
        raise Unreadable(shown, f"cannot be listed ({(error.strerror or '').lower()})", "Give a file in it.") from None
    files = [Path(name) for name in names if os.path.isfile(name)]
    folders = [Path(name) for name in names if os.path.isdir(name) and not os.path.islink(name)]
    if not names:
        raise Unreadable(shown, "is an empty folder", _GIVE)
    whole = {loader.directory_file for loader in registry.loaders()}
    if named := [file for file in files if file.name in whole]:
        return [_file(str(named[0]), named[0], request)], []
    parts, refused = [], list[Unreadable]()
    for file in files[:SCANNED]:
        try:
            parts.append(_file(str(file), file, request))
        except Unreadable as error:
            refused.append(error)
    shapes = {ranks.shape(part.path) for part in parts}
    unread = [_unread(error) for error in refused if ranks.shape(Path(error.path)) in shapes]
    if not parts and depth < _DEEPEST:
        for inner in folders[:SCANNED]:
            try:
                found, lacking = _folder(str(inner), inner, request, depth + 1)
            except Unreadable as error:
                refused.append(error)
                continue
            parts += found
            unread += lacking
            if len(parts) > SCANNED:
                break
    if not parts:
        inside = f"{len(files)} other files" if files else f"{len(folders)} folders without one"
        raise Unreadable(shown, f"holds no trace ({inside})", offers.runs_under(folder) or _GIVE)
    parts = _recordings(_without_twins(parts))
    counters = _counters()
    formats = sorted({part.format for part in parts} - counters)
    if len(formats) > 1:
        advice = offers.runs_under(folder, [part.path for part in parts])
        raise Unreadable(shown, f"holds recordings of several formats ({', '.join(formats)})", advice)
    return sorted(parts, key=lambda part: part.format in counters), unread


def _counters() -> frozenset[str]:
    """The formats whose files may lie beside a trace of another: samples of counters taken meanwhile."""
    return frozenset(loader.name for loader in registry.loaders() if loader.lies_beside)


def _unread(error: Unreadable) -> str:
    return f"{error.path} was left out: it {error.reason}"


def _inside(folder: Path) -> Path:
    """The folder, or the one in it that some format always puts its recording in."""
    names = (loader.directory_within for loader in registry.loaders())
    return next((folder / name for name in names if name and (folder / name).is_dir()), folder)


def _without_twins(parts: list[InputFile]) -> list[InputFile]:
    """Without files that repeat, in another format, what a recording beside them holds."""
    formats = {part.format for part in parts}
    twins = {loader.name: loader.twins for loader in registry.loaders() if loader.name in formats}
    return [
        part for part in parts
        if not any(part.path.name.endswith(ends) for name, ends in twins.items() if ends and name != part.format)
    ]


def _recordings(parts: list[InputFile]) -> list[InputFile]:
    """The parts that are recordings of their own: of files read together, the one that leads stands for all."""
    together: set[Path] = set()
    kept = []
    for part in sorted(parts, key=lambda part: part.loader is not None and not part.loader.leads(part.path)):
        if part.path in together:
            continue
        kept.append(part)
        if part.loader is not None and part.loader.one_recording:
            together |= set(part.loader.companions(part.path))
    return [part for part in parts if part in kept]


def _load(
    shown: str, parts: list[InputFile], request: Request, unread: list[str]
) -> tuple[list[InputFile], list[Path], list[tuple[Trace, ...]]]:
    """The parts that could be read, the tables of each in a directory of their own, and the traces read from them.

    Of several parts one that cannot be read is added to ``unread``. Raises Unreadable where none can.
    """
    read: list[InputFile] = []
    total = sum(part.size for part in parts)
    directories: list[Path] = []
    loaded: list[tuple[Trace, ...]] = []
    before = seen = latest = 0
    for part in parts:

        def progress(done: int, of: int, events: int, base: int = before, counted: int = seen) -> None:
            nonlocal latest
            latest = counted + events
            request.progress(base + done, total if len(parts) > 1 else of, latest)

        each = replace(request, progress=progress, first_rows=None if directories else request.first_rows)
        name = shown if len(parts) == 1 else str(part.path)
        try:
            with failures.as_unreadable(name, part.format):
                directory, traces = _tables(name, part, each)
        except Unreadable as error:
            if len(parts) == 1 or (part is parts[-1] and not read):
                raise
            unread.append(_unread(error))
            continue
        read.append(part)
        directories.append(directory)
        loaded.append(traces)
        before, seen = before + part.size, latest
    return read, directories, loaded


def _tables(shown: str, part: InputFile, request: Request) -> tuple[Path, tuple[Trace, ...]]:
    """The tables of one file: from the cache, or read into it or into a temporary directory."""
    if part.entry is not None:
        try:
            return part.entry, store.read(part.entry, request.compiled)
        except Exception:  # damaged in a way its file sizes do not show
            cache.drop(part.entry)
            part = _file(shown, part.path, replace(request, use_cache=False))
    assert part.loader is not None
    if not request.use_cache:
        return _read(part, part.loader, request, spill.directory())
    origin = _origin(part.path, part.loader)
    if (found := cache.find(part.path)) is not None and found.origin == origin:
        try:
            return found.directory, store.read(found.directory, request.compiled)
        except Exception:
            cache.drop(found.directory)
    try:
        target = cache.begin()
    except OSError:  # a read-only home
        return _read(part, part.loader, request, spill.directory())
    try:
        written, traces = _read(part, part.loader, request, target)
        lasting = cache.commit(origin, written)
        return lasting, traces if lasting == written else store.read(lasting, request.compiled)
    except Exception as error:
        spill.remove(target)
        if not failures.is_full_disk(error):
            raise
    return _read(part, part.loader, replace(request, first_rows=None), spill.directory())


def _origin(path: Path, loader: FormatLoader) -> cache.Origin:
    ours = not isinstance(loader, Adopted) and type(loader).__module__.startswith(_LOADERS)
    files = (path, *loader.companions(path))
    return cache.Origin(cache.stamps(files), loader.name, loader.version, ours and not loader.reads_beside)


def _read(part: InputFile, loader: FormatLoader, request: Request, target: Path) -> tuple[Path, tuple[Trace, ...]]:
    try:
        if loader.in_place:
            store.write_place(loader.name, part.path.absolute(), target)
            return target, store.read(target)
        lasting = request.lasting or not loader.ready_tables
        place = store.workspace(target)
        job = Job(part.path, place, request.progress, request.first_rows, request.compiled, lasting)
        traces = loader.load(job)
        if not lasting:
            return target, tuple(call_tree.deferred(trace, request.compiled) for trace in traces)
        store.write(traces, target)
        return target, store.read(target, request.compiled)
    except BaseException:
        spill.remove(target)
        raise


class Opened(Struct, frozen=True):
    """An input that was read: its files as the user sees them, and where the tables of each are.

    ``loaded`` holds what is in ``directories``, where this process has read them already. ``unread`` says of each file
    that belongs to them and could not be read why, ``align_s`` when counters beside a trace begin.
    """

    shown: str
    files: tuple[str, ...]
    directories: tuple[Path, ...]
    loaded: tuple[tuple[Trace, ...], ...] = ()
    unread: tuple[str, ...] = ()
    align_s: float | None = None

    def traces(self, worker: int | None = None) -> tuple[Trace, ...]:
        """The traces: ranks put together, or one worker picked. Raises Unreadable where neither is possible."""
        keep_freed()  # questions about these traces make and free an array a column
        return tuple(run.warn(*self.unread) if self.unread else run for run in self._traces(worker))

    def _traces(self, worker: int | None) -> tuple[Trace, ...]:
        loaded = self.loaded or tuple(store.read(directory) for directory in self.directories)
        singles = tuple(
            _named(trace, file) for file, traces in zip(self.files, loaded, strict=True) for trace in traces
        )
        if worker is None:
            if len(self.files) > 1:
                return (self._together(singles),)
            told = f"The file holds {len(singles)} runs; these are the first two: --worker N takes another, from 0."
            return singles if len(singles) <= 2 else tuple(trace.warn(told) for trace in singles[:2])
        if not 0 <= worker < len(singles):
            holds = "one run" if len(singles) == 1 else f"{len(singles)} runs"
            advice = "Workers count from 0 in file order."
            raise Unreadable(self.shown, f"has no worker {worker}: it holds {holds}", advice)
        return (singles[worker],)

    def _together(self, singles: tuple[Trace, ...]) -> Trace:
        """All files as one run: the ranks of a job, with the counters recorded beside them."""
        counters = _counters()
        aside = [trace.info.format in counters and is_beside(trace) for trace in singles]
        beside = [trace for trace, is_aside in zip(singles, aside, strict=True) if is_aside]
        if len(beside) == len(singles):
            files = [Path(trace.info.source) for trace in singles]
            if ranks.ranks_of(files, [trace.info.ranks for trace in singles]) is not None:
                return self._job(singles)
            return together(singles, self.align_s)
        runs = tuple(trace for trace, is_aside in zip(singles, aside, strict=True) if not is_aside)
        run = runs[0] if len(runs) == 1 else self._job(runs)
        return with_metrics(run, beside, self.align_s) if beside else run

    def _job(self, singles: tuple[Trace, ...]) -> Trace:
        files = [Path(file) for file in dict.fromkeys(trace.info.source for trace in singles)]
        recorded = [trace.info.ranks for trace in singles]
        found = ranks.ranks_of(files, recorded) if len(singles) == len(files) else None
        formats = {trace.info.format for trace in singles}
        if found is None and len(singles) == len(files) and _one_run(formats):
            found = list(range(len(files)))
        label = Path(os.path.abspath(self.shown)).name or self.shown
        if found is None and len(formats) == 1 and windows.are_windows(files, singles):
            return windows.joined(self.shown, label, singles)
        if found is None or len(formats) > 1:
            reason = f"holds {len(files)} recordings that are not the ranks of one job"
            raise Unreadable(self.shown, reason, offers.runs_under(Path(self.shown), files))
        return ranks.merge(self.shown, label, singles, found)


def _one_run(formats: set[str]) -> bool:
    """Whether files of the format that lie together are always one run's, whatever they are called."""
    return all(loader.folder_is_one_run for loader in registry.loaders() if loader.name in formats)


def _named(trace: Trace, source: str) -> Trace:
    return trace if trace.info.source == source else replace(trace, info=replace(trace.info, source=source))
