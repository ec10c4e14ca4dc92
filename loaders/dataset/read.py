"""Opens a reduced dataset as one Trace: scans of its files, with all times relative to the earliest zero of any rank.

Only the description is read here; tables are read when a query needs them. The description is untrusted input: its
names are checked before they become paths, and columns of other dtypes are cast when they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
from msgspec import DecodeError
from msgspec.json import decode
from msgspec.structs import replace

from .. import parquet_check, schema
from ..errors import Unreadable
from ..ingest.limits import Exceeded, check
from ..ingest.store import info_from_plain
from ..loader import Job
from ..trace import REDUCED, Device, Info, Trace
from .layout import LAYOUT, PACKED, Description, packed_file, table_file

MOMENTS = {
    "cycles": ("start_ns",), "cycle_sums": ("start_ns", "window_start_ns", "window_end_ns", "from_ns", "to_ns"),
    "profile": ("cycle_start_ns",), "collectives": ("start_ns",), "idle_gaps": ("start_ns",),
}
"""Columns with points in time, stored relative to the zero of their rank's recording."""
_CHECKED = 200
"""Maximum files whose declared sizes are checked before scanning, 1 ms each, packed ones first; big jobs have more."""
_AGAIN = "Run `warplens reduce` again with the same recordings: it rebuilds what is missing."


def load(job: Job) -> Trace:
    """Open the dataset in the folder of its description, ``job.path``. Raises Unreadable."""
    path = job.path
    try:
        description = decode(path.read_bytes(), type=Description)
        check("dataset-ranks", len(description.parts), f"lists {len(description.parts):,} recordings")
    except Exceeded as error:
        raise error.unreadable(path) from None
    except (DecodeError, ValueError) as error:
        raise Unreadable(path, f"is a damaged dataset description ({error})", _AGAIN) from None
    if description.layout > LAYOUT:
        raise Unreadable(path, f"has a newer layout ({description.layout}; this version reads up to {LAYOUT})",
                         "Open it with a newer warplens, or reduce the job again.")
    if not description.parts:
        raise Unreadable(path, "is a dataset without ranks", _AGAIN)
    try:
        return _trace(path.parent, description)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, KeyError, TypeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise Unreadable(path, f"belongs to a dataset whose files are damaged or missing ({first})", _AGAIN) from None


def _trace(dataset: Path, description: Description) -> Trace:
    epochs = [member.epoch_ns for member in description.parts]
    zero = None if None in epochs else min(epoch for epoch in epochs if epoch is not None)
    shifts = {} if zero is None else {
        rank: (member.epoch_ns or 0) - zero for member in description.parts for rank in member.ranks
    }
    names = Counter(name for member in description.parts for name, rows in member.rows.items() if rows)
    files = {name: _files(dataset, description, name) for name in names}
    for file in sorted(chain.from_iterable(files.values()), key=lambda file: file.parent.name != PACKED)[:_CHECKED]:
        parquet_check.check(file)
    tables = {name: _table(name, files[name], shifts) for name in names}
    return Trace(_info(dataset, description, zero)).with_tables(**tables)


def _files(dataset: Path, description: Description, name: str) -> list[Path]:
    if name in description.packed:
        files = [packed_file(dataset, name, description.packed[name])]
    else:
        files = [table_file(dataset, name, member.stem) for member in description.parts if member.rows.get(name)]
    if missing := [file for file in files if not file.is_file()]:
        raise ValueError(f"{len(missing)} of {len(files)} files of {name} are missing")
    return files


def _table(name: str, files: list[Path], shifts: dict[int, int]) -> pl.LazyFrame:
    pl.read_parquet_schema(files[0])  # raises now, rather than during a query, if it is not a Parquet file
    table = schema.conform(name, scan(name, files))
    if name not in MOMENTS or not any(shifts.values()):
        return table
    by_rank = pl.LazyFrame({"rank": list(shifts), "shift": list(shifts.values())}, schema={"rank": pl.Int64,
                                                                                         "shift": pl.Int64})
    moved = table.join(by_rank, on="rank", how="left", maintain_order="left")
    return moved.with_columns(pl.col(MOMENTS[name]) + pl.col("shift").fill_null(0)).drop("shift")


def scan(table: str, files: Sequence[Path]) -> pl.LazyFrame:
    """Scan the files of one table as one frame; columns an older version did not write are null, names are strings."""
    columns = {
        name: pl.String() if dtype == pl.Categorical else dtype for name, dtype in schema.polars_schema(table).items()
    }
    return pl.scan_parquet(
        list(files), glob=False, schema=columns, missing_columns="insert", extra_columns="ignore"
    )


def _info(dataset: Path, description: Description, zero: int | None) -> Info:
    info = info_from_plain(description.info)
    ranks = tuple(sorted({rank for member in description.parts for rank in member.ranks}))
    reduced: dict[str, Any] = {
        "layout": description.layout, "made_by": description.made_by, "recordings": len(description.parts),
    }
    facts = {**info.facts, REDUCED: {**reduced, **(info.facts.get(REDUCED) or {})}}
    label = dataset.resolve().name or info.label
    return replace(
        info, source=str(dataset), label=label, format="dataset", ranks=ranks, epoch_ns=zero, facts=facts,
        devices=tuple(device for device in info.devices if isinstance(device, Device)),
    )
