"""Prefill and decode: what kind of step of a serving engine each cycle is, told by its kernels.

Engines compile different attention kernels for the two, and their names say so. Some use one kernel for both, under
either name; then the prefill is the cycle whose devices work several times longer, and where none does, a name that
says prefill proves nothing. Training and vision runs have neither and stay 'step'. A kind that the recording itself
names is never overruled.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from ...loaders import schema
from ...loaders.trace import Trace
from . import assignment

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
"""Prefills whose kernels have no name of their own work their device at least this many times longer than decodes."""


def with_phases(run: Trace, cycles: pl.DataFrame, device_time: bool) -> pl.DataFrame:
    """The cycles with ``kind`` prefill or decode where the run serves a language model and names no kinds itself."""
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
    told = set(kinds) - {"step"}
    if len(told) < 2:
        by_time = _by_time(rows["all"].fill_null(0).to_list())
        # without a clear difference those without device records are like the others
        kinds = by_time if "prefill" in by_time else ["decode" if told == {"decode"} else "step"] * len(kinds)
    return cycles.with_columns(pl.Series("kind", kinds, dtype=pl.String).cast(schema.NAME))


def _by_name(decode: int | None, prefill: int | None) -> str:
    if not decode and not prefill:
        return "step"
    return "prefill" if (prefill or 0) >= (decode or 0) else "decode"


def _by_time(work: list[int]) -> list[str]:
    """Prefill for the cycles beyond the widest gap in device time, if that gap is clear; else all are steps."""
    done = np.sort(np.array([busy for busy in work if busy > 0], dtype=np.float64))
    if len(done) < 3:
        return ["step"] * len(work)
    ratios = done[1:] / done[:-1]
    at = int(ratios.argmax())
    if ratios[at] < CLEAR or at + 1 < len(done) / 2:
        return ["step"] * len(work)
    limit = float(done[at])
    return ["step" if busy <= 0 else "decode" if busy <= limit else "prefill" for busy in work]
