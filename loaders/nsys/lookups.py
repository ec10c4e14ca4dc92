"""Names for the numbers in an export: strings by id, devices, labels of enumerations.

Texts become categoricals before the join with the rows: a few hundred distinct names are hashed once, and rows get only
their codes, through a join on an integer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ..collective_names import kernel_kind
from ..schema import NAME
from .database import NsysDatabase

_COPIES = (
    "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
    "unified HtoD", "unified DtoH", "unified DtoD",
)
_MEMORIES = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown")
_WAITS = ("Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
"""CUPTI's CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind and CUpti_ActivitySynchronizationType. Exports hold the
numbers; the labels are those Kineto writes for the same records, so that runs recorded with either tool compare."""


def names(strings: pl.DataFrame) -> pl.DataFrame:
    """Per string id its ``name`` and the ``kind`` of a kernel with that name, both categorical."""
    return strings.select(
        "id",
        pl.col("text").cast(NAME).alias("name"),
        pl.col("text").map_elements(kernel_kind, return_dtype=pl.String).cast(NAME).alias("kind"),
    )


def typed(rows: Sequence[tuple[object, ...]], schema: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Rows of a small table as a frame of integer and text columns. SQLite allows any type in any column: bytes in a
    text column are decoded, every other mismatch becomes null."""
    columns: list[tuple[Any, ...]] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pl.DataFrame(
        [
            pl.Series(name, [_value(value, dtype) for value in column], dtype=dtype)
            for (name, dtype), column in zip(schema.items(), columns, strict=True)
        ]
    )


def _value(value: object, dtype: type[pl.DataType]) -> int | str | None:
    if dtype == pl.Int64:
        return value if isinstance(value, int) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def word(label: str) -> pl.Expr:
    """The same category for all rows."""
    return pl.lit(label, dtype=pl.String).cast(NAME)


def with_copy_names(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the ``name`` of each copy, from its kind and both kinds of memory; null if the copy kind is not listed."""
    columns = ["copyKind", "srcKind", "dstKind"]
    distinct = rows.select(columns).unique()
    names = pl.Series("name", [_copy_name(*row) for row in distinct.rows()], dtype=pl.String).cast(NAME)
    return rows.join(distinct.with_columns(names), on=columns, how="left", maintain_order="left", nulls_equal=True)


def _copy_name(kind: int | None, source: int | None, target: int | None) -> str | None:
    if kind is None or not 0 <= kind < len(_COPIES):
        return None
    sides = [_MEMORIES[side] for side in (source, target) if side is not None and 0 <= side < len(_MEMORIES)]
    return f"Memcpy {_COPIES[kind]} ({' -> '.join(sides)})" if len(sides) == 2 else f"Memcpy {_COPIES[kind]}"


def listed(column: str, labels: tuple[str, ...], prefix: str = "", suffix: str = "") -> pl.Expr:
    """The label of a number, its index in ``labels``, as a categorical; ``Unknown`` for any other number."""
    texts = [f"{prefix}{label}{suffix}" for label in labels]
    chosen = pl.col(column).replace_strict(
        list(range(len(texts))), texts, default=f"{prefix}Unknown{suffix}", return_dtype=pl.String
    )
    return chosen.cast(NAME)


def memset_name() -> pl.Expr:
    """The name of a memset, with the kind of memory where recorded."""
    return pl.when(pl.col("memKind").is_null()).then(word("Memset")).otherwise(
        listed("memKind", _MEMORIES, "Memset (", ")")
    )


def sync_name() -> pl.Expr:
    """The name of a synchronization, by its type."""
    return listed("syncType", _WAITS)


def devices(database: NsysDatabase) -> pl.DataFrame:
    """The ``gpu`` number per ``pid`` and ``deviceId`` (the device's number in that process), if the export has it."""
    rows = database.rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
    schema = {"pid": pl.Int64, "deviceId": pl.Int64, "gpu": pl.Int64}
    return typed(rows, schema).drop_nulls().unique(["pid", "deviceId"])


def machines(database: NsysDatabase) -> list[int]:
    """The machines of a recording, bits 48 to 63 of its global ids: one, or those that it names if they are several."""
    numbers = {number >> 48 & 0xFFFF for table, column in (("TARGET_INFO_GPU", "vmId"), ("PROCESSES", "globalPid"))
               for (number,) in database.rows(table, column) if isinstance(number, int)}
    return sorted(numbers)


def pid(column: str) -> pl.Expr:
    """The process id in a serialised global id: bits 24 to 47."""
    return (pl.col(column) // (1 << 24)) & 0xFFFFFF


def place(column: str, machines: Sequence[int]) -> pl.Expr:
    """The position of the machine in a serialised global id, bits 48 to 63, among the machines of the recording."""
    machine = (pl.col(column) // (1 << 48)) & 0xFFFF
    return machine.replace_strict(list(machines), list(range(len(machines))), default=0, return_dtype=pl.Int64)


def process(column: str, machines: Sequence[int]) -> pl.Expr:
    """The process id; of several machines, a number that no process of another machine has."""
    return pid(column) + place(column, machines) * (1 << 24) if len(machines) > 1 else pid(column)


def tid(column: str) -> pl.Expr:
    """The thread id in a serialised global id: the lowest 24 bits."""
    return pl.col(column) & 0xFFFFFF
