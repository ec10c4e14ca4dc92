"""Where a program spends its time, as a tree: module → submodule → operator → kernel, summed over all calls of a path.

A path is the chain of module and operator names around a call; an only child with its operator's name counts as the
same call. Backward operators, which run on a thread without any Python line, appear under the module of their forward
operator. A kernel appears under the operator that launched it, else under what encloses its launch call, else, if its
launch was not recorded, at the root. A node's time outside its children is its self time, so that the tree adds up.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core.call_tree import HostSlices, Ints, Mask, nearest, slices_of, sum_below
from ..core.callers import MODULE, callers_of, forward_of, places_of
from ..core.quantiles import dense
from ..idle.attribution import idle_of
from ..table.tree import DEEPEST, PATH
from .tree import is_data_loader, no_operator

MODULE_KIND, OPERATOR_KIND = "module", "operator"
FRAME = {
    "path": pl.String, "name": pl.String, "kind": pl.String, "depth": pl.Int64, "parent": pl.String,
    "count": pl.Int64, "device_self_ns": pl.Int64, "device_total_ns": pl.Int64, "idle_total_ns": pl.Int64,
    "host_self_ns": pl.Int64, "host_total_ns": pl.Int64,
}
"""Columns of a tree: one row per node, in no order; ``parent`` is the path of the parent node, null at the root.

