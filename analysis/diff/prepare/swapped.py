"""Kernels that were only swapped under one operator: another algorithm for the same calls is one row, the operator's.

Where cuDNN or cuBLAS chooses otherwise, kernels of one operator appear, vanish, and are launched more and less often,
while the operator is called as often as before. What its calls take is then compared as one row of kind ``op``; a row's
launches are the operator's calls. A kernel belongs to it that the operator launches nearly always, in both runs.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec.structs import replace

from ....loaders import schema
from ...contract.options import Options
from ..stats.robust_location import Floats, centre
from .renamed import MOSTLY, placed
from .samples import HOST, SWAPPED, Flags, Matched, Side, Work

AS_OFTEN = 0.02  # Launches or calls per cycle that differ by at most this share are as many.
Place = tuple[str, str | None]  # Function or operator, and device.
Key = tuple[int, str, str | None]  # Pair of processes, function and device.


def with_swapped(
    matched: list[Matched], works: tuple[Work, Work], names: dict[Place, str],
    moved: dict[str, str], options: Options,
) -> tuple[list[Matched], dict[Key, Key]]:
    """The pairs with a row for every operator whose kernels were swapped, and the row that each kernel is a part of."""
    changed = [_changed(one) for one in matched]
    kernels = {(name, device) for one, rows in zip(matched, changed, strict=True)
               for name, device in one.functions.filter(pl.Series(rows)).select("function", "device").rows()}
    if not kernels or works[0].run is None or works[1].run is None:
        return matched, {}
    there = {mine: theirs for theirs, mine in moved.items()}
    in_b = {(name, device): (names.get((name, device), name), there.get(device or "", device))
            for name, device in kernels}
    launchers = _launchers(works[0], {key: key for key in kernels}, options), _launchers(works[1], in_b, options)
    made, parts = [], dict[Key, Key]()
    for place, (one, rows) in enumerate(zip(matched, changed, strict=True)):
        groups = _groups(one, rows, launchers)
        made.append(_with_rows(one, groups) if groups else one)
        functions = one.functions["function"]
        for (op, device), members in groups.items():
            parts |= {(place, functions[row], device): (place, op, device) for row in members}
    return made, parts


def _often(side: Side) -> Floats:
    """Launches per cycle of each function, the centre of the cycles it is known in."""
    known = side.seen
    return np.array([float(centre(row[at])) if at.any() else 0.0 for row, at in zip(side.launches, known, strict=True)])


def _changed(one: Matched) -> Flags:
    """The kernels that are launched more or less often in B."""
    a, b = _often(one.a), _often(one.b)
    kernels = (one.functions["kind"] == "kernel").fill_null(False).to_numpy()
    result: Flags = (np.abs(a - b) > AS_OFTEN * np.maximum(a, b)) & one.on_device & kernels
    return result


def _launchers(work: Work, called: dict[Place, Place], options: Options) -> dict[Place, str]:
    """The operator that launches nearly all of each function; ``called`` are the run's own names of them."""
    assert work.run is not None
    rows = placed(work.run, work, options)
    own = {theirs: mine for mine, theirs in called.items()}
    wanted = pl.Series([name for name, _ in own], dtype=schema.NAME)
    rows = rows.filter(pl.col("name").is_in(wanted.implode()))
    if rows.is_empty():
        return {}
    from ...operators.tree import launching_operators  # most pairs, and every cycle profile, get here with no rows

    rows = rows.with_columns(launching_operators(work.run, rows).alias("op"))
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
    a, b = _often(one.a), _often(one.b)
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
    """The pair with a row per operator: the time of its swapped kernels, and its calls as launches."""
    names = pl.DataFrame([(op, device, SWAPPED) for op, device in groups], schema=one.functions.schema, orient="row")
    host = _on_host(one)

    def below(side: Side) -> Side:
        ms = np.stack([side.ms[rows].sum(axis=0) for rows in groups.values()])
        calls = np.stack([side.launches[host[op]] for op, _ in groups])
        return replace(
            side, ms=np.concatenate([side.ms, ms]),
            launches=np.concatenate([side.launches, np.where(np.isnan(ms), np.nan, calls)]),
        )

    return replace(one, functions=pl.concat([one.functions, names]), a=below(one.a), b=below(one.b))
