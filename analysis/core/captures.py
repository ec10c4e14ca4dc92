"""Graph replays and the recordings of their capture: which launch of a capture each replayed kernel corresponds to.

A replay does not say which operators its kernels belong to; they were recorded when the graph was captured, in a
separate file. The kernels of one graph launch, in order of start, are joined if their names stand one after the other
in the launches of a capture, and every such place, of any capture, has the same operators. Where two places disagree
neither is known to be the graph's, and the launch is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.errors import Unreadable
from ...loaders.trace import Trace
from .batches import by_number, ids, numbered
from .call_tree import HostSlices, Ints, Mask, nearest
from .names.same_function import function_key

_KERNELS = ("kernel", "collective")
_NAMED = 3  # Refused captures that notes name one by one.
_BASE = 0x9E3779B97F4A7C15  # An odd number, so that it has an inverse modulo 2^64.
_BETWEEN = -1  # Number of a launch of several kernels: no kernel of a graph is one.


class Captured(Struct, frozen=True):
    """The launches of a capture, in order: ``kernels`` numbered by ``function_key``, names as recorded, and per launch
    its row and its operator's row in the capture's host table (-1 for none), numbers of that operator's name and of
    its shapes.
    """

    run: Trace
    kernels: Ints
    names: pl.Series
    rows: Ints
    operator: Ints
    operators: Ints
    shapes: Ints


class Joined(Struct, frozen=True):
    """Per row of ``run.kernels``: the index into ``captures`` and the launch in it, -1 for none, and the replay it
    belongs to. ``named``: the capture has an operator around that launch. ``unclear``: several launches, with different
    shapes, match. ``facts``: ``file matched of refused`` of each capture, in order of file. ``complete``: every graph
    kernel was joined.
    """

    captures: tuple[Captured, ...]
    capture: Ints
    launch: Ints
    replay: Ints
    named: Mask
    unclear: Mask
    facts: list[dict[str, Any]]
    notes: tuple[str, ...]
    complete: bool


class _Place(Struct, frozen=True):
    """Where a graph stands: ``at`` has the captures in which it does (none if operators disagree), ``first`` the
    launch of the first of them with which it begins. ``disagree``: captures whose places differ in operators."""

    at: tuple[int, ...] = ()
    first: int = 0
    unclear: bool = False
    disagree: tuple[int, ...] = ()


def joined(run: Trace) -> Joined | None:
    """The captured launch of each kernel of a graph replay; None if the run has no captures."""
    read = run.captures() if run.captures is not None else ()
    if not read:
        return None
    keys: dict[str, int] = {}
    captures = tuple(_captured(one, keys) for one in read if isinstance(one, Trace))
    activities = run.account().activities
    kernels = run.kernels.select(pl.col("name").cast(pl.String), pl.col("kind").cast(pl.String), "start_ns").collect(
        engine="streaming")
    rows = np.flatnonzero((activities["graph"] & kernels["kind"].is_in(_KERNELS)).to_numpy())
    wanted = kernels[pl.Series(rows)]
    names, starts = _numbers(wanted["name"], keys, function_key), ids(wanted["start_ns"])
    size = kernels.height
    capture, launch = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    replay = np.where(np.isin(np.arange(size), rows), graph_launches(run), -1)
    named, unclear = np.zeros(size, bool), np.zeros(size, bool)
    places: dict[bytes, _Place] = {}
    tally = _Tally(len(captures))
    for some in by_number(replay[rows]):
        order = some[np.argsort(starts[some], kind="stable")]
        if replay[rows[order[0]]] < 0:  # nothing says which launch these belong to
            tally.sizes += [1] * len(order)
            continue
        graph = names[order]
        place = places.get(key := graph.tobytes())
        if place is None:
            place = places[key] = _place(graph, captures)
        tally.add(len(order), place)
        if place.at:
            capture[rows[order]] = place.at[0]
            launches = place.first + np.arange(len(order))
            launch[rows[order]] = launches
            named[rows[order]] = captures[place.at[0]].operator[launches] >= 0
            unclear[rows[order]] = place.unclear
    facts = _facts(read, captures, tally, len(rows))
    complete = len(rows) > 0 and bool((capture[rows] >= 0).all())
    return Joined(captures, capture, launch, replay, named, unclear, facts, _notes(facts, tally, complete), complete)


def facts_without_host(run: Trace) -> list[dict[str, Any]]:
    """The facts about the captures of a run that recorded no calls or no activities: none can be joined."""
    read = run.captures() if run.captures is not None else ()
    return [{"file": _file(one), "matched": 0, "of": 0, "refused": "the recording has no launch of a graph"}
            for one in read]


class _Tally:
    """Counts of launches and kernels, per capture."""

    def __init__(self, captures: int) -> None:
        self.sizes: list[int] = []
        self.matched: list[list[int]] = [[] for _ in range(captures)]
        self.disagree: list[list[int]] = [[] for _ in range(captures)]

    def add(self, size: int, place: _Place) -> None:
        """One graph launch."""
        self.sizes.append(size)
        for lists, some in ((self.matched, place.at), (self.disagree, place.disagree)):
            for at in some:
                lists[at].append(size)


def graph_launches(run: Trace) -> Ints:
    """Per activity a number of the graph launch it belongs to: activities with the same launch call, else, where the
    call is not recorded, with the same correlation id; -1 where no graph replayed it, or nothing tells which."""
    activities = run.account().activities
    result = np.full(activities.height, -1, np.int64)
    rows = np.flatnonzero(activities["graph"].to_numpy())
    if not len(rows):
        return result
    kernels = run.kernels.select("rank", "correlation").collect(engine="streaming")[pl.Series(rows)]
    calls = activities["call"][pl.Series(rows)].fill_null(-1).cast(pl.Int64).to_numpy()
    correlation, without = kernels["correlation"].fill_null(0).to_numpy(), calls < 0
    number = numbered(np.where(without, -1, calls), np.where(without, correlation, -1),
                      np.where(without, ids(kernels["rank"]), -1))
    result[rows] = np.where(without & (correlation == 0), -1, number)
    return result


def _captured(run: Trace, keys: dict[str, int]) -> Captured:
    """The launches of a capture, named by the kernel that ran, else by the one that the call names."""
    account = run.account().activities.select(row=pl.col("call").cast(pl.Int64))
    kernels = run.kernels.select(pl.col("name").cast(pl.String), pl.col("kind").cast(pl.String)).collect(
        engine="streaming")
    ran = account.hstack(kernels).filter(pl.col("kind").is_in(_KERNELS)).drop_nulls("row").group_by("row").agg(
        pl.col("name").first().alias("ran"), pl.len().alias("kernels"))
    rows = run.host.with_row_index("row").select(
        pl.col("row").cast(pl.Int64), pl.col("kernel").cast(pl.String), "start_ns",
        shapes=pl.col("shapes").to_physical().cast(pl.Int64).fill_null(-1),
    ).join(ran.lazy(), on="row", how="left", maintain_order="left").collect(engine="streaming")
    shapes = rows["shapes"].to_numpy()
    rows = rows.filter(pl.col("kernel").is_not_null() | pl.col("ran").is_not_null()).sort("start_ns", "row")
    slices, launches = HostSlices(run), rows["row"].to_numpy()
    operator = nearest(slices.parent, launches, slices.of_kind("op"))
    names = rows.select(pl.coalesce("ran", "kernel").alias("kernel"))["kernel"]
    several = (rows["kernels"].fill_null(1) > 1).to_numpy()
    operators = _numbers(slices.names_of(operator).cast(pl.String), keys, lambda name: "operator " + name)
    return Captured(
        run, np.where(several, _BETWEEN, _numbers(names, keys, function_key)), names, launches, operator, operators,
        np.where(operator >= 0, shapes[np.maximum(operator, 0)] if len(shapes) else -1, -1))


def _numbers(names: pl.Series, keys: dict[str, int], key: Callable[[str], str]) -> Ints:
    """A number per name, equal where the keys are."""
    numbers = {name: keys.setdefault(key(name or ""), len(keys)) for name in names.unique()}
    return np.array([numbers[name] for name in names], dtype=np.int64)


def _place(graph: Ints, captures: Sequence[Captured]) -> _Place:
    """Where a graph's kernels stand in the captures."""
    size = len(graph)
    wanted = _stretches(graph, size)
    first: dict[int, int] = {}
    operators: defaultdict[int, set[int]] = defaultdict(set)
    shapes: set[int] = set()
    for at, one in enumerate(captures):
        begins = np.flatnonzero(_stretches(one.kernels, size) == wanted)
        if len(begins) and np.array_equal(one.kernels[begins[0] : begins[0] + size], graph):
            first[at] = int(begins[0])
            operators[at].update(_stretches(one.operators, size)[begins].tolist())
            shapes.update(_stretches(one.shapes, size)[begins].tolist())
    if len(set().union(*operators.values())) > 1:
        return _Place(disagree=tuple(first))
    return _Place(tuple(first), next(iter(first.values()), 0), len(shapes) > 1)


