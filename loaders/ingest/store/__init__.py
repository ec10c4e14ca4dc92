"""Traces as a directory of Arrow files: what the cache holds and what the ingest process hands over.

``<dir>/<n>/`` is the n-th trace: ``info.json`` and one ``<table>.arrow`` (Arrow IPC, zstd) for every table that has
rows. A loader that streams writes such a file into its workspace itself, or several, ``<table>-<part>.arrow``, in the
order of their names; what stands there is the table, and is not written again. Columns without a single value are left
out of a file, and integers may be no wider than their values; ``read`` makes up for both, so what it gives always has
exactly the schema of ``schema.TABLES``. Files that are tables already are not copied: the directory then says where
they lie.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from ...loader import Job
from ...trace import TABLE_NAMES, Device, Info, Trace
from .. import call_tree
from ..cache import DERIVED
from .derived import DerivedFiles

if TYPE_CHECKING:
    import polars as pl

LAYOUT = 4
"""Goes up when this module writes what an older one could not read; part of the cache's key."""
_PLACE = "in_place.json"


def workspace(directory: Path) -> Path:
    """Where a loader may write the tables of its first trace."""
    inside = directory / "0"
    inside.mkdir(parents=True, exist_ok=True)
    return inside


def write(traces: tuple[Trace, ...], directory: Path) -> None:
    """Write all traces of one input. Raises OSError where the disk is full."""
    from ... import schema

    for number, trace in enumerate(traces):
        inside = directory / str(number)
        inside.mkdir(parents=True, exist_ok=True)
        for name in TABLE_NAMES:
            if not _files(inside, name) and trace.has(name):
                _sink(schema.conform(name, trace.table(name)), inside / f"{name}.arrow")
        (inside / "info.json").write_bytes(_info_to_json(trace.info))


def write_preview(trace: Trace, directory: Path) -> None:
    """Write a trace of some thousand rows to be read once, at once: not compressed. Raises OSError."""
    import polars as pl

    from ... import schema

    inside = workspace(directory)
    for name in TABLE_NAMES:
        rows = schema.conform(name, trace.table(name)).collect()
        if rows.height:
            columns = [column.name for column in rows if column.null_count() < rows.height]
            rows.select(columns or pl.all()).write_ipc(inside / f"{name}.arrow", compression="uncompressed")
    (inside / "info.json").write_bytes(_info_to_json(trace.info))


def write_place(loader: str, path: Path, directory: Path) -> None:
    """Say that the tables are those of the files themselves, which the loader opens again. Raises OSError."""
    (workspace(directory) / _PLACE).write_text(json.dumps({"loader": loader, "path": os.fsencode(path).hex()}))


def _in_place(directory: Path) -> tuple[Trace, ...] | None:
    file = directory / "0" / _PLACE
    if not file.exists():
        return None
    from ... import registry

    reference = json.loads(file.read_text())
    loader = registry.named(reference["loader"])
    if loader is None or not loader.in_place:
        raise ValueError(f"no loader reads tables of {reference['loader']!r} where they lie")
    return loader.load(Job(Path(os.fsdecode(bytes.fromhex(reference["path"]))), directory / "0"))


def read(directory: Path, compiled: bool = True, with_call_tree: bool = True) -> tuple[Trace, ...]:
    """Every trace of the directory as scans. Raises OSError, ValueError or a polars error where it is damaged.

    Without the call tree its columns in ``host`` are null, as they are stored.
    """
    if (traces := _in_place(directory)) is not None:
        return traces
    numbers = sorted(int(entry.name) for entry in directory.iterdir() if entry.name.isdigit())
    if not numbers:
        raise ValueError(f"{directory} holds no trace")
    return tuple(_read_one(directory / str(number), compiled, with_call_tree) for number in numbers)


def _read_one(inside: Path, compiled: bool, with_call_tree: bool) -> Trace:
    import polars as pl

    from ... import schema

    info = _info_from_json((inside / "info.json").read_bytes())
    tables, host = {}, list[pl.LazyFrame]()
    for name in TABLE_NAMES:
        frames = [schema.conform(name, pl.scan_ipc(file)) for file in _files(inside, name)]
        if frames:
            tables[name] = pl.concat(frames) if len(frames) > 1 else frames[0]
        if name == "host":
            host = frames
    if not with_call_tree:
        return Trace(info).with_tables(**tables)
    files = DerivedFiles(inside / DERIVED)
    return files.bind(call_tree.deferred(Trace(info).with_tables(**tables), compiled, host, files))


def _files(inside: Path, table: str) -> list[Path]:
    return [*inside.glob(f"{table}.arrow"), *sorted(inside.glob(f"{table}-*.arrow"))]


def _sink(table: pl.LazyFrame, target: Path) -> None:
    import polars as pl

    filled = table.select(pl.all().count()).collect(engine="streaming").row(0, named=True)
    columns = [name for name, count in filled.items() if count]
    table.select(columns or pl.all()).sink_ipc(target, compression="zstd", maintain_order=True)


def info_to_plain(info: Info) -> dict[str, Any]:
    """The info as values that any JSON can hold."""
    plain: dict[str, Any] = json.loads(_info_to_json(info))
    return plain


def info_from_plain(raw: dict[str, Any]) -> Info:
    """The info that ``info_to_plain`` gave. Raises KeyError or TypeError for anything else."""
    fields = {name: raw[name] for name in Info.__struct_fields__ if name in raw}
    fields["devices"] = tuple(Device(**device) for device in raw["devices"])
    fields["ranks"], fields["warnings"] = tuple(raw["ranks"]), tuple(raw["warnings"])
    return Info(**fields)


def _info_to_json(info: Info) -> bytes:
    try:
        return orjson.dumps(info, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # an integer beyond 64 bits, or a file name that is no UTF-8
        return json.dumps(info, default=_plain).encode()


def _plain(value: object) -> object:
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)


def _info_from_json(text: bytes) -> Info:
    try:
        return info_from_plain(orjson.loads(text))
    except orjson.JSONDecodeError:
        return info_from_plain(json.loads(text))
