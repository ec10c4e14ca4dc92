"""Opens the user's input as traces: the file or folder, its format, its tables.

This is the only entry point to the loaders. Every failure becomes one ``Unreadable``, a sentence with the file, the
reason and what to do. That includes bugs in a loader, with the loader's name; with WARPLENS_DEBUG in the environment
the original exception is raised instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from .. import registry
from ..collective_names import BadPattern, of_settings, settings_path
from ..errors import Unreadable
from ..loader import FormatLoader, Job
from ..native.allocator import give_back, keep_freed
from ..recognition import recognised
from ..trace import RECORDINGS, Trace
from . import cache, call_tree, failures, inputs, spill, store
from .job.files import CAPTURES, InputFile, Progress, Request, file_of, in_folder, left_out
from .job.small_files import SmallFiles, are_small

if TYPE_CHECKING:
    from .job import pool

_AGAIN = "Write or copy it again."
_LOADERS = registry.__name__.rpartition(".")[0] + "."
_PARALLEL_BYTES = 32 << 20  # Files smaller than this in total are read before worker processes would have started.

MOST_NAMED = 16  # Maximum unreadable files that are named in warnings; the rest are counted.


def open_run(
    path: str,
    *,
    worker: int | None = None,
    align_s: float | None = None,
    use_cache: bool = True,
    compiled: bool | None = None,
    progress: Progress | None = None,
    first_rows: Callable[[Trace], None] | None = None,
    capture: str | None = None,
) -> tuple[Trace, ...]:
    """Open a file, a folder or '-' (standard input); raises Unreadable, and Cancelled if ``progress`` does.

    Returns one trace, or two if a file holds several runs (the first two); ``worker`` selects one run, from 0 in file
    order. A folder with the files of a job's ranks is one trace. ``align_s`` is the start of the counters in it, in
    seconds from the start of the trace. ``compiled=False`` disables compiled scanners. ``capture`` is the path of a
    recording made while the replayed graphs were captured.
    """
    keep_freed()  # queries allocate and free an array per column; the long-running app calls ``return_freed`` instead
    defaults = Request()
    request = Request(
        use_cache, compiled is not False, use_cache, progress or defaults.progress, first_rows, align_s,
        as_one=worker is None and align_s is None,
    )
    opened = ingest(path, request)
    give_back()  # reading has needed more than most queries do: 50 MB after 500 MB of Kineto events
    return opened.traces(worker, capture)


def ingest(path: str, request: Request) -> Opened:
    """Read the input into directories of tables, or find them in the cache. Raises as ``open_run`` does."""
    scratch: list[Path] = []
    try:
        of_settings()
    except BadPattern as wrong:
        raise Unreadable(settings_path(), str(wrong)) from None

    def spool() -> Path:
        scratch.append(spill.directory())
        return scratch[0] / "standard-input"

    try:
        source = inputs.regular(path, spool, request.progress)
        display_name = "standard input" if path == "-" else str(path)
        unpacked, left_out_of_archive = None, list[str]()
        if source.is_file() and inputs.is_archive(source):
            scratch.append(spill.directory())
            left_out_of_archive = inputs.unpack(display_name, source, scratch[-1], request.progress)
            unpacked = source = scratch[-1]

        def as_given(text: str) -> str:
            """The path or sentence with the archive's name in place of the folder it was unpacked to."""
            return text if unpacked is None else text.replace(str(unpacked), display_name, 1)

        folder = source.is_dir()
        if scratch:  # temporary copies of a stream or archive cannot be cached
            request = replace(request, use_cache=False)
        if folder and (cached := _cached_job(display_name, source, request)) is not None:
            return cached
        if folder:
            input_files, unread = in_folder(path, source, request)
        else:
            input_files, unread = [file_of(display_name, source, request)], []
        if folder and request.as_one and are_small(input_files):
            return _one_job(display_name, source, input_files, request, unread, left_out_of_archive, as_given)
        opened, directories, loaded = _load(display_name, input_files, request, unread)
        unread += left_out_of_archive
        if request.settle:
            known_before = {input_file.entry for input_file in input_files}
            cache.settle([directory for directory in directories if directory not in known_before])
        files = tuple(as_given(str(input_file.path)) for input_file in opened) if folder else (display_name,)
        unread_names = tuple(map(as_given, unread))
        return Opened(display_name, files, tuple(directories), tuple(loaded), unread_names, request.align_s)
    except OSError as error:  # copying a stream failed; errors of loaders are Unreadable already
        if failures.is_full_disk(error):
            advice = "Free some space in the temporary folder (TMPDIR)."
            raise Unreadable(path, "cannot be copied: no space is left", advice) from None
        raise Unreadable(path, f"cannot be read ({(error.strerror or str(error)).lower()})", _AGAIN) from None
    finally:
        for folder_path in scratch:
            spill.remove(folder_path)


