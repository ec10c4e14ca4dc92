"""Functions that were only renamed between two versions, and kernels that were only swapped under one operator.

A function that only A has and one that only B has, on the same device and of the same kind, are paired if the same
operator launches them equally often at the same place in the cycle; else if their names are equal without template
arguments, addresses and tile sizes. Neither may have another candidate: a wrong pair would hide a new and a gone one.

When cuDNN or cuBLAS picks other kernels, kernels of one operator appear, vanish or change their launch counts, while
the operator is called as often as before. These kernels are then compared as one row of kind ``op`` whose launches are
the operator's calls. A kernel belongs to that row if the operator makes nearly all of its launches.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec.structs import replace

from ....loaders import schema
from ....loaders.trace import Trace
from ...contract.options import Options
from ...core.names.same_function import Function, same_functions
from ...cycles import assignment
from ...cycles.detection import find_cycles
from ..stats.robust_location import Floats, centre
from .samples import HOST, SWAPPED, Flags, Matched, RunSamples, Work, function_runs


def renamed(a: Work, b: Work, moved: dict[str, str], options: Options) -> dict[tuple[str, str | None], str]:
    """(name in B, device) → name in A of the renamed functions; ``moved`` maps B's devices to A's names."""
    keys = ["function", "device", "kind"]
    only_a, only_b = _alone(a.rows, b.rows), _alone(b.rows, a.rows)
    pairs = by_launch(a, b, only_a.select(keys), only_b.select(keys), moved, options)
    taken = {(was, device) for (_, device), was in pairs.items()}
    left_a = {key: often for key, often in _often(only_a).items() if (key[0], key[1][0]) not in taken}
    left_b = {key: often for key, often in _often(only_b).items() if (key[0], key[1][0]) not in pairs}
    return pairs | {(now, where[0]): was for (now, where), was in same_functions(left_a, left_b).items()}


def _often(alone: pl.DataFrame) -> dict[Function, float]:
    """Launches per cycle by function, device and kind."""
    return {
        (function, (device, kind)): instances / max(cycles, 1)
        for function, device, kind, instances, cycles in alone.rows()
    }


def _alone(own: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
    """``function device kind instances cycles`` of the functions that only ``mine`` has. They are found before cycles
    are counted: counting for all functions took 150 MB for a million rows."""
    same = ["function", "device"]
    here, there = (function_runs(rows).select(same).unique() for rows in (own, theirs))
    alone = here.join(there, on=same, how="anti", nulls_equal=True)
    rows = own.clear() if alone.is_empty() else own.join(alone, on=same, how="semi", nulls_equal=True)
    counted = rows.group_by(*same, "kind", maintain_order=True).agg(
        pl.col("instances").sum(), pl.col("cycle").n_unique().alias("cycles")
    )
    return counted.with_columns(pl.col(*same, "kind").cast(pl.String))


MOSTLY = 0.9  # Share of a function's launches one operator must make to count as its launcher.
OFTEN = 0.1  # Launches per cycle agree if they differ by at most this share...
NEAR = 0.05  # ...and places if they differ by at most this share of the cycle's launches.
CLEAR = 2.0  # Another candidate within this multiple of these distances makes a pair ambiguous.
_PLACES = {"early": 0.1, "middle": 0.5, "late": 0.9}
_KEYS = ["function", "device", "kind", "op"]
_Pairs = dict[tuple[str, str | None], str]


def by_launch(
    a: Work, b: Work, only_a: pl.DataFrame, only_b: pl.DataFrame, moved: dict[str, str], options: Options
) -> _Pairs:
    """(name in B, device) → name in A where operator, launches per cycle and place agree with one candidate only.
    ``only_a`` and ``only_b`` are the unpaired ``function device kind``, ``moved`` maps B's devices to A's names."""
    on_device = pl.col("device") != "Host"
    sides = only_a.filter(on_device), only_b.filter(on_device)
    if any(side.is_empty() for side in sides) or a.run is None or b.run is None:
        return {}
    there = {own: theirs for theirs, own in moved.items()}
    known_a = _launched(a.run, a, sides[0], {}, options)
    known_b = _launched(b.run, b, sides[1], there, options) if not known_a.is_empty() else known_a
    both = known_a.join(known_b, on=["device", "kind", "op"], suffix="_b")
    rarer = (pl.col("per_cycle") - pl.col("per_cycle_b")).abs() / pl.max_horizontal("per_cycle", "per_cycle_b")
    place_gaps = [(pl.col(place) - pl.col(f"{place}_b")).abs() for place in _PLACES]
    distance = pl.max_horizontal(rarer / OFTEN, *(far / NEAR for far in place_gaps)).alias("distance")
    near = both.select("function", "function_b", "device", distance).filter(pl.col("distance") <= CLEAR)
    alone = (pl.len().over("function", "device") == 1) & (pl.len().over("function_b", "device") == 1)
    clear = near.filter(alone & (pl.col("distance") <= 1))
    return {(now, device): was for was, now, device in clear.select("function", "function_b", "device").rows()}


def _launched(run: Trace, work: Work, functions: pl.DataFrame, there: dict[str, str], options: Options) -> pl.DataFrame:
    """``function device kind op per_cycle early middle late`` of the functions with one launching operator. A place is
    0 to 1 in the order in which a device ran the cycle's launches. ``there`` maps device names in ``functions`` to the
    run's own where they differ."""
    rows = placed(run, work, options)
    wanted = functions.select(
        pl.col("function").cast(schema.NAME).alias("name"), "kind", pl.col("device").alias("called"),
        pl.col("device").replace(there).cast(schema.NAME).alias("device"),
    )
    cycles = rows.group_by("device").agg(pl.struct("cycle", "rank").n_unique().alias("cycles"))
    own = rows.join(cycles, on="device").join(wanted, on=["name", "device"]).select(
        pl.col("name").alias("function"), pl.col("called").alias("device"),
        "kind", "index", "place", "cycles",
    )
    if own.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(_KEYS, pl.String) | dict.fromkeys(["per_cycle", *_PLACES], pl.Float64))
    from ...core.callers import launchers

    own = own.with_columns(launchers(run, own["index"])["op"])
    whole = pl.len().over("function", "device")
    counted = own.with_columns(whole.alias("launches")).drop_nulls("op").group_by(_KEYS).agg(
        (pl.len() / pl.col("launches").first()).alias("share"),
        (pl.col("launches").first() / pl.col("cycles").first()).alias("per_cycle"),
        *(pl.col("place").quantile(at).alias(name) for name, at in _PLACES.items()),
    )
    mostly = counted.filter(pl.col("share") >= MOSTLY).drop("share")
    return mostly.with_columns(pl.col("function", "op").cast(pl.String))  # last, on few rows: kernel names are long