Kernel time is the self time of the node that launched it, so that self times add up to the total. Idle time of a device
is attributed to the activity that ended it.
"""


class _Calls(Struct, frozen=True):
    """The slices that are calls in the tree: rows, name codes, and parent call (``above``, -1 for none). Modules and
    operators with the same name have different codes. ``moved``: backward calls placed under a module of their forward
    call, within which they did not run."""

    row: Ints
    name: Ints
    is_module: Mask
    above: Ints
    moved: Mask


def call_paths(run: Trace, whole: Trace | None = None) -> pl.DataFrame | None:
    """The tree of a run (``FRAME``); None if neither modules nor operators were recorded. For a part of a run, idle
    time is that before its activities in the ``whole``."""
    if not run.has("host"):
        return None
    slices = slices_of(run)
    calls = _calls(run, slices)
    if not len(calls.row):
        return None
    _, first = dense(calls.name)
    names = slices.names_of(calls.row[first]).cast(pl.String).to_list()
    texts = ["" if text is None else str(text).removeprefix(MODULE) for text in names]
    node, parent, name, module = _nodes(calls)
    is_inner, up = calls.above >= 0, np.maximum(calls.above, 0)
    counted = ~is_inner | (node[up] != node)  # not calls merged with their parent
    spans, within = slices.dur[calls.row], is_inner & ~calls.moved
    own = np.maximum(spans - np.bincount(calls.above[within], weights=spans[within], minlength=len(spans)), 0)
    size = len(parent)
    host = np.bincount(node, weights=own.astype(np.int64), minlength=size).astype(np.int64)
    count = np.bincount(node[counted], minlength=size).astype(np.int64)
    kernels = _kernels(run, slices, calls, node, whole or run)
    return _frame(parent, name, module, count, host, kernels, texts)


def _calls(run: Trace, slices: HostSlices) -> _Calls:
    module = places_of(slices).module
    operator = slices.of_kind("op")
    operator &= ~slices.named(lambda text: is_data_loader(text) or no_operator(text), operator)
    wanted = module | operator
    rows = np.flatnonzero(wanted)
    above_row = nearest(slices.parent, slices.parent[rows].astype(np.int64), wanted)
    outermost = np.flatnonzero(above_row < 0)
    forward = forward_of(run, slices, rows[outermost])
    home = nearest(slices.parent, forward, module)  # a backward call belongs where its forward call was made
    above_row[outermost] = home
    number = np.cumsum(wanted) - 1
    above = np.where(above_row >= 0, number[np.maximum(above_row, 0)], -1)
    codes = slices.name.number[rows].astype(np.int64) * 2 + module[rows]
    moved = np.zeros(len(rows), dtype=bool)
    moved[outermost] = home >= 0
    return _Calls(rows, dense(codes)[0].astype(np.int64), module[rows], above, moved)


def _depths(above: Ints) -> Ints:
    """Number of ancestors per call, by pointer doubling."""
    depth, at = (above >= 0).astype(np.int64), above.copy()
    while len(moving := np.flatnonzero(at >= 0)):
        over = at[moving]
        depth[moving] += depth[over]
        at[moving] = at[over]
    return depth


def _nodes(calls: _Calls) -> tuple[Ints, Ints, Ints, Mask]:
    """The node of each call, and per node its parent (-1 for none), its name code and whether it is a module."""
    node = np.full(len(calls.row), -1, dtype=np.int64)
    parents, names, modules = [], [], []
    children = np.bincount(calls.above[calls.above >= 0], minlength=len(calls.row))
    up, is_inner = np.maximum(calls.above, 0), calls.above >= 0
    same = is_inner & (calls.name[up] == calls.name) & ~calls.is_module & (children[up] == 1)
    above_call = calls.above.copy()
    while len(moving := np.flatnonzero((above_call >= 0) & same[above_call])):
        above_call[moving] = above_call[above_call[moving]]
    depth = _depths(above_call)  # without the calls that count as their parent: equal paths are equally deep
    names_at = int(calls.name.max(initial=0)) + 1
    own = np.flatnonzero(~same)
    order = own[np.argsort(depth[own], kind="stable")]
    made = 0
    for some in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        above = np.where(above_call[some] >= 0, node[above_call[some]], -1)
        joins = depth[some] >= DEEPEST
        node[some[joins]] = above[joins]
        rest, above = some[~joins], above[~joins]
        place, first = dense((above + 1) * names_at + calls.name[rest])
        node[rest] = made + place
        parents.append(above[first])
        names.append(calls.name[rest][first])
        modules.append(calls.is_module[rest][first])
        made += len(first)
    node[same] = node[above_call[same]]
    return node, np.concatenate(parents), np.concatenate(names), np.concatenate(modules)


def _kernels(run: Trace, slices: HostSlices, calls: _Calls, node: Ints, whole: Trace) -> pl.DataFrame:
    """Per node (-1: none) and kernel the launches, their duration, and the device idle time before them: ``node name
    kind count total idle``."""
    rows = run.kernels.select("index", "name", "kind", "dur_ns").collect(engine="streaming")
    callers = callers_of(run)
    at = np.full(rows.height, -1, dtype=np.int64)
    if callers is not None and rows.height:
        mine = np.zeros(len(slices.parent), dtype=bool)
        mine[calls.row] = True
        number = np.cumsum(mine) - 1
        base = np.where(callers.operator >= 0, callers.operator, callers.call)
        result = nearest(slices.parent, base, mine)
        at = np.where(result >= 0, node[number[np.maximum(result, 0)]], -1)
    idle = idle_of(whole, whole)
    gaps = pl.LazyFrame(schema={"index": pl.Int64, "dur_ns": pl.Int64}) if idle is None else idle.gaps
    waited = gaps.group_by("index").agg(idle=pl.col("dur_ns").sum()).collect(engine="streaming")
    work = rows.with_columns(pl.Series("node", at)).filter(pl.col("kind") != "sync").join(
        waited.cast({"index": rows.schema["index"]}), on="index", how="left")
    return work.group_by("node", "name", "kind").agg(
        count=pl.len().cast(pl.Int64), total=pl.col("dur_ns").sum(), idle=pl.col("idle").sum()
    ).with_columns(pl.col("name", "kind").cast(pl.String).fill_null(""))


def _frame(
    parent: Ints, name: Ints, module: Mask, count: Ints, host: Ints, kernels: pl.DataFrame,
    texts: list[str],
) -> pl.DataFrame:
    """Calls and kernels as one tree with totals."""
    depth = _depths(parent)
    paths: list[str] = []
    for above, code in zip(parent.tolist(), name.tolist(), strict=True):  # parents come before their children
        paths.append(texts[code] if above < 0 else f"{paths[above]}{PATH}{texts[code]}")
    launched = kernels.filter(pl.col("node") >= 0)
    device, idle = (
        np.bincount(launched["node"].to_numpy(), weights=launched[name].to_numpy(), minlength=len(parent))
        .astype(np.int64) for name in ("total", "idle")
    )
    nodes = pl.DataFrame({
        "path": paths, "name": [texts[code] for code in name.tolist()],
        "kind": np.where(module, MODULE_KIND, OPERATOR_KIND).tolist(), "depth": depth,
        "parent": [None if above < 0 else paths[above] for above in parent.tolist()], "count": count,
        "device_self_ns": device, "device_total_ns": sum_below(parent, depth, device),
        "idle_total_ns": sum_below(parent, depth, idle), "host_self_ns": host,
        "host_total_ns": sum_below(parent, depth, host),
    }, schema_overrides=FRAME)
    above = kernels["node"].to_list()
    leaves = pl.DataFrame({
        "path": [f"{paths[at] + PATH if at >= 0 else ''}{kind}:{one}" for at, kind, one in zip(
            above, kernels["kind"], kernels["name"], strict=True)],
        "name": kernels["name"], "kind": kernels["kind"],
        "depth": [int(depth[at]) + 1 if at >= 0 else 0 for at in above],
        "parent": [paths[at] if at >= 0 else None for at in above], "count": kernels["count"],
        "device_self_ns": [None if at >= 0 else one for at, one in zip(above, kernels["total"], strict=True)],
        "device_total_ns": kernels["total"], "idle_total_ns": kernels["idle"],
    }, schema_overrides={key: FRAME[key] for key in list(FRAME)[:-2]}).with_columns(
        pl.lit(None, pl.Int64).alias("host_self_ns"), pl.lit(None, pl.Int64).alias("host_total_ns"))
    return pl.concat([nodes, leaves.select(list(FRAME))])


def kernels_below(tree: pl.DataFrame, path: str) -> pl.DataFrame:
    """The kernels anywhere below a node, most time first: ``name count total_ns``."""
    kernel = ~pl.col("kind").is_in((MODULE_KIND, OPERATOR_KIND))
    leaves = tree.filter(kernel, pl.col("path").str.starts_with(path + PATH))
    return leaves.group_by("name").agg(pl.col("count").sum(), total_ns=pl.col("device_total_ns").sum()).sort(
        "total_ns", "count", "name", descending=[True, True, False])