def _cached_job(display_name: str, folder: Path, request: Request) -> Opened | None:
    """The folder's job if it is cached as one entry, else None."""
    cached = cache.find(folder) if request.use_cache and request.as_one else None
    if cached is None:
        return None
    try:
        traces = store.read(cached.directory, request.compiled)
    except Exception:  # damaged in a way its file sizes do not show
        cache.drop(cached.directory)
        return None
    return Opened(display_name, (display_name,), (cached.directory,), (traces,))


def _one_job(
    display_name: str, folder: Path, input_files: list[InputFile], request: Request, unread: list[str],
    left_out_of_archive: Sequence[str], as_given: Callable[[str], str],
) -> Opened:
    """Read the small files of a job and merge them in one directory. Raises Unreadable, OSError."""
    origin = cache.Origin(cache.stamps([folder]), input_files[0].format, 1, True) if request.use_cache and all(
        file.loader is None or _is_ours(file.loader) for file in input_files
    ) else None
    try:
        directory = cache.begin() if origin is not None else spill.directory()
    except OSError:  # a read-only home
        origin, directory = None, spill.directory()
    try:
        job = SmallFiles(directory)
        opened, _, loaded = _load(display_name, input_files, request, unread, job)
        files = tuple(as_given(str(file.path)) for file in opened)
        sentences = tuple(map(as_given, (*unread, *left_out_of_archive)))
        (run,) = Opened(display_name, files, (), tuple(loaded), sentences).traces()
        job.write_merged(run)
        if origin is not None:
            directory = cache.commit(origin, directory)
            cache.settle([directory])
        return Opened(display_name, (display_name,), (directory,), (store.read(directory, request.compiled),))
    except BaseException:
        spill.remove(directory)
        raise


def _load(
    display_name: str, input_files: list[InputFile], request: Request, unread: list[str], job: SmallFiles | None = None
) -> tuple[list[InputFile], list[Path], list[tuple[Trace, ...]]]:
    """Read all files; returns the readable ones, the directory with the tables of each, and the traces of each.

    If one of several files is unreadable, a sentence is added to ``unread``. Raises Unreadable if all are. With a
    ``job``, the files are read into its directory instead.
    """
    opened: list[InputFile] = []
    total = sum(file.size for file in input_files)
    spill.expect(len(input_files))
    directories: list[Path] = []
    loaded: list[tuple[Trace, ...]] = []
    before = events_before = latest = 0
    uncached = [file for file in input_files[1:] if file.entry is None]
    ahead = _ahead(uncached, request) if job is None else None
    arrived = _Arrived(input_files, request)
    try:
        for number, file in enumerate(input_files):

            def progress(done: int, of: int, events: int, base: int = before, counted: int = events_before) -> None:
                nonlocal latest
                latest = counted + events
                request.progress(base + done, total if len(input_files) > 1 else of, latest)

            each = replace(request, progress=progress, first_rows=None if directories else request.first_rows)
            name = display_name if len(input_files) == 1 else str(file.path)
            if number == 1 and ahead is not None:
                _await(ahead, uncached, progress, arrived)
            try:
                with failures.as_unreadable(name, file.format):
                    if job is not None:
                        directory, traces = job.directory, job.read(file, each)
                    else:
                        directory, traces = _tables(name, file, each)
            except Unreadable as error:
                if len(input_files) == 1 or (file is input_files[-1] and not opened):
                    raise
                unread.append(left_out(error))
                continue
            opened.append(file)
            directories.append(directory)
            loaded.append(traces)
            if job is None:
                arrived.add(file.path, directory)
            before, events_before = before + file.size, latest
    finally:
        if ahead is not None:
            ahead.stop()
    return opened, directories, loaded