def _stretches(values: Ints, size: int) -> npt.NDArray[np.uint64]:
    """A number for each stretch of ``size`` values, equal for equal stretches of any array: a polynomial modulo 2^64
    of their mixed values. Two stretches that differ have the same one by a chance of about 2^-60."""
    if not 0 < size <= len(values):
        return np.zeros(0, np.uint64)
    mixed = (values.astype(np.uint64) + np.uint64(2)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(32)
    powers = np.cumprod(np.full(len(values), _BASE, np.uint64))
    inverse = np.cumprod(np.full(len(values), pow(_BASE, -1, 1 << 64), np.uint64))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mixed * powers)))
    stretches: npt.NDArray[np.uint64] = (sums[size:] - sums[:-size]) * inverse[: len(values) - size + 1]
    return stretches


def _file(one: Trace | Unreadable) -> str:
    return Path(one.info.source if isinstance(one, Trace) else one.path).name


def _facts(
    read: tuple[Trace | Unreadable, ...], captures: tuple[Captured, ...], tally: _Tally, of: int
) -> list[dict[str, Any]]:
    """One entry per capture, in order of file."""
    facts, at = [], -1
    for one in read:
        matched = 0
        if isinstance(one, Unreadable):
            refused: str | None = f"it cannot be read: it {one.reason}"
        else:
            at += 1
            matched = sum(tally.matched[at])
            refused = None if matched else _refusal(len(captures[at].kernels), tally, at)
        facts.append({"file": _file(one), "matched": matched, "of": of, "refused": refused})
    return facts


