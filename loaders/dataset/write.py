"""Writes a reduced dataset: each recording's tables to a staging folder, then into the dataset; last its description.

A worker ``stage``s its result in a folder of its own, so that two workers on the same rank do not conflict; the main
process ``commit``s it and ``finish``es with the description. A part without its marker file does not exist: the marker
is written last, so that an interruption leaves a missing part, never an inconsistent one. Nothing that the description
lists is replaced or removed before the next one is there, so a dataset that is killed meanwhile answers as before.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl
from msgspec import DecodeError
from msgspec.json import decode, encode
from msgspec.structs import replace

from ... import __version__
from .. import private, schema
from ..ingest.ranks import totals
from ..ingest.store import info_from_plain, info_to_plain
from ..trace import REDUCED, Info, Trace
from .layout import (
    DESCRIPTION,
    LAYOUT,
    MARKERS,
    PACKED,
    README,
    STAGING,
    TABLES,
    Description,
    Part,
    PartSummary,
    packed_file,
    part_name,
    table_file,
)
from .read import scan

PACKED_BYTES = 128 << 20
"""A table whose files total at most this size is packed: duplicated in one file."""
_MOST = 8  # Maximum ranks named in a shared warning; the rest are counted.
_FACTS = ("host_name", "hosts", "world_size", REDUCED)  # Facts of a recording that the dataset keeps.
_HEAD = f"""# A job reduced by warplens

Layout {LAYOUT}. `warplens PATH` opens this folder as a run. It is plain Parquet: one folder per table, in it
one file per rank, each with a column `rank`.

    import polars as pl
    cycles = pl.read_parquet("cycles/*.parquet")

    import pyarrow.dataset as ds
    cycles = ds.dataset("cycles").to_table()

Times are nanoseconds from the start of the rank's own recording; `rank_sums.epoch_ns` is the absolute time of that
zero, where it was recorded. A value nobody measured is null, never 0. `ranks/` says of each file what it was reduced
from, `packed/` repeats small tables in one file, `dataset.json` is what warplens opens.

