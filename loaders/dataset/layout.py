"""What a reduced dataset looks like on disk, for those that write it and those that read it.

``<table>/rank-000012.parquet`` is a table of one recording, as a rule one rank's, and has a column ``rank``; every file
of a table has the same columns. ``ranks/rank-000012.json`` says what that was reduced from, and is there only when its
tables are whole. ``packed/<table>-<state>.parquet`` repeats all files of a small table in one, for opening a thousand
ranks at once. ``dataset.json`` is written last and says what belongs to the dataset.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

LAYOUT = 1  # Goes up when an older reader could not read what is written.
DESCRIPTION = "dataset.json"
README = "README.md"
MARK = b'{"format":"warplens-dataset"'  # How a description begins.
MARKERS, PACKED, STAGING = "ranks", "packed", ".staging"
TABLES = (
    "rank_sums", "device_sums", "cycles", "cycle_sums", "cycle_device_sums", "kernel_stats", "breakdown", "findings",
    "idle_causes", "idle_gaps", "profile", "collectives",
)
"""The tables of a dataset."""
_PART = re.compile(r"rank-\d{6,9}(-\d{6,9})?")
_STATE = re.compile(r"[0-9a-f]{16}")


class Part(Struct, frozen=True):
    """One recording in the dataset: the stem of its files, its ranks, and what it was reduced from.

    ``stamps`` are name, size and time of change of each source file; ``reduced`` the version of the reduction, ``rows``
    the rows of each table that has any; ``info`` the recording's Info as plain values.
    """

    part: str
    ranks: tuple[int, ...]
    stamps: tuple[tuple[str, int, int], ...]
    reduced: int
    rows: dict[str, int]
    info: dict[str, Any]


class PartSummary(Struct, frozen=True):
    """What the description says of a part: enough to open it."""

    part: str
    ranks: tuple[int, ...]
    epoch_ns: int | None
    rows: dict[str, int]


class Description(Struct, frozen=True):
    """The whole of ``dataset.json``; ``packed`` says of each packed table in which file it is."""

    format: str
    layout: int
    made_by: str
    reduced: int
    info: dict[str, Any]
    parts: tuple[PartSummary, ...]
    packed: dict[str, str]


def part_name(ranks: Sequence[int]) -> str:
    """The stem of the files of a recording of these ranks."""
    return "-".join(["rank", *(f"{rank:06}" for rank in sorted({min(ranks), max(ranks)}))])


def table_file(dataset: Path, table: str, member: str) -> Path:
    """Where a table of a part is. Raises ValueError for names nobody gives."""
    if table not in TABLES or _PART.fullmatch(member) is None:
        raise ValueError(f"no such table of a dataset: {table}/{member}")
    return dataset / table / f"{member}.parquet"


def packed_file(dataset: Path, table: str, state: str) -> Path:
    """Where all files of a table are repeated. Raises ValueError for names nobody gives."""
    if table not in TABLES or _STATE.fullmatch(state) is None:
        raise ValueError(f"no such table of a dataset: {table}-{state}")
    return dataset / PACKED / f"{table}-{state}.parquet"