def _refusal(launches: int, tally: _Tally, at: int) -> str:
    """Why no kernel was joined with a capture."""
    if not launches:
        return "it has no launch with a kernel name"
    if not tally.sizes:
        return "the recording has no launch of a graph"
    if tally.disagree[at]:
        return (f"{sum(tally.disagree[at]):,} kernels of {_count(len(tally.disagree[at]), 'graph launch')} fit several "
                "places whose operators differ")
    return f"no run of its {launches:,} kernels is the graph's {_range(tally.sizes)}"


def _range(sizes: Sequence[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "es" if noun.endswith("ch") else "s")


def _notes(facts: list[dict[str, Any]], tally: _Tally, complete: bool) -> tuple[str, ...]:
    """A sentence per capture. Those that do not fit are named only where a graph kernel stays without operator: of a
    folder with a graph per batch size most are for sizes that did not run."""
    notes, matched = [], iter([sizes for sizes in tally.matched if sizes])
    for one in facts:
        if one["matched"]:
            joins = next(matched)
            notes.append(
                f"Capture {one['file']}: {one['matched']:,} of {one['of']:,} graph kernels joined "
                f"({_count(len(joins), 'launch')} of {_range(joins)}).")
    refused = [one for one in facts if one["refused"]] if not complete else []
    notes += [f"Capture {one['file']} is refused: {one['refused']}." for one in refused[:_NAMED]]
    if len(refused) > _NAMED:
        notes.append(f"{_count(len(refused) - _NAMED, 'more capture')} are refused, too.")
    return tuple(notes)