Not included: launches other than collectives, host slices, operators, counter samples. They are in the recordings.
"""


def stage(
    run: Trace, dataset: Path, session: str, stamps: Sequence[tuple[str, int, int]], reduced: int
) -> tuple[Path, Part]:
    """Write the reduced run to a new staging folder inside the dataset; returns the folder and part. Raises OSError."""
    folder = dataset / STAGING / session / uuid4().hex
    folder.mkdir(parents=True)
    try:
        rows = {}
        for name in TABLES:
            frame = run.table(name).with_columns(pl.col(pl.Categorical).cast(pl.String)).collect(engine="streaming")
            if frame.height:
                frame.write_parquet(folder / f"{name}.parquet", compression="zstd")
                rows[name] = frame.height
        facts = {name: run.info.facts[name] for name in _FACTS if name in run.info.facts}
        info = info_to_plain(run.info) | {"facts": facts}
        member = Part(part_name(run.info.ranks), run.info.ranks, tuple(stamps), reduced, rows, info)
        (folder / "part.json").write_bytes(encode(member))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder, member


def commit(dataset: Path, folder: Path, member: Part) -> Part:
    """Move a staged part into the dataset, in place of an earlier part of that name; returns it. Raises OSError."""
    if any(table_file(dataset, name, member.part).exists() for name in TABLES):
        member = replace(member, file=f"{member.part}.{uuid4().hex[:8]}")
    for name in member.rows:
        target = table_file(dataset, name, member.stem)
        target.parent.mkdir(exist_ok=True)
        os.replace(folder / f"{name}.parquet", target)
    _mark(dataset, member)
    shutil.rmtree(folder, ignore_errors=True)
    return member


def take_back(dataset: Path, member: Part, earlier: Part | None) -> None:
    """Remove a part committed by this call, and put the earlier part of that name back. Raises OSError."""
    forget(dataset, member.part)
    if earlier is not None:
        _mark(dataset, earlier)
    for name in member.rows:
        if earlier is None or earlier.stem != member.stem:
            table_file(dataset, name, member.stem).unlink(missing_ok=True)


def _mark(dataset: Path, member: Part) -> None:
    marker = _marker(dataset, member.part)
    marker.parent.mkdir(exist_ok=True)
    private.write(marker, encode(member))


def forget(dataset: Path, member: str) -> None:
    """Remove a part from the dataset by deleting its marker."""
    _marker(dataset, member).unlink(missing_ok=True)


def is_of_another_job(old: Part, new: Part) -> bool:
    """Whether two parts are of different jobs: of different world sizes, or one rank recorded in two folders."""
    sizes = [(part.info.get("facts") or {}).get("world_size") for part in (old, new)]
    if None not in sizes and sizes[0] != sizes[1]:
        return True
    return bool(set(old.ranks) & set(new.ranks)) and _source_folders(old) != _source_folders(new)


def _source_folders(part: Part) -> set[str]:
    return {os.path.dirname(name) for name, _, _ in part.stamps}


def clean(dataset: Path, session: str) -> None:
    """Remove everything a session staged but did not commit."""
    if session:
        shutil.rmtree(dataset / STAGING / session, ignore_errors=True)
    with contextlib.suppress(OSError):  # not empty because of another session, or never created
        (dataset / STAGING).rmdir()


def parts(dataset: Path) -> list[Part]:
    """The complete parts of a dataset, in order of rank; unreadable markers are ignored."""
    results = []
    for marker in sorted((dataset / MARKERS).glob("rank-*.json")):
        with contextlib.suppress(OSError, DecodeError, ValueError):
            member = decode(marker.read_bytes(), type=Part)
            files = [table_file(dataset, name, member.stem) for name in member.rows]
            if member.part == marker.stem and all(map(_is_whole, files)):
                results.append(member)
    return results


def _is_whole(file: Path, rows: int | None = None) -> bool:
    """Whether a file begins and ends like Parquet and, if ``rows`` is given, can be opened and has that many rows."""
    try:
        with file.open("rb") as source:
            head = source.read(4)
            source.seek(-4, os.SEEK_END)
            if head != b"PAR1" or source.read(4) != b"PAR1":
                return False
        return rows is None or pl.scan_parquet(file, glob=False).select(pl.len()).collect().item() == rows
    except (OSError, pl.exceptions.PolarsError):
        return False


def finish(dataset: Path, label: str) -> Description:
    """Write the description of all complete parts, and pack their small tables; then the files that no part lists go.
    Raises OSError."""
    members = parts(dataset)
    rows = {name: [member for member in members if member.rows.get(name)] for name in TABLES}
    packed = {name: _pack(dataset, name, with_rows) for name, with_rows in rows.items() if len(with_rows) > 1}
    description = Description(
        "warplens-dataset", LAYOUT, f"warplens {__version__}", max((member.reduced for member in members), default=0),
        info_to_plain(_info(label, members)),
        tuple(PartSummary(member.part, member.ranks, member.info.get("epoch_ns"), member.rows, member.file)
              for member in members),
        {name: state for name, state in packed.items() if state is not None},
    )
    private.write(dataset / README, _readme().encode())
    private.write(dataset / DESCRIPTION, encode(description))
    current = {packed_file(dataset, name, state) for name, state in description.packed.items()}
    current |= {table_file(dataset, name, member.stem) for member in members for name in member.rows}
    patterns = f"{PACKED}/*", *(f"{name}/rank-*.parquet" for name in TABLES)
    if old := {file for pattern in patterns for file in dataset.glob(pattern)} - current:
        since = {part.stem for part in parts(dataset)} - {member.stem for member in members}  # by another call
        for file in old:
            if file.stem not in since:
                file.unlink(missing_ok=True)
    return description


def _info(label: str, members: Sequence[Part]) -> Info:
    """The combined Info of all recordings: devices, ranks, hosts, sizes, and deduplicated warnings."""
    infos = [info_from_plain(member.info) for member in members]
    lost, files, hosts = dict[str, None](), dict[str, str](), dict[str, Any]()
    for member, info in zip(members, infos, strict=True):
        lost |= dict.fromkeys((info.facts.get(REDUCED) or {}).get("without", ()))
        for rank in member.ranks:
            files[str(rank)] = Path(info.source).name
            hosts[str(rank)] = (info.facts.get("hosts") or {}).get(str(rank)) or info.facts.get("host_name")
    tools, formats = {info.tool for info in infos}, sorted({info.format for info in infos})
    return Info(
        source=label, label=label, format="dataset", tool=tools.pop() if len(tools) == 1 else None, **totals(infos),
        ranks=tuple(sorted({rank for member in members for rank in member.ranks})),
        clock=infos[0].clock if infos else None, warnings=tuple(_warnings(members, infos)),
        facts={"files": files, "hosts": hosts, "job": _job(members),
               REDUCED: {"without": list(lost), "formats": formats}},
    )


def _job(members: Sequence[Part]) -> dict[str, Any]:
    """What ranks of one job share: the world size, the folders and the formats they were recorded in."""
    sizes = [size for member in members if (size := (member.info.get("facts") or {}).get("world_size")) is not None]
    folders = {os.path.basename(folder) for member in members for folder in _source_folders(member)}
    formats = {str(member.info.get("format")) for member in members}
    return {"world_size": max(sizes, default=None), "folders": sorted(folders), "format": sorted(formats)}


def _warnings(members: Sequence[Part], infos: Sequence[Info]) -> list[str]:
    """Each distinct warning once, with the ranks it applies to."""
    ranks_by_text: dict[str, list[str]] = {}
    for member, info in zip(members, infos, strict=True):
        ordered = sorted({*member.ranks})
        first_and_last = " to ".join(str(rank) for rank in dict.fromkeys((*ordered[:1], *ordered[-1:])))
        for warning in info.warnings:
            ranks_by_text.setdefault(warning, []).append(first_and_last)
    warnings = []
    for warning, ranks in ranks_by_text.items():
        rank_list = ", ".join(ranks[:_MOST]) + (f" and {len(ranks) - _MOST:,} more" if len(ranks) > _MOST else "")
        warnings.append(f"rank{'s' if len(ranks) > 1 else ''} {rank_list}: {warning}")
    if len({info.epoch_ns is None for info in infos}) > 1:
        warnings.append("not every rank recorded an absolute time: each starts at its own 0")
    return warnings


def _pack(dataset: Path, table: str, some: Sequence[Part]) -> str | None:
    """Pack the files of a table into one unless that exists; returns its state, None if they are too large in total."""
    files = [table_file(dataset, table, member.stem) for member in some]
    states = [file.stat() for file in files]
    if sum(state.st_size for state in states) > PACKED_BYTES:
        return None
    sources = [(member.stem, state.st_size, state.st_mtime_ns) for member, state in zip(some, states, strict=True)]
    state = private.blake2b(repr((LAYOUT, sources)).encode(), digest_size=8).hexdigest()
    target = packed_file(dataset, table, state)
    if not _is_whole(target, sum(member.rows[table] for member in some)):
        target.parent.mkdir(exist_ok=True)
        with private.replacing(target) as half:
            scan(table, files).sink_parquet(half, compression="zstd", maintain_order=True)
    return state


def _marker(dataset: Path, member: str) -> Path:
    return dataset / MARKERS / f"{table_file(dataset, TABLES[0], member).stem}.json"


def _readme() -> str:
    """The README of a dataset, which describes how to read it without warplens."""
    members = [_HEAD]
    for name in TABLES:
        rows = [
            f"| `{field.name}` | {str(field.dtype).split('(')[0]} | {field.unit} | {field.meaning} |"
            for field in schema.TABLES[name]
        ]
        members.append("\n".join([f"## {name}", "", "| column | type | unit | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(members) + "\n"