class _Arrived:
    """Tracks the recordings of a job read so far and calls ``some_read`` when there are considerably more.

    That is after each of the first few, then after every increase by an eighth: merging takes longer the more ranks
    there are, and all previews together take no more than a few times as long as the final merge.
    """

    def __init__(self, parts: Sequence[InputFile], request: Request) -> None:
        self._parts, self._tell = parts, request.some_read if len(parts) > 1 else None
        self._there: dict[Path, Path] = {}
        self._reported = 0

    def add_cached(self, path: Path) -> None:
        """Add a recording that another process was to read into the cache, if it is there."""
        if self._tell is not None and (cached := cache.find(path)) is not None:
            self.add(path, cached.directory)

    def add(self, path: Path, directory: Path) -> None:
        """Add a recording whose tables are in ``directory``."""
        self._there[path] = directory
        count = len(self._there)
        if self._tell is None or count == len(self._parts) or count < self._reported + max(1, self._reported // 8):
            return
        self._reported = count
        order = [file.path for file in self._parts if file.path in self._there]
        self._tell(order, [self._there[path] for path in order], len(self._parts))


def read_into_cache(path: str, tell: pool.Tell) -> None:
    """Pool task: read one of several files into the cache. Errors recur, and are reported, when the file is opened."""
    ingest(path, Request(progress=lambda done, total, events: tell((done, events)), settle=False))


def _ahead(uncached: Sequence[InputFile], request: Request) -> pool.Pool | None:
    """A pool that reads uncached files into the cache; None if that would not pay."""
    if not request.use_cache or len(uncached) < 2 or sum(file.size for file in uncached) < _PARALLEL_BYTES:
        return None
    from .job import pool

    workers = pool.most_workers(len(uncached))
    return pool.Pool(read_into_cache, [str(file.path) for file in uncached], workers) if workers > 1 else None


def _await(ahead: pool.Pool, uncached: Sequence[InputFile], progress: Progress, arrived: _Arrived) -> None:
    """Wait for the whole pool, reporting combined progress."""
    counts: dict[int, tuple[int, int]] = {}
    for outcome in ahead.outcomes():
        if not outcome.ended:
            counts[outcome.number] = cast(tuple[int, int], outcome.message)
            progress(sum(done for done, _ in counts.values()), 0, sum(events for _, events in counts.values()))
        else:
            arrived.add_cached(uncached[outcome.number].path)


def _tables(display_name: str, file: InputFile, request: Request) -> tuple[Path, tuple[Trace, ...]]:
    """The tables of one file: from the cache, or read into the cache or a temporary directory."""
    if file.entry is not None:
        try:
            return file.entry, store.read(file.entry, request.compiled)
        except Exception:  # damaged in a way its file sizes do not show
            cache.drop(file.entry)
            file = file_of(display_name, file.path, replace(request, use_cache=False))
    assert file.loader is not None
    if not request.use_cache:
        return _read(file, file.loader, request, spill.directory())
    origin = _origin(file.path, file.loader)
    if (cached := cache.find(file.path)) is not None and cached.origin == origin:
        try:
            return cached.directory, store.read(cached.directory, request.compiled)
        except Exception:
            cache.drop(cached.directory)
    try:
        target = cache.begin()
    except OSError:  # a read-only home
        return _read(file, file.loader, request, spill.directory())
    try:
        written, traces = _read(file, file.loader, request, target)
        lasting = cache.commit(origin, written)
        return lasting, traces if lasting == written else store.read(lasting, request.compiled)
    except Exception as error:
        spill.remove(target)
        if not failures.is_full_disk(error):
            raise
    return _read(file, file.loader, replace(request, first_rows=None), spill.directory())


def _origin(path: Path, loader: FormatLoader) -> cache.Origin:
    files = (path, *loader.companions(path))
    alone = _is_ours(loader) and not loader.reads_other_files
    return cache.Origin(cache.stamps(files), loader.name, loader.version, alone)


def _is_ours(loader: FormatLoader) -> bool:
    return type(loader).__module__.startswith(_LOADERS)


def _read(file: InputFile, loader: FormatLoader, request: Request, target: Path) -> tuple[Path, tuple[Trace, ...]]:
    try:
        if loader.in_place:
            store.write_place(loader.name, file.path.absolute(), target)
            return target, store.read(target)
        lasting = request.lasting or not loader.ready_tables
        workspace = store.workspace(target)
        job = Job(file.path, workspace, request.progress, request.first_rows, request.compiled, lasting)
        traces = loader.load(job)
        if not lasting:
            return target, tuple(recognised(call_tree.deferred(trace, request.compiled)) for trace in traces)
        store.write(traces, target)
        return target, store.read(target, request.compiled)
    except BaseException:
        spill.remove(target)
        raise


def _may_have_captures(run: Trace, path: Path) -> bool:
    """Whether captures lie beside the file, or the run replays graphs and other traces do."""
    try:
        with os.scandir(path.parent) as entries:
            others = {entry.name for entry in entries if entry.name == CAPTURES or ".json" in entry.name} - {path.name}
    except OSError:
        return False
    return CAPTURES in others or (bool(others) and run.replays_graphs())


class Opened(Struct, frozen=True):
    """An input that has been read: its files as shown to the user, and the directory with the tables of each.

    ``loaded`` holds the traces of ``directories`` if this process has opened them already. ``unread`` are sentences
    about files that were left out, ``align_s`` as in ``Request``.
    """

    shown: str
    files: tuple[str, ...]
    directories: tuple[Path, ...]
    loaded: tuple[tuple[Trace, ...], ...] = ()
    unread: tuple[str, ...] = ()
    align_s: float | None = None

    def traces(self, worker: int | None = None, capture: str | None = None) -> tuple[Trace, ...]:
        """The traces: ranks merged, or one worker selected. Raises Unreadable if that is impossible.

        Captures of replayed graphs are read from ``capture``, else looked for beside the file.
        """
        warnings = self.unread
        if len(warnings) > MOST_NAMED:
            warnings = (*warnings[:MOST_NAMED], f"{len(warnings) - MOST_NAMED:,} more files were left out, too")
        runs = tuple(run.warn(*warnings) if warnings else run for run in self._traces(worker))
        alone = Path(self.files[0]) if len(self.files) == 1 and os.path.isfile(self.files[0]) else None
        if not capture and (alone is None or not any(_may_have_captures(run, alone) for run in runs)):
            return runs
        from .captures import with_captures

        return tuple(with_captures(run, alone, capture, open_run) for run in runs)

    def has_distinct_ranks(self) -> bool:
        """Whether each file records its own, distinct rank, so that further files do not change the assignment."""
        loaded = self.loaded or tuple(store.read(directory) for directory in self.directories)
        ranks = [trace.info.ranks for traces in loaded for trace in traces]
        return all(len(one) == 1 for one in ranks) and len(set(ranks)) == len(ranks)

    def _traces(self, worker: int | None) -> tuple[Trace, ...]:
        loaded = self.loaded or tuple(store.read(directory) for directory in self.directories)
        singles = tuple(
            trace if trace.info.source == file else replace(trace, info=replace(trace.info, source=file))
            for file, traces in zip(self.files, loaded, strict=True) for trace in traces
        )
        if worker is None:
            if len(self.files) > 1:
                return (self._together(singles),)
            if singles and RECORDINGS in singles[0].info.facts:
                several = f"The file holds {len(singles)} recordings made one after another, not the ranks of one job"
                return (singles[0].warn(f"{several}; this is the first: --worker N takes another, from 0."),)
            warning = f"The file holds {len(singles)} runs; these are the first two: --worker N takes another, from 0."
            return singles if len(singles) <= 2 else tuple(trace.warn(warning) for trace in singles[:2])
        if not 0 <= worker < len(singles):
            holds = "one run" if len(singles) == 1 else f"{len(singles)} runs"
            advice = "Workers count from 0 in file order."
            raise Unreadable(self.shown, f"has no worker {worker}: it holds {holds}", advice)
        return (singles[worker],)

    def _together(self, singles: tuple[Trace, ...]) -> Trace:
        """All files as one run: the ranks of a job, with the counters recorded alongside."""
        from .rank_names import ranks_of
        from .ranks import job_of
        from .sidecar_metrics import is_sidecar, together, with_metrics

        samplers = registry.samplers()
        are_counters = [trace.info.format in samplers and is_sidecar(trace) for trace in singles]
        counter_traces = [trace for trace, is_aside in zip(singles, are_counters, strict=True) if is_aside]
        if len(counter_traces) == len(singles):
            files = [Path(trace.info.source) for trace in singles]
            if ranks_of(files, [trace.info.ranks for trace in singles]) is not None:
                return job_of(self.shown, singles)
            return together(singles, self.align_s)
        runs = tuple(trace for trace, is_aside in zip(singles, are_counters, strict=True) if not is_aside)
        run = runs[0] if len(runs) == 1 else job_of(self.shown, runs)
        return with_metrics(run, counter_traces, self.align_s) if counter_traces else run