def placed(run: Trace, work: Work, options: Options) -> pl.DataFrame:
    """Every launch in a whole compared cycle, with its ``place``; empty without operators or timestamps."""
    columns = ("cycle", "rank", "device", "name", "index", "start_ns")
    cycles = find_cycles(run, options)
    if run.has("profile") or not run.has("host.kind=op") or cycles.frame.is_empty():
        none = {"cycle": pl.lit(None, pl.Int64), "place": pl.lit(None, pl.Float64)}
        return run.kernels.head(0).with_columns(**none).collect()
    numbers = work.rows["cycle"].unique()
    left = numbers.filter(~numbers.is_in(list(work.warm_up | work.incomplete)))
    chosen = left if len(left) else numbers
    launches = assignment.in_cycles(run, cycles.frame, cycles.device_time)
    rows = launches.filter((pl.col("kind") != "sync") & pl.col("cycle").is_in(chosen.implode())).select(columns)
    of = ("cycle", "rank", "device")
    order = rows.drop_nulls("start_ns").sort("start_ns", maintain_order=True).collect(engine="streaming")
    return order.with_columns(((pl.int_range(pl.len()) + 0.5) / pl.len()).over(of).alias("place"))


AS_OFTEN = 0.02  # Launches or calls per cycle that differ by at most this share count as equal.
Place = tuple[str, str | None]  # Function or operator, and device.
Key = tuple[int, str, str | None]  # Index of the pair of processes, function and device.


def with_swapped(
    matched: list[Matched], works: tuple[Work, Work], names: dict[Place, str],
    moved: dict[str, str], options: Options,
) -> tuple[list[Matched], dict[Key, Key]]:
    """The pairs with a row added per operator whose kernels were swapped; and each such kernel's row → that row."""
    changed = [_changed(one) for one in matched]
    kernels = {(name, device) for one, rows in zip(matched, changed, strict=True)
               for name, device in one.functions.filter(pl.Series(rows)).select("function", "device").rows()}
    if not kernels or works[0].run is None or works[1].run is None:
        return matched, {}
    there = {own: theirs for theirs, own in moved.items()}
    in_b = {(name, device): (names.get((name, device), name), there.get(device or "", device))
            for name, device in kernels}
    launchers = _launchers(works[0], {key: key for key in kernels}, options), _launchers(works[1], in_b, options)
    result, parts = [], dict[Key, Key]()
    for place, (one, rows) in enumerate(zip(matched, changed, strict=True)):
        groups = _groups(one, rows, launchers)
        result.append(_with_rows(one, groups) if groups else one)
        functions = one.functions["function"]
        for (op, device), members in groups.items():
            parts |= {(place, functions[row], device): (place, op, device) for row in members}
    return result, parts


