"""Several files of one job as one Trace: whose rank each is, and how they are put together.

A rank comes from what the file says of itself, else from its name ('rank-3', 'worker0', 'TP-1'), else from the one
number in which the names differ. Times are put on one clock where every file knows its absolute zero; where one does
not, each keeps its own and a warning says so. Launch indices run on from rank to rank, so that an index stays unique.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..trace import Info, Trace
from .job.layout import TIME, process_name

if TYPE_CHECKING:
    import polars as pl

_MARK = re.compile(
    r"(?:node|rank|worker|proc(?:ess)?|gpu|dev(?:ice)?|(?<![a-z])[dpte]p)[-_.]?(\d+)", re.IGNORECASE,
)
_RANK = re.compile(r"(?<![a-z])rank[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
CLOCKED = {
    "kernels": "start_ns", "host": "start_ns", "cycles": "start_ns", "profile": "cycle_start_ns", "metrics": "ts_ns",
    "allocations": "start_ns",
}


def ranks_of(files: Sequence[Path], recorded: Sequence[tuple[int, ...]]) -> list[int] | None:
    """One distinct rank per file, or None where the files cannot be told apart as ranks of one job."""
    if all(len(ranks) == 1 for ranks in recorded):
        numbers = [ranks[0] for ranks in recorded]
        return numbers if len(set(numbers)) == len(numbers) else None
    by_name = _by_name(files)
    if by_name is None:
        return None
    agree = (len(ranks) != 1 or ranks[0] == rank for ranks, rank in zip(recorded, by_name, strict=True))
    return by_name if all(agree) else None


def _by_name(files: Sequence[Path]) -> list[int] | None:
    names = _names(files)
    matches = [_RANK.findall(name) for name in names]
    if all(len(match) == 1 for match in matches) and len({match[0] for match in matches}) == len(matches):
        return [int(match[0]) for match in matches]
    marks = [tuple(map(int, _MARK.findall(name))) for name in names]
    if all(marks) and len(set(marks)) == len(marks):
        return [mark[0] for mark in marks] if all(len(mark) == 1 for mark in marks) else _numbered(marks)
    numbers = [tuple(map(int, _NUMBER.findall(name))) for name in names]
    shapes = {_NUMBER.sub("#", name) for name in names}
    if len(shapes) != 1 or len({process_name(file) for file in files}) == 1:
        return None
    columns = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
    if len(columns) != 1 or len(set(columns[0])) != len(names) or min(columns[0]) >= TIME:
        return None
    return list(columns[0])


def shape(file: Path) -> str:
    """The name of a file without its numbers: what the files of a job's ranks have in common."""
    return _NUMBER.sub("#", file.name)


def _names(files: Sequence[Path]) -> list[str]:
    """The files' names; where those of different folders are the same, with the folders in which they differ."""
    names = [file.name for file in files]
    if len(set(names)) == len(names) or len({file.parent for file in files}) == 1:
        return names
    common = os.path.commonpath([file.parent for file in files])
    return [os.path.relpath(file, common) for file in files]


def _numbered(marks: Sequence[tuple[int, ...]]) -> list[int]:
    order = {mark: number for number, mark in enumerate(sorted(set(marks)))}
    return [order[mark] for mark in marks]


def merge(source: str, label: str, traces: Sequence[Trace], ranks: Sequence[int]) -> Trace:
    """One Trace of all ranks, in their order, with ``rank`` filled in every table that has it."""
    import polars as pl

    ordered = sorted(zip(ranks, traces, strict=True), key=lambda pair: pair[0])
    epochs = [trace.info.epoch_ns for _, trace in ordered]
    zero = None if None in epochs else min(epoch for epoch in epochs if epoch is not None)
    frames: dict[str, list[pl.LazyFrame]] = {}
    rows = {"kernels": 0, "host": 0}
    for rank, trace in ordered:
        shift = 0 if zero is None or trace.info.epoch_ns is None else trace.info.epoch_ns - zero
        before = dict(rows)
        for name in trace.filled_tables():
            table = trace.table(name)
            frames.setdefault(name, []).append(_placed(name, table, rank, shift, before["kernels"], before["host"]))
            if name in rows:
                rows[name] += table.select(pl.len()).collect(engine="streaming").item()
    tables = {name: pl.concat(tables) for name, tables in frames.items()}
    return Trace(_info(source, label, ordered, zero)).with_tables(**tables)


def _placed(name: str, table: pl.LazyFrame, rank: int, shift: int, first: int, slices: int) -> pl.LazyFrame:
    import polars as pl

    columns = table.collect_schema().names()
    moved = [pl.col("rank").fill_null(rank)] if "rank" in columns else []
    if shift and name in CLOCKED:
        moved.append(pl.col(CLOCKED[name]) + shift)
    if first:
        moved += [pl.col(c) + first for c in ("index", "first_index", "last_index") if c in columns]
    if slices and name == "host":
        moved.append(pl.col("parent") + slices)
    return table.with_columns(moved) if moved else table


def _info(source: str, label: str, ordered: Sequence[tuple[int, Trace]], zero: int | None) -> Info:
    infos = [trace.info for _, trace in ordered]
    warnings = [f"rank {rank}: {warning}" for rank, trace in ordered for warning in trace.info.warnings]
    if zero is None and any(info.epoch_ns is not None for info in infos):
        warnings.append("not every rank recorded its absolute time: each keeps its own zero")
    sizes = [info.bytes for info in infos if info.bytes is not None]
    covered = [(info.coverage, info.bytes or 1) for info in infos if info.coverage is not None]
    devices = {device.id: device for info in reversed(infos) for device in info.devices}
    return replace(
        infos[0], source=source, label=label, epoch_ns=zero, warnings=tuple(warnings),
        bytes=sum(sizes) if sizes else None,
        devices=tuple(devices[key] for key in sorted(devices, key=_by_number)),
        ranks=tuple(rank for rank, _ in ordered),
        coverage=sum(share * size for share, size in covered) / sum(size for _, size in covered) if covered else None,
        serialised=any(info.serialised for info in infos),
        facts={
            **infos[0].facts, "files": {str(rank): trace.info.source for rank, trace in ordered},
            "hosts": {str(rank): trace.info.facts.get("host_name") for rank, trace in ordered},
        },
    )


def _by_number(device: str) -> tuple[int, str]:
    number = _NUMBER.search(device)
    return (int(number.group()) if number else -1, device)
