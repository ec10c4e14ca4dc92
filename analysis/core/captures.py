"""Graph replays and the recording of their capture: which launch of the capture each replayed kernel corresponds to.

A replay does not say which operators its kernels belong to; they were recorded when the graph was captured, in a
separate file. A graph matches a capture if its kernel sequence is a contiguous part of the capture's launches, name by
name, or if both contain every kernel equally often. A capture that does not match is refused.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from .batches import by_number, ids, match, numbered
from .call_tree import HostSlices, Ints, Mask, nearest
from .names.same_function import function_key


class Captured(Struct, frozen=True):
    """The launches of a capture, in order: ``kernels`` numbered by ``function_key``, names as recorded, and per launch
    its row and its operator's row in the capture's host table, -1 for none.
    """

    run: Trace
    kernels: Ints
    names: pl.Series
    rows: Ints
    operator: Ints


class Joined(Struct, frozen=True):
    """Per row of ``run.kernels``: the index into ``captures`` and the launch in it, -1 for none, and the replay it
    belongs to. ``unclear``: several launches, with different shapes, match.
    """

    captures: tuple[Captured, ...]
    capture: Ints
    launch: Ints
    replay: Ints
    unclear: Mask
    facts: dict[str, Any]


def joined(run: Trace, replayed: Mask) -> Joined | None:
    """The captured launch of each replayed activity; None if the run has no captures or replays."""
    if run.captures is None or not replayed.any():
        return None
    keys: dict[str, int] = {}
    read = run.captures()
    captures = tuple(_captured(one, keys) for one in read if isinstance(one, Trace))
    captures = tuple(one for one in captures if len(one.kernels))
    kernels = run.kernels.select(
        pl.col("name").cast(pl.String), pl.col("kind").cast(pl.String), "rank", "correlation", "start_ns",
    ).collect(engine="streaming")
    rows = np.flatnonzero(replayed & kernels["kind"].is_in(["kernel", "collective"]).to_numpy())
    wanted = kernels[pl.Series(rows)]
    names = _keys(wanted["name"], keys)
    replay = np.full(len(replayed), -1, np.int64)
    replay[rows] = numbered(ids(wanted["rank"]), ids(wanted["correlation"])) if len(rows) else 0
    capture, launch = np.full(len(replayed), -1, np.int64), np.full(len(replayed), -1, np.int64)
    unclear = np.zeros(len(replayed), bool)
    starts, cached = ids(wanted["start_ns"]), dict[bytes, list[tuple[int, Ints]]]()
    for some in by_number(replay[rows]):
        order = some[np.argsort(starts[some], kind="stable")]
        graph = names[order]
        if graph.tobytes() not in cached:
            cached[graph.tobytes()] = [(at, places) for at, one in enumerate(captures)
                                      for places in _places(graph, one.kernels)]
        matched = cached[graph.tobytes()]
        if matched:
            at, places = matched[0]
            capture[rows[order]], launch[rows[order]] = at, places
            unclear[rows[order]] = len({_shapes(captures[at], places) for at, places in matched}) > 1
    return Joined(captures, capture, launch, replay, unclear, _facts(read, captures, capture, len(rows)))


def _facts(read: tuple[Trace | str, ...], captures: tuple[Captured, ...], capture: Ints, of: int) -> dict[str, Any]:
    """Facts about the capture that most kernels match, else about the first file."""
    used = Counter(capture[capture >= 0].tolist())
    files = [one if isinstance(one, str) else one.info.source for one in read]
    at = used.most_common(1)[0][0] if used else None
    reason = None
    if at is None:
        named = [one for one in read if isinstance(one, Trace)]
        reason = (
            "its launches match no replayed graph" if captures
            else "it has no launch with a kernel name" if named else "it cannot be read")
    return {
        "file": Path(captures[at].run.info.source if at is not None else files[0]).name,
        "matched": int((capture >= 0).sum()), "of": of, "refused": reason,
    }


def _captured(run: Trace, keys: dict[str, int]) -> Captured:
    """The launches whose kernel name the capture records, and their operators."""
    rows = run.host.with_row_index("row").filter(pl.col("kernel").is_not_null()).select(
        pl.col("row").cast(pl.Int64), pl.col("kernel").cast(pl.String), "start_ns", "rank", "external_id",
    ).sort("start_ns", "row").collect(engine="streaming")
    slices = HostSlices(run)
    with_id = pl.col("kind") == "op", pl.col("external_id").is_not_null()
    operators = run.host.with_row_index("row").filter(*with_id).select(
        pl.col("row").cast(pl.Int64), "rank", "external_id").collect(engine="streaming")
    keys_of = [(ids(some["rank"]), ids(some["external_id"])) for some in (rows, operators)]
    matched = match(*keys_of)
    by_id = operators["row"].to_numpy()[np.maximum(matched, 0)] if len(operators) else matched
    launches = rows["row"].to_numpy()
    around = nearest(slices.parent, launches, slices.of_kind("op"))
    return Captured(run, _keys(rows["kernel"], keys), rows["kernel"], launches, np.where(matched >= 0, by_id, around))


def _keys(names: pl.Series, keys: dict[str, int]) -> Ints:
    """A number per name, equal for all spellings of a function."""
    numbers = {name: keys.setdefault(function_key(name or ""), len(keys)) for name in names.unique()}
    return np.array([numbers[name] for name in names], dtype=np.int64)


def _places(graph: Ints, launches: Ints) -> list[Ints]:
    """The launches that a graph's kernels match, one array per possible match."""
    size = len(graph)
    begins = np.flatnonzero(launches[: max(0, len(launches) - size + 1)] == graph[0])
    runs = [np.arange(at, at + size) for at in begins.tolist() if np.array_equal(launches[at : at + size], graph)]
    if runs or len(launches) != size or not np.array_equal(np.sort(graph), np.sort(launches)):
        return runs
    places = np.empty(size, np.int64)  # several streams: the first of each kernel is the first launched, and so on
    places[np.argsort(graph, kind="stable")] = np.argsort(launches, kind="stable")
    return [places]


def _shapes(captured: Captured, places: Ints) -> bytes:
    """The shapes of the launches' operators: two matches with equal shapes are interchangeable."""
    held: pl.Series = captured.run.remember(
        "captured-shapes", (), lambda: captured.run.host.select(
            pl.col("shapes").to_physical().cast(pl.Int64).fill_null(-1)).collect(engine="streaming")["shapes"])
    rows = captured.operator[places]
    return np.where(rows >= 0, held.to_numpy()[np.maximum(rows, 0)], -1).tobytes()
