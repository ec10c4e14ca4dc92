"""``kernel_details.csv``: one row for each task a core ran and each collective, as Ascend's profiler counts them.

Times are microseconds as text with a tab behind them, from which nanoseconds are taken digit by digit. Columns came and
went over the years; those of the cores' pipes depend on what was measured (``aic_metrics``).
"""

from __future__ import annotations

import polars as pl

from .. import csv_table, schema
from ..kineto.columns import NULL, nanoseconds

_COLLECTIVE = r"(?i)^hcom"
_CUBE = ("aic_mac_ratio", "mac_ratio", "cube_utilization(%)")
"""How busy the matrix units were: a share of the core's cycles, or percent."""


def read(text: bytes) -> pl.DataFrame:
    """A table of text under the names of its columns without blanks; of several called the same, the first."""
    table = csv_table.read(text)
    names: dict[str, str] = {}
    for name in table.columns:
        names.setdefault(name.strip(), name)
    return pl.DataFrame([table[name].alias(plain) for plain, name in names.items()])  # a name may look like a pattern


def rows(text: bytes) -> tuple[pl.DataFrame, int]:
    """The rows as columns of ``kernels`` with ``step``, times absolute (ns), by start; and how many had no time."""
    table = read(text)
    for name in ("Name", "Start Time(us)", "Duration(us)"):
        if name not in table.columns:
            return pl.DataFrame(schema={**schema.polars_schema("kernels"), "step": pl.Int64}), table.height
    derived = table.with_columns(
        start_ns=_times(table["Start Time(us)"]), dur_ns=_times(table["Duration(us)"]),
        tensor=_tensor(table), stream=_integer(table, "Stream ID"), step=_integer(table, "Step Id"),
        device=pl.lit("NPU ") + _integer(table, "Device_id").fill_null(0).cast(pl.String),
        blocks=_integer(table, "Block Dim"),
    )  # fmt: skip
    sound = derived.filter(pl.col("start_ns").is_not_null() & (pl.col("dur_ns") >= 0) & pl.col("Name").is_not_null())
    collective = pl.col("Name").str.contains(_COLLECTIVE) | _is_hccl(table)
    result = sound.sort("start_ns", maintain_order=True).select(
        "start_ns", "dur_ns", pl.col("Name").alias("name"),
        pl.when(collective).then(pl.lit("collective")).otherwise(pl.lit("kernel")).alias("kind"),
        "device", "stream", "tensor", "step",
        pl.when(pl.col("blocks") > 0).then(pl.format("{},1,1", "blocks")).alias("grid"),
    )  # fmt: skip
    return result, table.height - result.height


def _is_hccl(table: pl.DataFrame) -> pl.Expr:
    name = "Accelerator Core"
    return (pl.col(name) == "HCCL").fill_null(False) if name in table.columns else pl.lit(False)


def _times(column: pl.Series) -> pl.Series:
    values = [NULL if text is None else nanoseconds(text.strip()) for text in column.to_list()]
    sound = [None if value == NULL or abs(value) >= 1 << 62 else value for value in values]
    return pl.Series(sound, dtype=pl.Int64)


def _integer(table: pl.DataFrame, name: str) -> pl.Expr:
    if name not in table.columns:
        return pl.lit(None, pl.Int64)
    return pl.col(name).str.strip_chars().cast(pl.Int64, strict=False)


def _tensor(table: pl.DataFrame) -> pl.Expr:
    for name in _CUBE:
        if name in table.columns:
            scale = 100 if name.endswith("(%)") else 1
            share = pl.col(name).str.strip_chars().cast(pl.Float64, strict=False) / scale
            return pl.when(share.is_between(0, 1)).then(share)
    return pl.lit(None, pl.Float64)
