"""The launches of one unit of work in order, and the alignment of two such sequences.

The unit is the middle whole cycle of a run, or the whole recording where the runs have no common cycles. Sequences are
aligned by their longest common subsequence, with Hyyrö's bit-vector algorithm (Bit-parallel LCS-length computation
revisited, 2004): ten thousand launches take some ten milliseconds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import polars as pl
from msgspec import Struct

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.options import Options, Side
from ..cycles import assignment
from ..cycles.detection import find_cycles
from ..cycles.whole import whole_cycles

LONGEST = 12_000
"""Launches of a unit that are aligned, after equal ones at both ends: bit vectors of more take over 20 MB."""
_COLUMNS = ("index", "name", "kind", "device", "grid")


class WorkUnit(Struct, frozen=True):
    """``launches`` of one unit of work, ``index name kind device grid`` by device and in order of launch; ``cycle``:
    whether the unit is a cycle, ``marked``: whether that was recorded. ``mark``: its begin and end (ns) and rank."""

    launches: pl.DataFrame
    cycle: bool
    marked: bool
    mark: tuple[int, int, int | None] | None = None


def unit_of(run: Trace, options: Options, side: Side, kind: str | None) -> WorkUnit | None:
    """The middle whole cycle of that kind (None: the whole recording); of a job that of its first rank. None where the
    run records no order of launches."""
    if run.has("profile") or not run.has("kernels"):
        return None
    every = next((one for one in whole_cycles(run, options, side) if one.kind == kind), None)
    if every is None:
        rows = run.kernels.filter(is_work()).select(*_COLUMNS).sort("device", "index")
        return WorkUnit(rows.collect(engine="streaming"), False, False)
    detected = find_cycles(run, options)
    ranks = every.frame["rank"]
    first = ranks.min()
    own = every.frame if first is None else every.frame.filter(pl.col("rank") == first)
    middle = own.row(own.height // 2, named=True)
    chosen = detected.frame.select(
        (pl.col("cycle") == middle["cycle"]) & pl.col("rank").eq_missing(middle["rank"])).to_series()
    rows = assignment.in_cycles(run, detected.frame, detected.device_time, chosen).filter(
        is_work()).select(*_COLUMNS, "start_ns")
    moments = assignment.launched(run).select("index", "launch_ns")
    frame = rows.join(moments, on="index", how="left").with_columns(
        at=pl.coalesce("launch_ns", "start_ns", "index")).sort("device", "at", "index")
    marked = not detected.guessed and detected.source in ("recorded", "annotation")
    begin, rank = middle["start_ns"], middle["rank"]
    mark = None if begin is None else (begin, begin + middle["dur_ns"], rank)
    return WorkUnit(frame.select(*_COLUMNS).collect(engine="streaming"), True, marked, mark)


def operator_calls(run: Trace, unit: WorkUnit) -> list[str]:
    """The names of the operators that the host called in the unit, in order; without its times the first ones."""
    calls = run.host.filter(pl.col("kind") == "op").select("name", "start_ns", "rank")
    if unit.mark is not None:
        begin, end, rank = unit.mark
        calls = calls.filter(pl.col("start_ns") >= begin, pl.col("start_ns") < end)
        calls = calls if rank is None else calls.filter(pl.col("rank") == rank)
    ordered = calls.sort("start_ns", maintain_order=True).head(LONGEST).select(pl.col("name").cast(pl.String))
    return ordered.collect(engine="streaming")["name"].to_list()


def aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence in both, ascending. Only the first ``LONGEST`` that are not equal at
    both ends are aligned."""
    least = min(len(a), len(b))
    head = next((i for i in range(least) if a[i] != b[i]), least)
    tail = next((i for i in range(least - head) if a[-1 - i] != b[-1 - i]), least - head)
    middle_a, middle_b = a[head : len(a) - tail][:LONGEST], b[head : len(b) - tail][:LONGEST]
    pairs = [(i, i) for i in range(head)]
    pairs += [(head + i, head + j) for i, j in _common(middle_a, middle_b)]
    return pairs + [(len(a) - i, len(b) - i) for i in range(tail, 0, -1)]


def _common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    places: dict[Hashable, int] = {}
    for i, value in enumerate(b):
        places[value] = places.get(value, 0) | 1 << i
    every = (1 << len(b)) - 1
    vector, vectors = every, []
    for value in a:
        same = vector & places.get(value, 0)
        vector = ((vector + same) | (vector - same)) & every
        vectors.append(vector)
    pairs = []
    i, j = len(a), len(b)
    while i and j:
        if vectors[i - 1] >> (j - 1) & 1:
            j -= 1
            continue
        i -= 1
        if i and not vectors[i - 1] >> (j - 1) & 1:
            continue
        j -= 1
        pairs.append((i, j))
    return pairs[::-1]


def gaps(a: int, b: int, pairs: Sequence[tuple[int, int]]) -> list[tuple[range, range]]:
    """The places between aligned ones, of sequences of these lengths: those of both sides, where either has any."""
    result = []
    last = (-1, -1)
    for i, j in [*pairs, (a, b)]:
        if i - last[0] > 1 or j - last[1] > 1:
            result.append((range(last[0] + 1, i), range(last[1] + 1, j)))
        last = i, j
    return result
