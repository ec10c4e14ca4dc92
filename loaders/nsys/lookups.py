"""Numbers of an export as words: strings by id, devices, labels of enumerations.

Texts become categories before they meet the rows: a few hundred distinct names are hashed once, and the rows only get
their codes by a join on an integer.
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
"""CUPTI's CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind and CUpti_ActivitySynchronizationType. Exports carry them
as numbers; the words are those Kineto writes for the same records, so that runs of both tools compare."""


def names(strings: pl.DataFrame) -> pl.DataFrame:
    """Per string id its ``name`` and the ``kind`` a kernel of that name has, both as categories."""
    return strings.select(
        "id",
        pl.col("text").cast(NAME).alias("name"),
        pl.col("text").map_elements(kernel_kind, return_dtype=pl.String).cast(NAME).alias("kind"),
    )


def typed(rows: Sequence[tuple[object, ...]], schema: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Rows of a small table as a frame of integers and texts. SQLite keeps anything in any column: what is neither
    becomes null, bytes in place of a text become one."""
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
    """One category for all rows."""
    return pl.lit(label, dtype=pl.String).cast(NAME)


def copy_names() -> pl.DataFrame:
    """Name of a copy by (``kind``, ``source``, ``target``) as one ``key``; see ``copy_key``."""
    rows = [
        (_key(kind, source, target), f"Memcpy {_COPIES[kind]} ({_MEMORIES[source]} -> {_MEMORIES[target]})")
        for kind in range(len(_COPIES)) for source in range(len(_MEMORIES)) for target in range(len(_MEMORIES))
    ]
    rows += [(_key(kind, None, None), f"Memcpy {_COPIES[kind]}") for kind in range(len(_COPIES))]
    return pl.DataFrame(rows, schema={"key": pl.Int64, "name": pl.String}, orient="row").cast({"name": NAME})


def copy_key() -> pl.Expr:
    """The key of ``copy_names`` from the columns copyKind, srcKind and dstKind; null for numbers nobody knows."""
    in_range = pl.col("copyKind").is_between(0, len(_COPIES) - 1)
    memory = pl.col("srcKind").is_between(0, 7) & pl.col("dstKind").is_between(0, 7)
    both = pl.col("copyKind") * 1000 + (pl.col("srcKind") + 1) * 10 + pl.col("dstKind") + 1
    return pl.when(in_range & memory).then(both).when(in_range).then(pl.col("copyKind") * 1000)


def _key(kind: int, source: int | None, target: int | None) -> int:
    return kind * 1000 + (0 if source is None else (source + 1) * 10) + (0 if target is None else target + 1)


def listed(column: str, labels: tuple[str, ...], prefix: str = "", suffix: str = "") -> pl.Expr:
    """The label a small number stands for, as a category; ``Unknown`` for any other number."""
    texts = [f"{prefix}{label}{suffix}" for label in labels]
    chosen = pl.col(column).replace_strict(
        list(range(len(texts))), texts, default=f"{prefix}Unknown{suffix}", return_dtype=pl.String
    )
    return chosen.cast(NAME)


def memset_name() -> pl.Expr:
    """Name of a set by the kind of memory, where recorded."""
    return pl.when(pl.col("memKind").is_null()).then(word("Memset")).otherwise(
        listed("memKind", _MEMORIES, "Memset (", ")")
    )


def sync_name() -> pl.Expr:
    """Name of a wait by what it waited for."""
    return listed("syncType", _WAITS)


def devices(database: NsysDatabase) -> pl.DataFrame:
    """Device by ``pid`` and the number it had in that process (``deviceId``), where the export maps them."""
    rows = database.rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
    schema = {"pid": pl.Int64, "deviceId": pl.Int64, "gpu": pl.Int64}
    return typed(rows, schema).drop_nulls().unique(["pid", "deviceId"])


def pid(column: str) -> pl.Expr:
    """The process of a serialised global id: its bits 24 to 47."""
    return (pl.col(column) // (1 << 24)) & 0xFFFFFF


def tid(column: str) -> pl.Expr:
    """The thread of a serialised global id: its lowest 24 bits."""
    return pl.col(column) & 0xFFFFFF
