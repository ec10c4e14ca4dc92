"""Time per operator on the host and on the device, for the run's operators as one tree per thread.

The rules are torch_tb_profiler's, so that the numbers agree with its reports: operators nest in time on their thread;
the time of a call's runtime calls is not the operator's own; device time is that of the activities its runtime calls
launched; an operator whose only child has its name is one operator with it.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders import schema
from ...loaders.trace import Trace
from ..core.call_tree import CallTree, Ints, call_tree
from ..core.launch_calls import ABSENT, Calls, calls_of, ids, match, numbered
from ..core.quantiles import Codes, dense
from ..kernels.tensor_cores import OPERATORS, kernels_on_tensor_cores

DATA_LOADER = re.compile(r"enumerate\(DataLoader\)#.*\.__next__$|enumerate\(DataPipe\)#")
"""Slices in which the host waits for input data."""
_IN_TREE = re.compile(r"ProfilerStep#|Optimizer\.step")
_NO_OPERATOR = re.compile(r"ProfilerStep|Optimizer\.|(DataParallel|DistributedDataParallel)\.forward$")
Mask = npt.NDArray[np.bool_]


class Operators(Struct, frozen=True):
    """The ``operators`` table of a run, and how much device time belongs to none of them (ns)."""

    frame: pl.DataFrame
    device_ns: int
    unclaimed_ns: int


def is_data_loader(name: str) -> bool:
    """Whether the slice of that name waits for input data."""
    return DATA_LOADER.match(name) is not None


def operators_of(run: Trace) -> Operators | None:
    """Time per operator, most device time first; None where the run has no operators."""
    nodes = _nodes(run)
    if nodes.is_empty():
        return None
    name, seen = dense(nodes["name"].to_physical().cast(pl.Int64).to_numpy())
    names = nodes["name"][seen].cast(pl.String).to_list()
    thread = _threads(nodes)
    starts = nodes["start_ns"].to_numpy()
    tree = call_tree(thread, starts, starts + nodes["dur_ns"].to_numpy())
    nodes, name = nodes[tree.order], name[tree.order]
    is_op = (nodes["kind"] == "op").to_numpy()
    into = _folded_into(tree.parent, name, is_op)
    calls = calls_of(run)
    owner = _owners(calls, nodes, tree)
    device, tensor, total, claimed = _device_time(run, calls, owner, tree)
    counted = is_op & (into == np.arange(len(into))) & ~_named(names, name, _NO_OPERATOR, DATA_LOADER)
    if not counted.any():
        return None
    frame = _summed(nodes, names, name, counted, {
        "device_self_ns": _gathered(device, into), "device_total_ns": tree.below(device),
        "host_self_ns": _own_host_time(nodes, tree, into, calls, owner), "host_total_ns": nodes["dur_ns"].to_numpy(),
        "tensor_self": _gathered(tensor, into), "tensor_total": tree.below(tensor),
        "eligible": tree.below(_eligible(names, name, is_op) | (tensor > 0) & is_op),
    })
    return Operators(frame, total, total - claimed)


def launching_operators(run: Trace, activities: pl.DataFrame) -> pl.Series:
    """Name of the operator whose call launched each activity (rows with ``rank correlation``), null for none."""
    nodes = _nodes(run)
    starts = nodes["start_ns"].to_numpy()
    tree = call_tree(_threads(nodes), starts, starts + nodes["dur_ns"].to_numpy())
    nodes = nodes[tree.order]
    calls = calls_of(run)
    node = _node_of(activities, calls, _owners(calls, nodes, tree))
    names = nodes.select(pl.when(pl.col("kind") == "op").then(pl.col("name").cast(pl.String))).to_series()
    wanted = pl.DataFrame({"row": np.where(node >= 0, node, -1)})
    named = pl.DataFrame({"row": np.arange(len(names)), "op": names})
    return wanted.join(named, on="row", how="left", maintain_order="left")["op"]


def _nodes(run: Trace) -> pl.DataFrame:
    """Operators, and the annotations that stand in the tree beside them, in recorded order."""
    annotations = run.host.filter(pl.col("kind").is_in(["annotation", "dataloader"]))
    names = annotations.select(pl.col("name").unique().cast(pl.String)).collect(engine="streaming")["name"].drop_nulls()
    wanted = [name for name in names if _IN_TREE.match(name) or is_data_loader(name)]
    beside = pl.col("kind").is_in(["annotation", "dataloader"])
    beside = beside & pl.col("name").is_in(pl.Series(wanted, dtype=schema.NAME).implode())
    return (
        run.host.filter((pl.col("kind") == "op") | beside)
        .select("name", "kind", "start_ns", "dur_ns", "pid", "tid", "rank", "external_id")
        .drop_nulls(["name", "start_ns", "dur_ns"]).collect(engine="streaming")
    )


def _threads(rows: pl.DataFrame) -> Ints:
    """A number from 0 for each (rank, pid, tid)."""
    return numbered(*(ids(rows[key]) for key in ("rank", "pid", "tid")))


def _named(names: list[str], name: Codes, *patterns: re.Pattern[str]) -> Mask:
    hit = np.array([any(pattern.match(text) for pattern in patterns) for text in names], dtype=bool)
    return hit[name]


def _folded_into(parent: Ints, name: Codes, is_op: Mask) -> Ints:
    """For each call the one it counts as: the top of its chain of only children with its name, mostly itself."""
    into = np.arange(len(parent), dtype=np.int64)
    children = np.bincount(parent[parent >= 0], minlength=len(parent))
    up = np.maximum(parent, 0)
    fold = (parent >= 0) & (children[up] == 1) & (name[up] == name) & is_op & is_op[up]
    into[fold] = parent[fold]
    while (into[into] != into).any():
        into = into[into]
    return into


def _owners(calls: Calls, nodes: pl.DataFrame, tree: CallTree) -> Ints:
    """The node that made each call, -1 for none.

    An external id is believed where its operator was running when the call began and it is not just the correlation id
    again: some recorders wrote other numbers there, which hit an operator by chance. A negative one was made by the
    loader from a recorded arrow, and holds though the call came later, from the thread that empties a queue.
    """
    rank, external = ids(nodes["rank"]), ids(nodes["external_id"])
    earliest = np.argsort(tree.starts, kind="stable")
    found = match((calls.rank, calls.external_id), (rank[earliest], external[earliest]))
    owner = np.where(found >= 0, earliest[np.maximum(found, 0)], -1) if len(earliest) else found
    known = np.maximum(owner, 0)
    late = (calls.starts > tree.ends[known]) & (calls.external_id >= 0)
    strange = (calls.starts < tree.starts[known]) | late
    owner[strange | (calls.external_id == calls.correlation)] = -1
    by_time = (owner < 0) & (calls.external_id != 0)
    if by_time.any():
        owner[by_time] = _innermost(calls, by_time, nodes, tree)
    return owner


def _innermost(calls: Calls, some: Mask, nodes: pl.DataFrame, tree: CallTree) -> Ints:
    """The innermost node that encloses each of the calls on its thread, -1 for none."""
    keys = (("rank", calls.rank), ("pid", calls.pid), ("tid", calls.tid))
    joint = numbered(*(np.concatenate((ids(nodes[key]), theirs[some])) for key, theirs in keys))
    own, theirs = joint[: nodes.height], joint[nodes.height :]
    number_of = np.full(int(joint.max()) + 1, -1, dtype=np.int64)
    number_of[own] = tree.thread
    thread, starts, ends = number_of[theirs], calls.starts[some], calls.ends[some]
    owner = np.full(len(thread), -1, dtype=np.int64)
    on = thread >= 0
    owner[on] = tree.enclosing(thread[on], starts[on])
    owner[ends > tree.ends[np.maximum(owner, 0)]] = -1
    return owner


def _device_time(run: Trace, calls: Calls, owner: Ints, tree: CallTree) -> tuple[Ints, Ints, int, int]:
    """Device time that each node's calls launched (all, and on tensor cores), all there is, and all that is claimed."""
    rows = (
        run.kernels.filter(pl.col("kind") != "sync")
        .select("name", "dur_ns", "correlation", "rank").drop_nulls("dur_ns").collect(engine="streaming")
    )
    durations = rows["dur_ns"].to_numpy()
    node = _node_of(rows, calls, owner)
    have = node >= 0
    nodes = len(tree.order)
    device = np.bincount(node[have], weights=durations[have], minlength=nodes).astype(np.int64)
    fast = kernels_on_tensor_cores(rows["name"].unique().cast(pl.String))
    on_tensor = rows["name"].is_in(pl.Series(fast, dtype=schema.NAME).implode()).fill_null(False).to_numpy() & have
    tensor = np.bincount(node[on_tensor], weights=durations[on_tensor], minlength=nodes).astype(np.int64)
    return device, tensor, int(durations.sum()), int(device.sum())