def _launches_per_cycle(side: RunSamples) -> Floats:
    """Launches per cycle of each function: the centre over the cycles in which they are known."""
    seen = side.seen
    return np.array([float(centre(row[at])) if at.any() else 0.0 for row, at in zip(side.launches, seen, strict=True)])


def _changed(one: Matched) -> Flags:
    """The kernels that are launched more or less often in B."""
    a, b = _launches_per_cycle(one.a), _launches_per_cycle(one.b)
    kernels = (one.functions["kind"] == "kernel").fill_null(False).to_numpy()
    result: Flags = (np.abs(a - b) > AS_OFTEN * np.maximum(a, b)) & one.on_device & kernels
    return result


def _launchers(work: Work, called: dict[Place, Place], options: Options) -> dict[Place, str]:
    """The operator that makes nearly all launches of a function; ``called`` maps functions to the run's own names."""
    assert work.run is not None
    rows = placed(work.run, work, options)
    own = {theirs: ours for ours, theirs in called.items()}
    wanted = pl.Series([name for name, _ in own], dtype=schema.NAME)
    rows = rows.filter(pl.col("name").is_in(wanted.implode()))
    if rows.is_empty():
        return {}
    from ...core.callers import launchers  # imported late: most pairs, and all cycle profiles, return above

    rows = rows.with_columns(launchers(work.run, rows["index"])["op"])
    counted = rows.group_by(pl.col("name", "device", "op").cast(pl.String)).len()
    share = pl.col("len") / pl.col("len").sum().over("name", "device")
    mostly = counted.filter(share >= MOSTLY).drop_nulls("op").select("name", "device", "op")
    return {own[name, device]: op for name, device, op in mostly.rows() if (name, device) in own}


def _groups(one: Matched, changed: Flags, launchers: tuple[dict[Place, str], ...]) -> dict[Place, list[int]]:
    """The rows of swapped kernels by operator and device."""
    result: dict[Place, list[int]] = {}
    names = one.functions.select("function", "device").rows()
    for row in np.flatnonzero(changed).tolist():
        ops = {by_kernel[names[row]] for by_kernel in launchers if names[row] in by_kernel}
        if len(ops) == 1:
            result.setdefault((ops.pop(), names[row][1]), []).append(row)
    a, b = _launches_per_cycle(one.a), _launches_per_cycle(one.b)
    calls = _on_host(one)

    def swapped(op: str, rows: list[int]) -> bool:
        if op not in calls:
            return False
        called = a[calls[op]], b[calls[op]]
        as_often = min(called) > 0 and abs(called[0] - called[1]) <= AS_OFTEN * max(called)
        return as_often and bool((b[rows] > a[rows]).any() and (b[rows] < a[rows]).any())

    return {(op, device): rows for (op, device), rows in result.items() if swapped(op, rows)}


def _on_host(one: Matched) -> dict[str, int]:
    """The row of each operator on the host."""
    rows = enumerate(one.functions.rows())
    return {name: row for row, (name, device, kind) in rows if device == HOST and kind == SWAPPED}


def _with_rows(one: Matched, groups: dict[Place, list[int]]) -> Matched:
    """The pair with a row added per operator: the time of its swapped kernels, with its calls as launches."""
    names = pl.DataFrame([(op, device, SWAPPED) for op, device in groups], schema=one.functions.schema, orient="row")
    host = _on_host(one)

    def below(side: RunSamples) -> RunSamples:
        ms = np.stack([side.ms[rows].sum(axis=0) for rows in groups.values()])
        calls = np.stack([side.launches[host[op]] for op, _ in groups])
        return replace(
            side, ms=np.concatenate([side.ms, ms]),
            launches=np.concatenate([side.launches, np.where(np.isnan(ms), np.nan, calls)]),
        )

    return replace(one, functions=pl.concat([one.functions, names]), a=below(one.a), b=below(one.b))
