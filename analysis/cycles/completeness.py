"""Which cycles were recorded whole, and which are prefill or decode, judged by their device activities.

A cycle is compared with the cycles of its kind and rank. One without activities is not whole if others have some. Where
most have the same number of activities, one with fewer is not whole if no other has that number: losses do not repeat
in the same number. The first and last one, which a recording may cut, are not whole with clearly fewer.

Serving engines compile different attention kernels for prefill and decode, as their names show. Where one kernel does
both, prefills are the cycles with several times more device time. Kinds that the recording names are kept.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from ...loaders import schema
from ...loaders.trace import Trace
from . import assignment

LIKE = 0.995
"""Where most cycles have the same number of device activities, one with less than this share of it may not be whole."""
EDGE = 0.8
"""A first or last cycle with less than this share of the median number is not whole, whatever the others have."""


def like(frame: pl.DataFrame) -> str:
    """The column by which cycles are comparable: ``kind``, or for patterns ``label``, which names the rhythm."""
    sources, kinds = (frame[name].cast(pl.String) for name in ("source", "kind"))
    return "label" if sources.eq("pattern").any() and kinds.eq("step").all() else "kind"


def whole(frame: pl.DataFrame) -> pl.Series:
    """Whether each cycle was recorded whole; ``frame`` has the table's columns and ``records``."""
    same = ["rank", like(frame)]
    counted = pl.col("records").is_not_null()
    # ranks may do different work, so each is compared with itself; equal counts on several ranks are no lost records
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
    unseen = pl.col("seen") == 0  # no devices were recorded at all
    marks = rows.select("row", whole=unseen | (pl.col("some") & ~lost & ~cut))
    # not by a NumPy array: it would be the first that most queries make a series of, for which polars imports numpy.ma
    every = frame.select(row=pl.int_range(pl.len(), dtype=pl.get_index_type()))
    return every.join(marks, on="row", how="left", maintain_order="left")["whole"].fill_null(True).alias("complete")


_DECODE = re.compile(
    r"BatchDecode|decode_?attention|paged_?attention|flash_?mla|splitkv|_decode_|single_query|fwd_grouped_kernel_stage"
    r"|mmha|xqa", re.IGNORECASE,
)
_PREFILL = re.compile(
    r"BatchPrefill|extend_?attention|context_?attention|prefill|chunked_prefill|varlen_fwd", re.IGNORECASE
)
_SERVING = re.compile(
    r"kv_?cache|reshape_and_cache|paged|unified_attention|store_?cache|rope|rotary|top_?p|top_?k_?renorm", re.IGNORECASE
)
_TRAINING = re.compile(r"backward|bwd|multi_tensor_apply|optimizer|adam", re.IGNORECASE)
CLEAR = 2.5
"""Prefills without kernels of their own take at least this many times the device time of decodes."""


def with_phases(run: Trace, cycles: pl.DataFrame, device_time: bool) -> pl.DataFrame:
    """The cycles with ``kind`` prefill or decode, if the run serves a language model and names no kinds itself."""
    if cycles.height < 2 or not cycles["kind"].cast(pl.String).fill_null("step").eq("step").all():
        return cycles
    names = run.kernels.select(pl.col("name").unique()).collect()["name"]
    decode, prefill, serving, training = (
        [name for name in names.cast(pl.String).drop_nulls() if pattern.search(name)]
        for pattern in (_DECODE, _PREFILL, _SERVING, _TRAINING)
    )
    if training or not (decode or prefill or serving):
        return cycles
    named = pl.col("name").cast(pl.String)
    keys = ["cycle"] if cycles["rank"].null_count() else ["rank", "cycle"]
    work = assignment.in_cycles(run, cycles, device_time).group_by(keys).agg(
        pl.col("dur_ns").sum().alias("all"), pl.col("dur_ns").filter(named.is_in(decode)).sum().alias("decode"),
        pl.col("dur_ns").filter(named.is_in(prefill)).sum().alias("prefill"),
    ).collect(engine="streaming")
    rows = cycles.join(work, on=keys, how="left", maintain_order="left")
    kinds = [_by_name(*row) for row in rows.select("decode", "prefill").rows()]
    marks = set(kinds) - {"step"}
    if len(marks) < 2:
        by_time = _by_time(rows["all"].fill_null(0).to_list())
        # without a clear difference, cycles without device records count as the others do
        kinds = by_time if "prefill" in by_time else ["decode" if marks == {"decode"} else "step"] * len(kinds)
    return cycles.with_columns(pl.Series("kind", kinds, dtype=pl.String).cast(schema.NAME))


def _by_name(decode: int | None, prefill: int | None) -> str:
    if not decode and not prefill:
        return "step"
    return "prefill" if (prefill or 0) >= (decode or 0) else "decode"


def _by_time(work: list[int]) -> list[str]:
    """``prefill`` above the widest gap in device time, ``decode`` below, if the gap is clear; else all are ``step``."""
    done = np.sort(np.array([busy for busy in work if busy > 0], dtype=np.float64))
    if len(done) < 3:
        return ["step"] * len(work)
    ratios = done[1:] / done[:-1]
    at = int(ratios.argmax())
    if ratios[at] < CLEAR or at + 1 < len(done) / 2:
        return ["step"] * len(work)
    limit = float(done[at])
    return ["step" if busy <= 0 else "decode" if busy <= limit else "prefill" for busy in work]
