"""Which cycles the recorder saw whole: the one rule, for everything that speaks of cycles.

A cycle is told by the number of its device activities beside that of its like: the cycles of its kind and rank. One
without any is not whole while others have some. Where most have the same number, one with fewer is not whole if no
other cycle has that number (lost records are never lost twice in the same number; a pattern repeats). The first and the
last one with records, which a recording cuts, are not whole with clearly fewer. Numbers that differ from cycle to cycle
anyway, as those of a serving engine do, prove nothing in between.
"""

from __future__ import annotations

import polars as pl

LIKE = 0.995
"""Where most cycles hold the same number of device activities, one with fewer than this share may not be whole."""
EDGE = 0.8
"""A first or last cycle with fewer than this share of the usual number is not whole, whatever the others hold."""


def like(frame: pl.DataFrame) -> str:
    """The column that says which cycles are like each other: their kind, or the rhythms of one sequence."""
    sources, kinds = (frame[name].cast(pl.String) for name in ("source", "kind"))
    return "label" if sources.eq("pattern").any() and kinds.eq("step").all() else "kind"


def whole(frame: pl.DataFrame) -> pl.Series:
    """Whether each cycle was recorded whole; ``frame`` has the table's columns and ``records``."""
    same = ["rank", like(frame)]
    counted = pl.col("records").is_not_null()
    # ranks may hold different work, and so are held against themselves; that several lost alike is no chance
    alone = pl.len().over(same[1], "records") == 1
    rows = frame.select(*same, "records", "start_ns", alone=alone).with_row_index("row").filter(counted)
    rows = rows.sort("start_ns", maintain_order=True, nulls_last=True)
    some, place = pl.col("records") > 0, pl.int_range(pl.len())
    rows = rows.with_columns(
        some=some, place=place.over(same), usual=pl.col("records").filter(some).median().over(same),
        seen=some.sum().over(same),
    ).with_columns(
        edge=pl.col("place").filter("some").min().over(same) == pl.col("place"),
        end=pl.col("place").filter("some").max().over(same) == pl.col("place"),
        near=((pl.col("records") - pl.col("usual")).abs() <= (1 - LIKE) * pl.col("usual")) & pl.col("some"),
    ).with_columns(uniform=2 * pl.col("near").sum().over(same) >= pl.col("seen"))
    lost = pl.col("uniform") & (pl.col("records") < LIKE * pl.col("usual")) & pl.col("alone")
    cut = (pl.col("edge") | pl.col("end")) & (pl.col("records") < EDGE * pl.col("usual"))
    unseen = pl.col("seen") == 0  # nobody recorded devices at all
    told = rows.select("row", whole=unseen | (pl.col("some") & ~lost & ~cut))
    # not by an array: a series of one would be the first of most questions, for which polars imports all of numpy.ma
    every = frame.select(row=pl.int_range(pl.len(), dtype=pl.get_index_type()))
    return every.join(told, on="row", how="left", maintain_order="left")["whole"].fill_null(True).alias("complete")
