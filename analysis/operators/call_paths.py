"""Where a program spends its time, as a tree: module → submodule → operator → kernel, summed over all calls of a path.

A path is the chain of module and operator names around a call; an only child with its operator's name counts as the
same call. Backward operators, which run on a thread without any Python line, appear under the module of their forward
operator. A kernel appears under the operator that launched it, else under what encloses its launch call, else, if its
launch was not recorded, at the root. A kernel of a graph replay appears where the graph's capture launched it, if that
was recorded. A replay counts as one call of each node and has no host time, because nothing of it ran on the host. A
node's time outside its children is its self time, so that the tree adds up.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..core.call_tree import HostSlices, Ints, Mask, nearest, slices_of, sum_below
from ..core.callers import MODULE, callers_of, forward_of, places_of
from ..core.captures import Joined
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


class _Paths(Struct, frozen=True):
    """The calls of a recording and the nodes of their paths: the ``node`` of each call, whether it is ``counted`` (not
    merged with its parent), and per node its parent (-1 for none), its name and whether it is a module."""

    slices: HostSlices
    calls: _Calls
    node: Ints
    counted: Mask
    parent: Ints
    names: list[str]
    is_module: Mask

    def calls_around(self, rows: Ints) -> Ints:
        """The innermost call around each host row (-1 for none), which may be the row itself; -1 for none."""
        is_call = np.zeros(len(self.slices.parent), dtype=bool)
        is_call[self.calls.row] = True
        number = np.cumsum(is_call) - 1
        result = nearest(self.slices.parent, rows, is_call)
        return np.where(result >= 0, number[np.maximum(result, 0)] if len(number) else -1, -1)

    def nodes_of(self, calls: Ints) -> Ints:
        """The node of each call, -1 for -1."""
        return np.where(calls >= 0, self.node[np.maximum(calls, 0)] if len(self.node) else -1, -1)


def call_paths(run: Trace, whole: Trace | None = None) -> pl.DataFrame | None:
    """The tree of a run (``FRAME``); None if neither modules nor operators were recorded. For a part of a run, idle
    time is that before its activities in the ``whole``."""
    if not run.has("host"):
        return None
    paths, callers, activities = _paths(run, slices_of(run)), callers_of(run), _activities(run, whole or run)
    captured: list[pl.DataFrame] = []
    node, replayed = np.full(activities.height, -1, dtype=np.int64), np.zeros(activities.height, dtype=bool)
    if callers is not None:
        node = paths.nodes_of(paths.calls_around(np.where(callers.operator >= 0, callers.operator, callers.call)))
        if callers.joined is not None:
            captured, replayed = _captured(callers.joined, activities)
    if not len(paths.parent) and not captured:
        return None
    calls = np.bincount(paths.node[paths.counted], minlength=len(paths.parent))
    own = _frame(paths, calls, _own_times(paths), _kernels(activities, node, ~replayed))
    return _merged([own, *captured]) if captured else own


def _own_times(paths: _Paths) -> Ints:
    """Host time of each node outside its children, ns."""
    calls = paths.calls
    spans, within = paths.slices.dur[calls.row], (calls.above >= 0) & ~calls.moved
    own = np.maximum(spans - np.bincount(calls.above[within], weights=spans[within], minlength=len(spans)), 0)
    return np.bincount(paths.node, weights=own.astype(np.int64), minlength=len(paths.parent)).astype(np.int64)


def _captured(joined: Joined, activities: pl.DataFrame) -> tuple[list[pl.DataFrame], Mask]:
    """The trees of the replayed kernels, one per capture, and which of the activities are in them."""
    frames, replayed = [], np.zeros(activities.height, dtype=bool)
    for at, capture in enumerate(joined.captures):
        rows = np.flatnonzero(joined.capture == at)
        paths = _paths(capture.run, HostSlices(capture.run)) if len(rows) else None
        if paths is None or not len(paths.parent):
            continue
        launches = np.where(capture.operator >= 0, capture.operator, capture.rows)
        call = paths.calls_around(launches)[joined.launch[rows]]
        known, rows = call[call >= 0], rows[call >= 0]
        node = np.full(activities.height, -1, dtype=np.int64)
        node[rows] = paths.node[known]
        replayed[rows] = True
        tree = _frame(paths, _calls_replayed(paths, known, joined.replay[rows]), None,
                      _kernels(activities, node, node >= 0))
        frames.append(tree.filter(pl.col("count") > 0))  # without the calls that put no kernel into the graph
    return frames, replayed


def _calls_replayed(paths: _Paths, call: Ints, replay: Ints) -> Ints:
    """How often the replays repeat a call of each node, from the innermost ``call`` around each replayed kernel."""
    size = len(paths.calls.row)
    found, keys = [], np.unique(replay * size + call)
    while len(keys):
        found.append(keys)
        above = paths.calls.above[keys % size]
        keys = np.unique((keys // size * size + above)[above >= 0])
    calls = np.unique(np.concatenate(found)) % size if found else np.zeros(0, dtype=np.int64)
    return np.bincount(paths.node[calls[paths.counted[calls]]], minlength=len(paths.parent))


def _merged(trees: list[pl.DataFrame]) -> pl.DataFrame:
    """Several trees as one. A node that has no host time in any of them has none."""
    sums = [name for name, dtype in FRAME.items() if dtype == pl.Int64 and name != "depth"]
    keys = [name for name in FRAME if name not in sums]
    return pl.concat(trees).group_by(keys, maintain_order=True).agg(
        pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()) for name in sums).select(list(FRAME))


def _paths(run: Trace, slices: HostSlices) -> _Paths:
    calls = _calls(run, slices)
    node, parent, name, module = _nodes(calls)
    _, first = dense(calls.name)
    names = slices.names_of(calls.row[first]).cast(pl.String).to_list()
    texts = ["" if text is None else str(text).removeprefix(MODULE) for text in names]
    counted = (calls.above < 0) | (node[np.maximum(calls.above, 0)] != node)
    return _Paths(slices, calls, node, counted, parent, [texts[code] for code in name.tolist()], module)


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
    result = 0
    for some in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        above = np.where(above_call[some] >= 0, node[above_call[some]], -1)
        joins = depth[some] >= DEEPEST
        node[some[joins]] = above[joins]
        rest, above = some[~joins], above[~joins]
        place, first = dense((above + 1) * names_at + calls.name[rest])
        node[rest] = result + place
        parents.append(above[first])
        names.append(calls.name[rest][first])
        modules.append(calls.is_module[rest][first])
        result += len(first)
    node[same] = node[above_call[same]]
    return node, np.concatenate(parents), np.concatenate(names), np.concatenate(modules)


def _activities(run: Trace, whole: Trace) -> pl.DataFrame:
    """Every device activity, in recorded order, with the idle time of its device before it: ``name kind dur_ns
    idle``."""
    rows = run.kernels.select("index", "name", "kind", "dur_ns").collect(engine="streaming")
    idle = idle_of(whole, whole)
    gaps = pl.LazyFrame(schema={"index": pl.Int64, "dur_ns": pl.Int64}) if idle is None else idle.gaps
    waited = gaps.group_by("index").agg(idle=pl.col("dur_ns").sum()).collect(engine="streaming")
    return rows.join(waited.cast({"index": rows.schema["index"]}), on="index", how="left", maintain_order="left")


def _kernels(activities: pl.DataFrame, node: Ints, chosen: Mask) -> pl.DataFrame:
    """Per node (-1: none) and kernel the launches, their duration, and the device idle time before them: ``node name
    kind count total idle``."""
    work = activities.with_columns(pl.Series("node", node)).filter(pl.Series(chosen), is_work())
    return work.group_by("node", "name", "kind").agg(
        count=pl.len().cast(pl.Int64), total=pl.col("dur_ns").sum(), idle=pl.col("idle").sum()
    ).with_columns(pl.col("name", "kind").cast(pl.String).fill_null(""))


def _frame(tree: _Paths, count: Ints, host: Ints | None, kernels: pl.DataFrame) -> pl.DataFrame:
    """Calls and kernels as one tree with totals; without ``host``, the calls took no host time."""
    parent, depth = tree.parent, _depths(tree.parent)
    paths: list[str] = []
    for above, name in zip(parent.tolist(), tree.names, strict=True):  # parents come before their children
        paths.append(name if above < 0 else f"{paths[above]}{PATH}{name}")
    launched = kernels.filter(pl.col("node") >= 0)
    device, idle = (
        np.bincount(launched["node"].to_numpy(), weights=launched[name].to_numpy(), minlength=len(parent))
        .astype(np.int64) for name in ("total", "idle")
    )
    nodes = pl.DataFrame({
        "path": paths, "name": tree.names,
        "kind": np.where(tree.is_module, MODULE_KIND, OPERATOR_KIND).tolist(), "depth": depth,
        "parent": [None if above < 0 else paths[above] for above in parent.tolist()], "count": count.astype(np.int64),
        "device_self_ns": device, "device_total_ns": sum_below(parent, depth, device),
        "idle_total_ns": sum_below(parent, depth, idle),
        "host_self_ns": [None] * len(parent) if host is None else host,
        "host_total_ns": [None] * len(parent) if host is None else sum_below(parent, depth, host),
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
