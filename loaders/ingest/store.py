"""Traces as a directory of Arrow files, the format of cache entries and of the ingest process's output.

``<dir>/<n>/`` is the n-th trace: ``info.json`` and one ``<table>.arrow`` (Arrow IPC, zstd) per non-empty table. A
streaming loader writes such a file, or several ``<table>-<part>.arrow``, to its workspace itself; those are then the
table. Columns without values are omitted and integers may be narrower; ``read`` restores the schema. Files that are
tables already are not copied: the directory then only refers to them.

Results derived from the tables are stored in the subfolder ``derived`` when a query first needs them. They are used
only if their checksum matches; otherwise, or if the folder is not writable, they are recomputed. Large results are
stored in parts, plain Arrow files plus a list of checksums, so that writing and reading need the memory of one part.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict, replace

from .. import private
from ..collective_names import Patterns, of_settings
from ..loader import Job
from ..private import blake2b
from ..recognition import recognised, summary
from ..trace import RECOGNITION, TABLE_NAMES, Device, Info, Trace
from . import call_tree
from .cache import DERIVED

if TYPE_CHECKING:
    import polars as pl

LAYOUT = 8  # Version of this file layout, incremented when older versions cannot read it.
_PLACE = "in_place.json"


def workspace(directory: Path) -> Path:
    """The folder to which a loader may write the tables of its first trace."""
    inside = directory / "0"
    inside.mkdir(parents=True, exist_ok=True)
    return inside


def write(traces: tuple[Trace, ...], directory: Path) -> None:
    """Write all traces of one input. Raises OSError, as on a full disk."""
    from .. import schema

    for number, trace in enumerate(traces):
        inside = directory / str(number)
        inside.mkdir(parents=True, exist_ok=True)
        for name in TABLE_NAMES:
            if not _files(inside, name) and trace.has(name):
                sink(schema.conform(name, trace.table(name)), inside / f"{name}.arrow")
        info = trace.info
        if trace.has("kernels"):
            read_back = _read_one(inside, True, False, info)
            info = replace(info, facts={**info.facts, RECOGNITION: summary(read_back, Patterns())})
        (inside / "info.json").write_bytes(info_to_json(info))


def write_preview(trace: Trace, directory: Path) -> None:
    """Write a trace of some thousand rows uncompressed, as it is read only once, right away. Raises OSError."""
    import polars as pl

    from .. import schema

    inside = workspace(directory)
    for name in TABLE_NAMES:
        rows = schema.conform(name, trace.table(name)).collect()
        if rows.height:
            columns = [column.name for column in rows if column.null_count() < rows.height]
            rows.select(columns or pl.all()).write_ipc(inside / f"{name}.arrow", compression="uncompressed")
    (inside / "info.json").write_bytes(info_to_json(trace.info))


def write_place(loader: str, path: Path, directory: Path) -> None:
    """Write a reference to a file with tables that the loader opens in place. Raises OSError."""
    (workspace(directory) / _PLACE).write_text(json.dumps({"loader": loader, "path": os.fsencode(path).hex()}))


def _in_place(directory: Path) -> tuple[Trace, ...] | None:
    file = directory / "0" / _PLACE
    if not file.exists():
        return None
    from .. import registry

    reference = json.loads(file.read_text())
    loader = registry.named(reference["loader"])
    if loader is None or not loader.in_place:
        raise ValueError(f"no loader reads tables of {reference['loader']!r} where they lie")
    traces = loader.load(Job(Path(os.fsdecode(bytes.fromhex(reference["path"]))), directory / "0"))
    return tuple(recognised(trace) for trace in traces)


def read(directory: Path, compiled: bool = True, with_call_tree: bool = True) -> tuple[Trace, ...]:
    """Every trace of the directory as scans. Raises OSError, ValueError or a polars error if it is damaged.

    Without the call tree, its columns in ``host`` are null, as in the stored table.
    """
    if (traces := _in_place(directory)) is not None:
        return traces
    numbers = sorted(int(entry.name) for entry in directory.iterdir() if entry.name.isdigit())
    if not numbers:
        raise ValueError(f"{directory} holds no trace")
    return tuple(_read_one(directory / str(number), compiled, with_call_tree) for number in numbers)


def _read_one(inside: Path, compiled: bool, with_call_tree: bool, info: Info | None = None) -> Trace:
    import polars as pl

    from .. import schema

    info = info or info_from_json((inside / "info.json").read_bytes())
    tables, host = {}, list[pl.LazyFrame]()
    for name in TABLE_NAMES:
        frames = [schema.conform(name, pl.scan_ipc(file)) for file in _files(inside, name)]
        if frames:
            tables[name] = pl.concat(frames) if len(frames) > 1 else frames[0]
        if name == "host":
            host = frames
    if not with_call_tree:
        return Trace(info).with_tables(**tables)
    # its own store: a bound one holds the tables, and the garbage collector cannot see that polars holds the source
    tree_files = DerivedFiles(inside / DERIVED)
    trace = recognised(call_tree.deferred(Trace(info).with_tables(**tables), compiled, host, tree_files))
    return DerivedFiles(inside / DERIVED, of_settings()).bind(trace)


def _files(inside: Path, table: str) -> list[Path]:
    return [*inside.glob(f"{table}.arrow"), *sorted(inside.glob(f"{table}-*.arrow"))]


def sink(table: pl.LazyFrame, target: Path) -> None:
    """Write the table to a file, without columns that are entirely null."""
    import polars as pl

    filled = table.select(pl.all().count()).collect(engine="streaming").row(0, named=True)
    columns = [name for name, count in filled.items() if count]
    table.select(columns or pl.all()).sink_ipc(target, compression="zstd", maintain_order=True)


def info_to_plain(info: Info) -> dict[str, Any]:
    """The Info as plain JSON values."""
    plain: dict[str, Any] = json.loads(info_to_json(info))
    return plain


def info_from_plain(raw: dict[str, Any]) -> Info:
    """The inverse of ``info_to_plain``. Raises KeyError or TypeError for other values."""
    fields = {name: raw[name] for name in Info.__struct_fields__ if name in raw}
    fields["devices"] = tuple(Device(**device) for device in raw["devices"])
    fields["ranks"], fields["warnings"] = tuple(raw["ranks"]), tuple(raw["warnings"])
    return Info(**fields)


def info_to_json(info: Info) -> bytes:
    """The Info as JSON."""
    try:
        return orjson.dumps(info, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # an integer beyond 64 bits, or a file name that is not UTF-8
        return json.dumps(info, default=_plain).encode()


def _plain(value: object) -> object:
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)


def info_from_json(text: bytes) -> Info:
    """The inverse of ``info_to_json``. Raises ValueError, KeyError or TypeError for other text."""
    try:
        return info_from_plain(orjson.loads(text))
    except orjson.JSONDecodeError:
        return info_from_plain(json.loads(text))


PART_BYTES = 16 << 20  # In-memory size of a part; smaller frames are stored in a single file.
_NAME = re.compile(r"[a-z0-9-]+")
_LIST = "-parts"


class DerivedFiles:
    """The derived files of one trace; a trace with any table replaced, as by a row filter, is another one. What the
    settings say of communication changes the kinds of kernels: other ``patterns`` have files of their own."""

    def __init__(self, folder: Path, patterns: Patterns | None = None) -> None:
        self._folder = folder
        self._suffix = f"-{blake2b(repr(patterns).encode()).hexdigest()[:8]}" if patterns else ""
        self._tables: tuple[object, ...] = ()

    def bind(self, trace: Trace) -> Trace:
        """The trace with this store attached; ``is_of`` then accepts only traces with the same table objects."""
        bound = replace(trace, derived_store=self)
        self._tables = _tables_of(bound)
        return bound

    def is_of(self, trace: Trace) -> bool:
        """Whether the trace has exactly the tables of the bound trace."""
        return len(self._tables) == len(TABLE_NAMES) and all(
            table is other for table, other in zip(self._tables, _tables_of(trace), strict=True)
        )

    def read(self, name: str) -> pl.DataFrame | None:
        """The frame stored as ``name``; None if there is none with a valid checksum."""
        import polars as pl

        frame = self._single(name)
        if frame is not None:
            return frame
        rows = self.parts(name)
        try:
            return None if rows is None else pl.concat(rows).collect()
        except (OSError, pl.exceptions.PolarsError):
            return None

    def write(self, name: str, frame: pl.DataFrame) -> None:
        """Store a frame as ``name``, in parts if it is large; write errors are ignored."""
        parts = -(-int(frame.estimated_size()) // PART_BYTES)
        if parts > 1:
            self.write_parts(name, enumerate(frame.iter_slices(-(-frame.height // parts))))
            return
        self.write_bytes(name, _ipc(frame))

    def write_bytes(self, name: str, data: bytes) -> None:
        """Store bytes as ``name``; write errors are ignored."""
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            private.write(self._file(name), private.sealed(data))

    def read_bytes(self, name: str) -> bytes | None:
        """The bytes stored by ``write_bytes``; None if there are none with a valid checksum."""
        try:
            return private.unsealed(self._file(name).read_bytes())
        except (OSError, ValueError):
            return None

    def write_parts(self, name: str, frames: Iterable[tuple[int, pl.DataFrame]]) -> bool:
        """Store a frame that arrives in numbered parts, in any order; on a write error nothing is kept: returns False.

        If it returns True, ``frames`` has been consumed completely, on which the producer may rely.
        """
        import polars as pl

        written = list[tuple[int, str, bytes]]()
        try:
            self._folder.mkdir(exist_ok=True)
            for number, frame in frames:
                data = _ipc(frame)
                written.append((number, f"{name}-{number:05}", blake2b(data).digest()))
                private.write(self._file(written[-1][1]), data)
            rows = pl.DataFrame(sorted(written), schema=["number", "name", "checksum"], orient="row")
            private.write(self._file(name + _LIST), private.sealed(_ipc(rows)))
        except OSError:
            for _, file_name, _ in written:
                private.discard(self._file(file_name))
            return False
        return True

    def _single(self, name: str) -> pl.DataFrame | None:
        import polars as pl

        file = self._file(name)
        try:
            return pl.read_ipc(io.BytesIO(private.unsealed(file.read_bytes())))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, pl.exceptions.PolarsError):
            private.discard(file)
            return None

    def parts(self, name: str) -> list[pl.LazyFrame] | None:
        """Scans of the parts of the frame stored as ``name``; None if there are none with valid checksums."""
        import polars as pl

        listing = self._single(name + _LIST)
        if listing is None:
            return None
        files = [self._file(file_name) for file_name in listing["name"]]
        try:
            checksums = [blake2b(file.read_bytes()).digest() for file in files]
            if checksums == listing["checksum"].to_list():
                return [pl.scan_ipc(file) for file in files]
        except OSError:
            pass
        for file in (self._file(name + _LIST), *files):
            private.discard(file)
        return None

    def only_last(self, beginning: str, count: int) -> None:
        """Keep only the ``count`` most recently written files whose names start with ``beginning``."""
        with suppress(OSError):
            matches = [file for file in self._folder.iterdir() if file.name.startswith(beginning)]
            for file in sorted(matches, key=lambda file: file.stat().st_mtime_ns)[: max(0, len(matches) - count)]:
                private.discard(file)

    @property
    def identity(self) -> str:
        """The name of the cache entry and the number of the trace in it; a changed source has another entry name."""
        return f"{self._folder.parent.parent.name}-{self._folder.parent.name}"

    def _file(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} names no file")
        return self._folder / f"{name}{self._suffix}"


def _ipc(frame: pl.DataFrame) -> bytes:
    room = io.BytesIO()
    frame.write_ipc(room, compression="lz4")
    return room.getvalue()


def _tables_of(trace: Trace) -> tuple[object, ...]:
    return tuple(getattr(trace, name) for name in TABLE_NAMES)
