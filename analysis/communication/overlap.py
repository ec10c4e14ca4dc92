"""Which matched activities were one collective at all: those that ran at the same moment, on the common clock.

Order within a group also matches what never met: the recording of one rank may begin in another collective than that of
the next, or two files of one folder may be of different jobs. Waits would then be longer than anything that was
recorded. A member whose ends fit those of the others worse than a collective lasts has no common clock with them.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from .clocks import Clocks


def overlapping(frame: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    """The activities (``instance member start_ns end_ns dur_ns``) with ``instance`` null where they met no other.

    Of a collective those stay that ran at the moment at which most of its members did, as exactly as clocks are known.
    """
    rows = frame.select("instance", "member", "start_ns", "end_ns", "dur_ns").with_row_index("row")
    rows = rows.drop_nulls("instance")
    if rows.is_empty():
        return frame
    offset = pl.lit(pl.Series(np.nan_to_num(clocks.offset))).gather(pl.col("member"))
    doubt = pl.lit(pl.Series(np.nan_to_num(clocks.residual))).gather(pl.col("member"))
    rows = rows.with_columns(
        come=pl.col("start_ns") - offset - doubt, leave=pl.col("end_ns") - offset + doubt, doubt=doubt,
        longest=pl.col("dur_ns").max().over("instance"),
    ).with_columns(clock=pl.col("doubt").first().over("member") <= pl.col("longest").median().over("member"))
    rows = rows.filter("clock")
    apart = rows.filter(pl.col("come").max().over("instance") > pl.col("leave").min().over("instance"))
    met = rows.join(_moments(apart), on="instance", how="left").filter(
        pl.col("moment").is_null() | pl.col("moment").is_between("come", "leave")
    ).filter(pl.len().over("instance") > 1)
    stays = np.zeros(frame.height, dtype=bool)
    stays[met["row"].to_numpy()] = True
    return frame.with_columns(instance=pl.when(pl.Series(stays)).then("instance"))


def _moments(rows: pl.DataFrame) -> pl.DataFrame:
    """``instance moment``: the first moment at which most of the activities of each collective ran."""
    sides = (("come", 1), ("leave", -1))
    edges = pl.concat([rows.select("instance", moment=side, step=pl.lit(step)) for side, step in sides])
    edges = edges.sort("instance", "moment", "step", descending=[False, False, True])
    running = edges.with_columns(running=pl.col("step").cum_sum().over("instance"))
    most = running.filter(pl.col("running") == pl.col("running").max().over("instance"))
    return most.unique("instance", keep="first", maintain_order=True).select("instance", "moment")
