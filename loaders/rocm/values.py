"""What the columns and calls of AMD's files are: times, sizes, ids or counters; kinds of host calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import polars as pl

from ..recording.faults import Faults
from ..recording.values import Kind

_MARK = re.compile(r"MARKER|ROCTX|NVTX", re.IGNORECASE)
_DRIVER = re.compile(r"HSA|DRIVER|KFD|SCRATCH|MEMORY_ALLOCATION", re.IGNORECASE)
_RUNTIME = re.compile(r"HIP|RCCL|NCCL|ROCDECODE|ROCJPEG|RUNTIME|OMPT|ROCBLAS|MIOPEN", re.IGNORECASE)


def kinds(ints: Sequence[str], reals: Sequence[str] = ()) -> dict[str, Kind]:
    """Column → what it holds: times, sizes, or else ids and counts, and counters."""
    return {
        **{name: "total" if _TOTAL.search(name) else "ns" if _TIME.search(name) else "bytes" if _SIZE.search(name)
           else "count" if name == "calls" else "id" for name in ints},
        **{name: "mean" if _TOTAL.search(name) else "real" for name in reals},
    }


_TIME = re.compile(r"_timestamp$|^(?:begin|end|dispatch|complete|duration)ns$|^start$|^end$")
_TOTAL = re.compile(r"^(?:total|average|min|max)\w*ns$")
_SIZE = re.compile(r"^size$|^bytes$|_bytes$|^allocation_size$")


def kind_of_domain(domain: str) -> str:
    """The kind of host slice for calls of a domain (HIP_RUNTIME_API, MARKER_CORE_API, …).

    'driver' for HSA and lower layers, 'runtime' for HIP and libraries, 'annotation' for markers and all others.
    """
    if _DRIVER.search(domain) and not _MARK.search(domain):
        return "driver"
    return "runtime" if _RUNTIME.search(domain) and not _MARK.search(domain) else "annotation"


def fraction(value: pl.Expr, name: str) -> pl.Expr:
    """A fraction of peak; null if impossible: negative, or above 1.5."""
    return pl.when((value >= 0) & (value <= 1.5)).then(value).alias(name)


def first_passes(rows: pl.DataFrame, own: Sequence[str], faults: Faults) -> pl.DataFrame | None:
    """The dispatches in order of their ``start``, if each was replayed for other counters, with ``first`` (whether it
    is the first of its identity ``own``) and the ``start`` of that one; None for an ordinary recording. Said once."""
    rows = rows.drop_nulls(own).sort("start", maintain_order=True, nulls_last=True)
    counts = rows.group_by(own).len()["len"]
    if rows.is_empty() or counts.min() == 1:
        return None
    sentence = (f"{counts.to_list()[0]} passes: dispatches replayed for other counters are counted once, with the "
                "times of the first pass")
    faults.sentences += [sentence] if sentence not in faults.sentences else []
    return rows.with_columns(first=pl.int_range(pl.len()).over(own) == 0, start=pl.col("start").first().over(own))


_APART = 10  # Recordings further apart than this many of their lengths are not of one run.


def apart(spans: Sequence[tuple[str, int, int]]) -> list[str]:
    """The names of recordings made one after another, in order of time, of spans (name, first, last time); none if they
    are of one run."""
    ordered = sorted(spans, key=lambda span: span[1])
    length = max((last - first for _, first, last in ordered), default=0)
    far = all(later[1] - earlier[2] > _APART * length for earlier, later in pairwise(ordered))
    return [name for name, *_ in ordered] if far and len(ordered) > 1 else []
