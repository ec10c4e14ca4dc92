"""A run's tables as Parquet files, written by ``warplens convert``: a folder that opens as the original run.

``warplens.json`` next to the tables holds the recording's ``Info`` and lists the tables; it is written last, and no
other file of the folder is read. The tables of the second run of an input that held two are in ``worker-1``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from msgspec import DecodeError, Raw, Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from . import files
from .errors import Unreadable
from .loader import FormatLoader, Job
from .trace import TABLE_NAMES, Info, Trace

DESCRIPTION = "warplens.json"
MARK = b'{"format":"warplens-tables"'  # First bytes of the description.
SECOND = "worker-1"
_NAME = re.compile(rf"({'|'.join(TABLE_NAMES)})(-[0-9a-f]{{8}})?\.parquet")
_AGAIN = "Run `warplens convert` again with the same recording."


class _File(Struct, frozen=True):
    """A table's file, relative to the description, with its size and the SHA-256 of its bytes."""

    file: str
    bytes: int
    sha256: str


class _Worker(Struct, frozen=True):
    info: Raw
    tables: dict[str, _File]


class _Description(Struct, frozen=True):
    format: str
    info: Raw
    tables: dict[str, _File]
    worker: Raw = Raw()


def write(folder: Path, runs: Sequence[Trace]) -> list[Path]:
    """Write the tables and the description of a run, or of two, in place of an older conversion; returns the files.

    The tables get unused names, then the description is replaced, then the tables of the older one go: whoever opens
    the folder finds one conversion or the other. Raises OSError, and FileExistsError if the folder holds other files.
    """
    if folder.is_dir():
        files.sweep(folder)
    if not folder.is_dir() or not os.listdir(folder):
        try:
            return _write_new(folder, runs)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # else another writer was faster
                raise
    with files.held(folder):  # one writer after another, or the tables of one get the description of another
        if not _is_conversion(folder / DESCRIPTION):
            raise FileExistsError(errno.EEXIST, "holds other files; name an empty folder", str(folder))
        return _write_over(folder, runs)


def _write_over(folder: Path, runs: Sequence[Trace]) -> list[Path]:
    """Write a conversion in place of another."""
    older = set(_ours(folder))
    written = _tables(folder, runs, uuid4().hex[:8])
    _replace(folder, runs, written)
    for path in older - {folder / one.file for tables in written for one in tables.values()}:
        path.unlink(missing_ok=True)
    for tables in written:  # and back to their plain names, in the same order of steps
        for one in tables.values():
            _link(folder / one.file, folder / _plain(one.file))
    plain = [{name: replace(one, file=_plain(one.file)) for name, one in tables.items()} for tables in written]
    _replace(folder, runs, plain)
    for tables in written:
        for one in tables.values():
            (folder / one.file).unlink()
    with suppress(OSError):
        (folder / SECOND).rmdir()
    return [*(folder / one.file for tables in plain for one in tables.values()), folder / DESCRIPTION]


def _write_new(folder: Path, runs: Sequence[Trace]) -> list[Path]:
    """Write a conversion where there is none: in a folder beside it, which is then renamed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(os.path.realpath(folder))
    files.sweep(folder.parent)
    half = Path(files.beside(folder))
    half.mkdir()
    try:
        with files.held(half):
            tables = _tables(half, runs, "")
            _replace(half, runs, tables)
            os.rename(half, folder)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    return [*(folder / one.file for part in tables for one in part.values()), folder / DESCRIPTION]


def _tables(folder: Path, runs: Sequence[Trace], mark: str) -> list[dict[str, _File]]:
    written: list[dict[str, _File]] = [{} for _ in runs]
    try:
        for number, run in enumerate(runs):
            for name in TABLE_NAMES:
                if run.has(name):
                    file = f"{SECOND}/" * number + name + (f"-{mark}" if mark else "") + ".parquet"
                    (folder / file).parent.mkdir(exist_ok=True)
                    run.table(name).sink_parquet(folder / file)
                    with open(folder / file, "rb") as source:
                        digest = hashlib.file_digest(source, "sha256").hexdigest()
                        os.fsync(source.fileno())
                    written[number][name] = _File(file, (folder / file).stat().st_size, digest)
    except BaseException:
        for path in folder.glob(f"**/*-{mark}.parquet" if mark else ".none"):
            path.unlink(missing_ok=True)
        raise
    return written


def _replace(folder: Path, runs: Sequence[Trace], tables: Sequence[dict[str, _File]]) -> None:
    """Write the description of the tables."""
    from .ingest.store import info_to_json

    infos = [info_to_json(_portable(run.info)) for run in runs]
    worker = b',"worker":{"tables":' + encode(tables[1]) + b',"info":' + infos[1] + b"}" if len(runs) > 1 else b""
    files.write(folder / DESCRIPTION, [MARK, b',"tables":', encode(tables[0]), worker, b',"info":', infos[0], b"}\n"])


def _portable(info: Info) -> Info:
    """The Info with the paths of the ranks' files relative to their common folder, else by name alone."""
    listed = info.facts.get("files")
    if not isinstance(listed, dict):
        return info
    return replace(info, facts={**info.facts, "files": {rank: Path(str(file)).name for rank, file in listed.items()}})