def _node_of(activities: pl.DataFrame, calls: Calls, owner: Ints) -> Ints:
    """The node whose call launched each activity, -1 for none."""
    call = match((ids(activities["rank"]), ids(activities["correlation"])), (calls.rank, calls.correlation))
    return np.where(call >= 0, owner[np.maximum(call, 0)] if len(owner) else -1, -1)


def _gathered(values: Ints, into: Ints) -> Ints:
    """Values of folded calls added to the call they count as."""
    return np.bincount(into, weights=values, minlength=len(into)).astype(np.int64)


def _own_host_time(nodes: pl.DataFrame, tree: CallTree, into: Ints, calls: Calls, owner: Ints) -> Ints:
    """Duration less the children's and less that of its runtime calls, of calls inside calls only the outer ones."""
    durations = nodes["dur_ns"].to_numpy()
    child = (tree.parent >= 0) & (into == np.arange(len(into)))
    inner = np.bincount(into[tree.parent[child]], weights=durations[child], minlength=len(into))
    elsewhere = (calls.external_id < 0) & (calls.external_id != ABSENT)
    made = (owner >= 0) & calls.outermost & ~elsewhere
    called = np.bincount(
        into[owner[made]], weights=(calls.ends - calls.starts)[made], minlength=len(into)
    )
    return (durations - inner - called).astype(np.int64)


