"""Prepares two runs for comparison: same devices, kinds of cycles and names, collectives without their waits.

The table and the details of a suspect both start here, so that they use the same numbers. Prefill is compared with
prefill: a run that holds more of it is not slower. A replayed graph has no gaps between its kernels that could be
compared with a run that launches them one by one.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ....loaders.trace import Trace
from ...contract.options import SIDES, Options
from ...core import device_pairs as devices
from ...core.captures import graph_launches
from ...core.processes import recorded
from ...core.text import display
from ...cycles.detection import find_cycles
from ..matching import Function, Match, Matches, Profile, matches
from ..same_work import Check, SameWork, alike_functions, same_work
from ..sequence import WorkUnit, unit_of
from . import collectives
from .idle_time import with_idle_time
from .samples import HOST, Matched, Work, function_runs, match
from .swapped import Group, Key, with_swapped

SHOWN = 3  # Most processes named in the notes, per run.


class Prepared(Struct, frozen=True):
    """``names`` maps (A's function, device) to B's name of it where that differs, ``moved`` B's devices to A's names.
    ``works`` have no rows: ``matched`` holds them as matrices, and rows take three times the memory. ``waits`` and
    ``timings`` were taken out of collectives; ``notes`` are sentences on what was done. ``parts`` maps each swapped
    kernel to the operator row it is part of. ``how`` says how functions were matched, ``same`` whether the runs do
    the same work, ``groups`` how each operator row was made."""

    works: tuple[Work, Work]
    matched: list[Matched]
    names: dict[tuple[str, str | None], str]
    moved: dict[str, str]
    waits: collectives.CollectiveWaits
    timings: list[collectives.CollectiveTiming]
    notes: tuple[str, ...]
    parts: dict[Key, Key]
    how: dict[Function, Match]
    same: SameWork
    units: tuple[WorkUnit | None, WorkUnit | None]
    groups: dict[Key, Group]


def prepared(a: Work, b: Work, options: Options) -> Prepared:
    """Match the work of two runs. Raises CannotAnswer for an unknown pid."""
    a, b, moved = _on_one_device(a, b)
    a, b, kind, excluded = same_kind(a, b)
    profiles = profiles_of(a), profiles_of(b)
    units = _units((a, b), kind, options)
    profiles = _placed(profiles[0], units[0], {}), _placed(profiles[1], units[1], moved)
    matching = matches(*profiles, units, moved, (a.run, b.run))
    works, names = _under_one_name(a, b, matching)
    runs = a.run, b.run
    assert runs[0] is not None and runs[1] is not None
    pairs = match(*works, options)
    tables = runs[0].has("profile") or runs[1].has("profile")  # without an order of launches
    same = same_work((runs[0], runs[1]), units, matching.common, _alike(pairs) if tables else None)
    alone = [] if options.pid_a is not None or options.pid_b is not None else _alone(pairs, works)
    matched, waits, timings = collectives.split(pairs)
    matched, parts, groups = with_swapped(matched, works, names, moved, options, units)
    matched = with_idle_time(matched, works, moved, options)
    works = replace(works[0], rows=works[0].rows.clear()), replace(works[1], rows=works[1].rows.clear())
    notes = (*devices.note(moved), *excluded, *alone)
    return Prepared(works, matched, names, moved, waits, timings, notes, parts, matching.how, same, units, groups)


def _units(works: tuple[Work, Work], kind: str | None, options: Options) -> tuple[WorkUnit | None, WorkUnit | None]:
    """The unit of work of each run: its middle cycle where both have cycles of one anchor (equal up to its numbers),
    else the recording."""
    runs = [work.run for work in works]
    anchors = {re.sub(r"\d+", "#", find_cycles(run, options).anchor or "") for run in runs if run is not None}
    of_cycle = kind if len(anchors) == 1 else None
    units = [None if run is None else unit_of(run, options, side, of_cycle)
             for run, side in zip(runs, SIDES, strict=True)]
    return units[0], units[1]


def profiles_of(work: Work) -> dict[Function, Profile]:
    """What is known of each function: launches per cycle of the run and time of one, in the cycles recorded whole."""
    whole = work.rows.filter(~pl.col("cycle").is_in(list(work.incomplete))) if work.incomplete else work.rows
    rows = work.rows if whole.is_empty() else whole
    if rows.is_empty():
        return {}
    runs = function_runs(rows)
    begin = np.cumsum(runs["length"].to_numpy()) - runs["length"].to_numpy()
    instances, spent = (np.add.reduceat(rows[name].fill_null(least).to_numpy(), begin)
                        for name, least in (("instances", 1), ("dur_ns", 0)))
    sums = runs.select(pl.col("function", "device", "kind").cast(pl.String)).with_columns(
        n=pl.Series(instances), ns=pl.Series(spent)).group_by("function", "device", "kind", maintain_order=True).sum()
    cycles = rows["cycle"].n_unique()
    return {(name, device, kind): Profile(n / cycles, ns / 1e3 / max(n, 1))
            for name, device, kind, n, ns in sums.rows()}


def _placed(profiles: dict[Function, Profile], unit: WorkUnit | None, moved: dict[str, str]) -> dict[Function, Profile]:
    """The profiles with the grid and the place of the first launch in the unit."""
    if unit is None:
        return profiles
    first = unit.launches.with_row_index("place").group_by("name", "device", "kind").agg(
        pl.col("place").min(), pl.col("grid").first()).select(
        pl.col("name", "device", "kind", "grid").cast(pl.String), "place")
    places = {(str(name), moved.get(device, device), kind): (place, grid)
              for name, device, kind, grid, place in first.rows()}
    return {key: one if key not in places else replace(one, place=places[key][0], grid=places[key][1])
            for key, one in profiles.items()}


def _alike(matched: list[Matched]) -> Check:
    """The evidence of the functions of two cycle profiles: those of the compared processes."""
    sides: tuple[dict[Function, float], dict[Function, float]] = {}, {}
    for at, one in enumerate(matched):
        for side, samples in zip(sides, (one.a, one.b), strict=True):
            known = np.where(samples.seen, samples.launches, 0.0).sum(axis=1) / np.maximum(samples.seen.sum(axis=1), 1)
            names = one.functions.select("function", "device", "kind").rows()
            side.update({(f"{at} {name}", device, kind): float(count) for (name, device, kind), count, on in zip(
                names, known, one.on_device, strict=True) if on and count})
    return alike_functions(sides[0], sides[1], True)


def _alone(matched: list[Matched], works: tuple[Work, Work]) -> list[str]:
    """Notes on processes without a counterpart in the other run, which are not compared; of jobs, in common ranks."""
    result = []
    pairs, ranks = [one.pair for one in matched], {one.pair.rank for one in matched}
    for work, name, other, used in zip(
            works, "AB", "BA", ({pair.a for pair in pairs}, {pair.b for pair in pairs}), strict=True):
        elsewhere = {called for called, process in work.processes.items() if {None, process.rank}.isdisjoint(ranks)}
        left = work.rows.filter(~pl.col("pid").is_in(list(used | elsewhere))).group_by("pid").agg(
            pl.col("device").cast(pl.String).unique().sort()) if used else work.rows.clear()
        for pid, where in left.select("pid", "device").sort("pid").rows()[:SHOWN]:
            ran = ", ".join(device for device in where if device not in (None, HOST)) or "no device"
            process = f"Process {recorded(work.processes, pid)} of {name}"
            result.append(f"{process} ({ran}) has no counterpart in {other} and is not compared.")
        if left.height > SHOWN:
            result.append(f"{left.height - SHOWN} more processes of {name} have none in {other}.")
    return result


def _on_one_device(a: Work, b: Work) -> tuple[Work, Work, dict[str, str]]:
    """B under the names of A's devices if the runs used different ones, and these renames (B's name → A's)."""
    pairs = devices.mapped(a.rows["device"].unique(), b.rows["device"].unique())
    if not pairs:
        return a, b, pairs
    under = devices.renamed_devices(pairs)
    return a, replace(b, rows=b.rows.with_columns(under), metrics=b.metrics.with_columns(under)), pairs


def _under_one_name(
    a: Work, b: Work, matching: Matches
) -> tuple[tuple[Work, Work], dict[tuple[str, str | None], str]]:
    """B's functions under the names they are compared under; and (that name, device) → B's name."""
    pairs = matching.names
    if not pairs:
        return (a, b), {}
    table = pl.DataFrame(
        [(now, device, was) for (now, device), was in pairs.items()],
        schema={"function": pl.String, "device": pl.String, "was": pl.String}, orient="row",
    )

    def under(frame: pl.DataFrame) -> pl.DataFrame:
        function = frame.schema["function"]
        renames = table.cast({"function": function, "device": frame.schema["device"], "was": function})
        joined = frame.join(renames, on=["function", "device"], how="left", nulls_equal=True, maintain_order="left")
        return joined.with_columns(pl.coalesce("was", "function").alias("function")).drop("was")

    back = {(was, device): now for (now, device), was in pairs.items()}
    return (a, replace(b, rows=under(b.rows), metrics=under(b.metrics))), back


MOSTLY = 0.5  # A run with at least this share of kernel time in graph launches counts as replaying graphs.


class Replays(Struct, frozen=True):
    """The share of a run's kernel time in graph launches, and the number of graph launches."""

    share: float
    count: int


def replays(run: Trace) -> Replays:
    """The graph launches of a run: kernels with the same launch are one replay. A run without kernels has none."""
    if not run.has("kernels"):
        return Replays(0.0, 0)
    work = run.kernels.select("rank", "device", "dur_ns", "kind").collect(engine="streaming").with_columns(
        launch=pl.Series(graph_launches(run)), graph=run.account().activities["graph"],
    ).filter(pl.col("kind").is_in(["kernel", "collective"]))
    result = work.select(
        (pl.col("dur_ns").filter("graph").sum() / pl.col("dur_ns").sum()).alias("share"),
        pl.struct("rank", "device", "launch").filter("graph").n_unique().alias("count"),
    )
    return Replays(float(result["share"][0] or 0.0), int(result["count"][0]))


def replay_reasons(both: tuple[Replays, Replays]) -> list[str]:
    """One sentence where one run replays graphs and the other launches its kernels one by one."""
    a, b = (side.share >= MOSTLY for side in both)
    if a == b:
        return []
    return [f"{'A' if a else 'B'} replays graphs, {'B' if a else 'A'} launches its kernels one by one"]


def replay_notes(both: tuple[Replays, Replays]) -> list[str]:
    """A note for each run that holds a single captured graph replay: idle time cannot be measured from it."""
    return [
        f"{name} holds one captured graph replay: idle time cannot be measured from it."
        for name, side in zip("AB", both, strict=True) if side.share >= MOSTLY and side.count == 1
    ]


def caveats(runs: tuple[Trace, Trace], options: Options) -> list[str]:
    """What may weaken a comparison: other devices, cycles from another source or of other kinds, replayed graphs."""
    names = [sorted({device.name for device in run.info.devices if device.name}) for run in runs]
    reasons = []
    if names[0] and names[1] and names[0] != names[1]:
        a, b = (", ".join(display(name, 40) for name in side) for side in names)
        reasons.append(f"different devices: {a} → {b}")
    return [*reasons, *_different_cycles(runs, options), *replay_reasons((replays(runs[0]), replays(runs[1])))]


def _different_cycles(runs: tuple[Trace, Trace], options: Options) -> list[str]:
    a, b = (find_cycles(run, options) for run in runs)
    reasons: list[str] = []
    if a.frame.is_empty() or b.frame.is_empty():
        return reasons
    if a.source != b.source:
        reasons.append(f"cycles of A are taken from {_source(a.source)}, of B from {_source(b.source)}")
    if a.anchor and b.anchor and a.anchor != b.anchor:
        reasons.append(f"the cycle of A is {display(a.anchor, 64)}, of B {display(b.anchor, 64)}")
    kinds = [set(side.frame["kind"].cast(pl.String).drop_nulls().unique()) for side in (a, b)]
    for here, there, name in ((kinds[0], kinds[1], "A"), (kinds[1], kinds[0], "B")):
        reasons += [f"only {name} has {kind} cycles" for kind in sorted(here - there)]
    return reasons


def _source(source: str | None) -> str:
    return {"recorded": "recorded steps", "annotation": "annotations", "anchor": "a host function",
            "execution": "executions of a compiled program",
            "pattern": "a repeating pattern of kernels"}.get(source or "", "another source")


def same_kind(a: Work, b: Work) -> tuple[Work, Work, str | None, list[str]]:
    """Both runs restricted to the kind of cycle, of those both have, that takes most time; that kind, and a note on
    what was left out. Runs whose cycles are all of the same kind are returned unchanged."""
    spans = [dict(work.rows.select("cycle", "cycle_ns").unique("cycle").rows()) for work in (a, b)]
    kinds = [Counter(work.kinds[c] for c in of if c in work.kinds) for work, of in zip((a, b), spans, strict=True)]
    both = sorted(set(kinds[0]) & set(kinds[1]))
    if len(set(kinds[0]) | set(kinds[1])) < 2 or not both:
        return a, b, both[0] if both else "step", []
    numbers = {kind: [[c for c, of in work.kinds.items() if of == kind] for work in (a, b)] for kind in both}
    chosen = max(both, key=lambda kind: sum(
        of.get(cycle) or 0 for of, some in zip(spans, numbers[kind], strict=True) for cycle in some))
    left = sum(sum(side.values()) - side[chosen] for side in kinds)
    note = f"Only {chosen} cycles are compared with each other; {left} of other kinds are left out."
    a, b = (
        replace(work, rows=work.rows.filter(own), metrics=work.metrics.filter(own))
        for work, some in zip((a, b), numbers[chosen], strict=True) for own in [pl.col("cycle").is_in(some)]
    )
    return a, b, chosen, [note]