def _link(file: Path, also: Path) -> None:
    try:
        os.link(file, also)
    except OSError:  # a file system without hard links
        shutil.copyfile(file, also)


def _plain(file: str) -> str:
    return f"{file.rpartition('-')[0]}.parquet"


def _is_conversion(file: Path) -> bool:
    try:
        with file.open("rb") as source:
            return source.read(len(MARK)) == MARK
    except OSError:
        return False


def _ours(folder: Path) -> Iterator[Path]:
    """Files of a conversion that this module wrote: tables, also of one that was killed, and the second run's."""
    for place in (folder, folder / SECOND):
        for file in place.glob("*.parquet"):
            if _NAME.fullmatch(file.name):
                yield file
    yield folder / SECOND / DESCRIPTION


class ConvertedLoader(FormatLoader):
    """Loader for converted tables, one Parquet file each."""

    name = "converted"
    title = "A run's tables (warplens convert): one Parquet file per table"
    suffixes = (".json",)
    version = 2
    fills = TABLE_NAMES
    directory_file = DESCRIPTION

    def sniff(self, head: bytes) -> bool:
        """Accept a file that begins with ``MARK``."""
        return head.startswith(MARK)

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The Parquet files of all tables, of the second run too."""
        try:
            runs = _runs(path)
        except (DecodeError, OSError, ValueError):
            return ()
        return tuple(path.parent / one.file for _, tables in runs for one in tables.values())

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace, or two if there is a second run. Raises Unreadable."""
        try:
            runs = _runs(job.path)
        except (DecodeError, OSError, ValueError) as error:
            raise _damaged(job.path, error) from None
        return tuple(_run(job.path, *run, job.workspace / name) for run, name in zip(runs, ("", SECOND), strict=False))


def _runs(path: Path) -> list[tuple[bytes, dict[str, _File]]]:
    """The Info and the tables of each run that the description lists. Raises DecodeError, OSError, ValueError."""
    described = decode(path.read_bytes(), type=_Description)
    runs = [(bytes(described.info), described.tables)]
    if bytes(described.worker):
        worker = decode(described.worker, type=_Worker)
        runs.append((bytes(worker.info), worker.tables))
    for number, (_, tables) in enumerate(runs):
        for name, one in tables.items():
            if name not in TABLE_NAMES or Path(one.file).parts[:-1] != (SECOND,) * number or not _NAME.fullmatch(
                    Path(one.file).name):
                raise ValueError(f"no table of a conversion: {name}, {one.file}")
    return runs


def verified(path: Path) -> int:
    """The number of tables of a conversion (its folder or description), each with the bytes that were written; 0 if it
    is none, or one that cannot be opened at all. Raises Unreadable, naming the first table with other bytes."""
    path = path / DESCRIPTION if path.is_dir() else path
    with suppress(DecodeError, OSError, ValueError):
        runs = _runs(path) if _is_conversion(path) else []
        listed = [(name, one) for _, tables in runs for name, one in tables.items()]
        for name, one in listed:
            with open(path.parent / one.file, "rb") as source:
                if hashlib.file_digest(source, "sha256").hexdigest() != one.sha256:
                    raise Unreadable(path.parent, f"{name} is not what {DESCRIPTION} lists: its hash differs",
                                     "Convert again.")
        return len(listed)
    return 0


def _damaged(path: Path, error: BaseException) -> Unreadable:
    first = (str(error).splitlines() or [type(error).__name__])[0][:160]
    return Unreadable(path, f"belongs to converted tables that are damaged ({first})", _AGAIN)


def _run(path: Path, described: bytes, files_of: dict[str, _File], workspace: Path) -> Trace:
    import polars as pl

    from . import parquet_check, schema
    from .ingest.store import info_from_json, sink

    try:
        info = info_from_json(described)
        workspace.mkdir(exist_ok=True)
        tables = {}
        for name in TABLE_NAMES:
            if name in files_of:
                file = path.parent / files_of[name].file
                if not file.is_file() or file.is_symlink() or file.stat().st_size != files_of[name].bytes:
                    raise Unreadable(path.parent, f"{name} is not what {DESCRIPTION} lists", "Convert again.")
                parquet_check.check(file)
                sink(schema.conform(name, pl.scan_parquet(file, glob=False)), workspace / f"{name}.arrow")
                tables[name] = schema.conform(name, pl.scan_ipc(workspace / f"{name}.arrow"))
        for name in {*tables} & {"kernels", "host", "cycles"}:
            if (tables[name].select(pl.col("start_ns", "dur_ns").min() < 0)).collect().row(0).count(True):
                raise ValueError(f"{name} with negative start times or durations")
        if "kernels" in tables and not tables["kernels"].select(
                (pl.col("index") == pl.int_range(pl.len())).all()).collect().item():
            raise ValueError("kernels that are not in launch order")
        return Trace(replace(info, source=str(path.parent))).with_tables(**tables)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, DecodeError, OSError, ValueError, KeyError,
            TypeError, AttributeError) as error:
        raise _damaged(path, error) from None


LOADER = ConvertedLoader()
