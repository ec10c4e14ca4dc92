"""Who launched something, in as few words as a narrow panel has room for."""

from __future__ import annotations

import polars as pl

from ...contract.sections import MOST, Section
from ...core import units
from ...core.names.short_name import fit_name
from ...core.text import display

TITLES = ("operator", "from", "count", "total")


def callers_section(found: pl.DataFrame, tail: str = "") -> list[Section]:
    """The operators and the Python lines (else modules) they came from, most time first.

    ``found`` has ``op op_forward module frame count total_ns``; nothing where it has no rows.
    """
    if found.is_empty():
        return []
    ways = found.group_by("op", "op_forward", pl.coalesce("frame", "module").alias("where"), maintain_order=True).agg(
        pl.col("count").sum(), pl.col("total_ns").sum()
    ).sort("total_ns", "count", descending=True, maintain_order=True)
    rows = tuple(
        (units.MISSING if op is None else display(op if forward is None else f"{op} ← {forward}", 60),
         units.MISSING if where is None else fit_name(where, 60), units.count(count), units.duration(total))
        for op, forward, where, count, total in ways.head(MOST).rows()
    )
    capped = f", {MOST} of {units.count(ways.height)} ways" if ways.height > MOST else ""
    return [Section(f"Launched by{tail}{capped}", rows, TITLES)]