def _eligible(names: list[str], name: Codes, is_op: Mask) -> Mask:
    known = np.array([text in OPERATORS for text in names], dtype=bool)
    return known[name] & is_op


def _summed(
    nodes: pl.DataFrame, names: list[str], name: Codes, counted: Mask, values: dict[str, Ints]
) -> pl.DataFrame:
    """Sums per name over the calls that count."""
    of = name[counted]
    sums = {
        key: np.bincount(of, weights=value[counted], minlength=len(names)).astype(np.int64)
        for key, value in values.items()
    }
    frame = pl.DataFrame({"name": names, "calls": np.bincount(of, minlength=len(names)), **sums})
    return (
        frame.filter(pl.col("calls") > 0)
        .select(
            pl.col("name").cast(schema.NAME), "calls",
            *(pl.col(key) for key in values if key.endswith("_ns")),
            tc_eligible=pl.col("eligible") > 0,
            tc_self_ratio=_share("tensor_self", "device_self_ns"),
            tc_total_ratio=_share("tensor_total", "device_total_ns"),
        )
        .sort("device_self_ns", "host_self_ns", pl.col("name").cast(pl.String), descending=[True, True, False])
    )


def _share(part: str, whole: str) -> pl.Expr:
    return pl.when(pl.col(whole) > 0).then(pl.col(part) / pl.col(whole)).otherwise(0.0)
