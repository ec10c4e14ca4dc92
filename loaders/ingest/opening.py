"""From what the user typed to traces: the file or folder, its format, its tables.

This is the one way into the loaders. Whatever goes wrong becomes one ``Unreadable``: a sentence that names the file,
the reason and what to do. A loader's own mistake is among them, with the loader's name; WARPLENS_DEBUG in the
environment lets the original error through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from .. import registry
from ..errors import Unreadable
from ..loader import Adopted, FormatLoader, Job
from ..native.allocator import keep_freed
from ..trace import Trace
from . import archives, cache, call_tree, failures, inputs, ranks, spill, store
from .job import pool
from .job.files import InputFile, Progress, Request, counters, file_of, in_folder, left_out
from .job.small_files import SmallFiles, are_many_and_small
from .job.together import job_of
from .sidecar_metrics import is_beside, together, with_metrics

_AGAIN = "Write or copy it again."
_LOADERS = registry.__name__.rpartition(".")[0] + "."
_PARALLEL_BYTES = 32 << 20
"""Files that are smaller together are read sooner than processes for them start."""

MOST_NAMED = 16
"""Files that could not be read are named up to so many; of more the rest is counted."""


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
    keep_freed()  # questions make and free an array a column; the app, which stays, gives that memory back instead
    defaults = Request()
    request = Request(
        use_cache, compiled is not False, use_cache, progress or defaults.progress, first_rows, align_s,
        as_one=worker is None and align_s is None,
    )
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
        unpacked, passed = None, list[str]()
        if found.is_file() and archives.is_archive(found):
            scratch.append(spill.directory())
            passed = archives.unpack(shown, found, scratch[-1], request.progress)
            unpacked = found = scratch[-1]
        folder = found.is_dir()
        if scratch:  # what was copied from a stream or an archive is not there to be read again
            request = replace(request, use_cache=False)
        if folder and (known := _cached_job(shown, found, request)) is not None:
            return known
        parts, unread = in_folder(path, found, request) if folder else ([file_of(shown, found, request)], [])
        if folder and request.as_one and are_many_and_small(parts):
            return _one_job(shown, found, parts, request, unread)
        read, directories, loaded = _load(shown, parts, request, unread)
        unread += passed
        if request.settle:
            known_before = {part.entry for part in parts}
            cache.settle([directory for directory in directories if directory not in known_before])
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


def _cached_job(shown: str, folder: Path, request: Request) -> Opened | None:
    """The job of the folder where it was read into one entry."""
    known = cache.find(folder) if request.use_cache and request.as_one else None
    if known is None:
        return None
    try:
        traces = store.read(known.directory, request.compiled)
    except Exception:  # damaged in a way its file sizes do not show
        cache.drop(known.directory)
        return None
    return Opened(shown, (shown,), (known.directory,), (traces,))


def _one_job(
    shown: str, folder: Path, parts: list[InputFile], request: Request, unread: list[str]
) -> Opened:
    """The many small files of a job, put together in one directory. Raises Unreadable, OSError."""
    origin = cache.Origin(cache.stamps([folder]), parts[0].format, 1, True) if request.use_cache and all(
        part.loader is None or _is_ours(part.loader) for part in parts
    ) else None
    try:
        directory = cache.begin() if origin is not None else spill.directory()
    except OSError:  # a read-only home
        origin, directory = None, spill.directory()
    try:
        job = SmallFiles(directory)
        read, _, loaded = _load(shown, parts, request, unread, job)
        files = tuple(str(part.path) for part in read)
        (run,) = Opened(shown, files, (), tuple(loaded), tuple(unread)).traces()
        job.put_together(run)
        if origin is not None:
            directory = cache.commit(origin, directory)
            cache.settle([directory])
        return Opened(shown, (shown,), (directory,), (store.read(directory, request.compiled),))
    except BaseException:
        spill.remove(directory)
        raise


def _load(
    shown: str, parts: list[InputFile], request: Request, unread: list[str], job: SmallFiles | None = None
) -> tuple[list[InputFile], list[Path], list[tuple[Trace, ...]]]:
    """The parts that could be read, the tables of each in a directory of their own, and the traces read from them.

    Of several parts one that cannot be read is added to ``unread``. Raises Unreadable where none can. A ``job`` reads
    them without such directories.
    """
    read: list[InputFile] = []
    total = sum(part.size for part in parts)
    spill.expect(len(parts))
    directories: list[Path] = []
    loaded: list[tuple[Trace, ...]] = []
    before = seen = latest = 0
    left = [part for part in parts[1:] if part.entry is None]
    ahead = _ahead(left, request) if job is None else None
    arrived = _Arrived(parts, request)
    try:
        for number, part in enumerate(parts):

            def progress(done: int, of: int, events: int, base: int = before, counted: int = seen) -> None:
                nonlocal latest
                latest = counted + events
                request.progress(base + done, total if len(parts) > 1 else of, latest)

            each = replace(request, progress=progress, first_rows=None if directories else request.first_rows)
            name = shown if len(parts) == 1 else str(part.path)
            if number == 1 and ahead is not None:
                _await(ahead, left, progress, arrived)
            try:
                with failures.as_unreadable(name, part.format):
                    if job is not None:
                        directory, traces = job.directory, job.read(part, each)
                    else:
                        directory, traces = _tables(name, part, each)
            except Unreadable as error:
                if len(parts) == 1 or (part is parts[-1] and not read):
                    raise
                unread.append(left_out(error))
                continue
            read.append(part)
            directories.append(directory)
            loaded.append(traces)
            if job is None:
                arrived.add(part.path, directory)
            before, seen = before + part.size, latest
    finally:
        if ahead is not None:
            ahead.stop()
    return read, directories, loaded


class _Arrived:
    """The recordings of a job that were read so far; whoever wants to show them is told when there are clearly more.

    Every one of the first few, then whenever there are an eighth more: putting ranks together takes longer the more
    there are, and all of it together no more than a few times as long as at the end.
    """

    def __init__(self, parts: Sequence[InputFile], request: Request) -> None:
        self._parts, self._tell = parts, request.some_read if len(parts) > 1 else None
        self._there: dict[Path, Path] = {}
        self._told = 0

    def add_cached(self, path: Path) -> None:
        """That recording was read into the cache by another process, if it could be."""
        if self._tell is not None and (found := cache.find(path)) is not None:
            self.add(path, found.directory)

    def add(self, path: Path, directory: Path) -> None:
        """The tables of that recording are there."""
        self._there[path] = directory
        count = len(self._there)
        if self._tell is None or count == len(self._parts) or count < self._told + max(1, self._told // 8):
            return
        self._told = count
        order = [part.path for part in self._parts if part.path in self._there]
        self._tell(order, [self._there[path] for path in order], len(self._parts))


def read_into_cache(path: str, tell: pool.Tell) -> None:
    """What a process for one of several files does; what goes wrong is met, and told, again by who needs the file."""
    ingest(path, Request(progress=lambda done, total, events: tell((done, events)), settle=False))


def _ahead(left: Sequence[InputFile], request: Request) -> pool.Pool | None:
    """Processes that read these files, which are not cached, into the cache; None where that does not pay."""
    if not request.use_cache or len(left) < 2 or sum(part.size for part in left) < _PARALLEL_BYTES:
        return None
    workers = pool.most_workers(len(left))
    return pool.Pool(read_into_cache, [str(part.path) for part in left], workers) if workers > 1 else None


def _await(ahead: pool.Pool, left: Sequence[InputFile], progress: Progress, arrived: _Arrived) -> None:
    """Wait for all of them, and say how far they are together."""
    told: dict[int, tuple[int, int]] = {}
    for outcome in ahead.outcomes():
        if not outcome.ended:
            told[outcome.number] = cast(tuple[int, int], outcome.said)
            progress(sum(done for done, _ in told.values()), 0, sum(events for _, events in told.values()))
        else:
            arrived.add_cached(left[outcome.number].path)


def _tables(shown: str, part: InputFile, request: Request) -> tuple[Path, tuple[Trace, ...]]:
    """The tables of one file: from the cache, or read into it or into a temporary directory."""
    if part.entry is not None:
        try:
            return part.entry, store.read(part.entry, request.compiled)
        except Exception:  # damaged in a way its file sizes do not show
            cache.drop(part.entry)
            part = file_of(shown, part.path, replace(request, use_cache=False))
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
    files = (path, *loader.companions(path))
    alone = _is_ours(loader) and not loader.reads_beside
    return cache.Origin(cache.stamps(files), loader.name, loader.version, alone)


def _is_ours(loader: FormatLoader) -> bool:
    return not isinstance(loader, Adopted) and type(loader).__module__.startswith(_LOADERS)


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
        told = self.unread
        if len(told) > MOST_NAMED:
            told = (*told[:MOST_NAMED], f"{len(told) - MOST_NAMED:,} more files were left out, too")
        return tuple(run.warn(*told) if told else run for run in self._traces(worker))

    def says_its_ranks(self) -> bool:
        """Whether each file says itself which rank it is of, so that others beside them change nothing about that."""
        loaded = self.loaded or tuple(store.read(directory) for directory in self.directories)
        ranks = [trace.info.ranks for traces in loaded for trace in traces]
        return all(len(one) == 1 for one in ranks) and len(set(ranks)) == len(ranks)

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
        samplers = counters()
        aside = [trace.info.format in samplers and is_beside(trace) for trace in singles]
        beside = [trace for trace, is_aside in zip(singles, aside, strict=True) if is_aside]
        if len(beside) == len(singles):
            files = [Path(trace.info.source) for trace in singles]
            if ranks.ranks_of(files, [trace.info.ranks for trace in singles]) is not None:
                return job_of(self.shown, singles)
            return together(singles, self.align_s)
        runs = tuple(trace for trace, is_aside in zip(singles, aside, strict=True) if not is_aside)
        run = runs[0] if len(runs) == 1 else job_of(self.shown, runs)
        return with_metrics(run, beside, self.align_s) if beside else run


def _named(trace: Trace, source: str) -> Trace:
    return trace if trace.info.source == source else replace(trace, info=replace(trace.info, source=source))
