"""The on-disk layout of a reduced dataset, shared by writer and reader.

``<table>/rank-000012.parquet`` is one table of one recording, usually a single rank, with a column ``rank``; all files
of a table have the same columns. Tables of a rank that is reduced again have a mark before the suffix: those that the
description lists stay until it lists the new ones. ``ranks/rank-000012.json``, the part's marker, records its sources
and exists only once its tables are complete. ``packed/<table>-<state>.parquet`` combines all files of a small table, to
open a thousand ranks at once. ``dataset.json`` is written last and lists the parts of the dataset.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

LAYOUT = 1  # Incremented when older readers cannot read the new files.
DESCRIPTION = "dataset.json"
README = "README.md"
MARK = b'{"format":"warplens-dataset"'  # First bytes of a description.
MARKERS, PACKED, STAGING = "ranks", "packed", ".staging"
TABLES = (
    "rank_sums", "device_sums", "cycles", "cycle_sums", "cycle_device_sums", "kernel_stats", "breakdown", "findings",
    "idle_causes", "idle_gaps", "profile", "collectives",
)
"""The tables of a dataset."""
_STEM = re.compile(r"rank-\d{6,9}(-\d{6,9})?(\.[0-9a-f]{8})?")
_STATE = re.compile(r"[0-9a-f]{16}")


class Part(Struct, frozen=True):
    """One recording in the dataset: its name, its ranks, and its sources.

    ``stamps`` are name, size and modification time of each source file; ``reduced`` is the version of the reduction,
    ``rows`` the row count of each non-empty table, ``info`` the recording's Info as plain values, ``file`` the stem of
    its files if that is not its name.
    """

    part: str
    ranks: tuple[int, ...]
    stamps: tuple[tuple[str, int, int], ...]
    reduced: int
    rows: dict[str, int]
    info: dict[str, Any]
    file: str = ""

    @property
    def stem(self) -> str:
        """The stem of its files."""
        return self.file or self.part


class PartSummary(Struct, frozen=True):
    """A part as listed in the description, with what is needed to open it."""

    part: str
    ranks: tuple[int, ...]
    epoch_ns: int | None
    rows: dict[str, int]
    file: str = ""

    @property
    def stem(self) -> str:
        """The stem of its files."""
        return self.file or self.part


class Description(Struct, frozen=True):
    """The content of ``dataset.json``; ``packed`` maps each packed table to the ``state`` in its file name."""

    format: str
    layout: int
    made_by: str
    reduced: int
    info: dict[str, Any]
    parts: tuple[PartSummary, ...]
    packed: dict[str, str]


def part_name(ranks: Sequence[int]) -> str:
    """The file stem for a recording of these ranks: 'rank-<lowest>' or 'rank-<lowest>-<highest>'."""
    return "-".join(["rank", *(f"{rank:06}" for rank in sorted({min(ranks), max(ranks)}))])


def table_file(dataset: Path, table: str, stem: str) -> Path:
    """The path of a part's table. Raises ValueError for invalid names."""
    if table not in TABLES or _STEM.fullmatch(stem) is None:
        raise ValueError(f"no such table of a dataset: {table}/{stem}")
    return dataset / table / f"{stem}.parquet"


def packed_file(dataset: Path, table: str, state: str) -> Path:
    """The path of a packed table. Raises ValueError for invalid names."""
    if table not in TABLES or _STATE.fullmatch(state) is None:
        raise ValueError(f"no such table of a dataset: {table}-{state}")
    return dataset / PACKED / f"{table}-{state}.parquet"
