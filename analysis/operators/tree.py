"""Time per operator on host and device, from one operator tree per thread.

The rules are torch_tb_profiler's, so that the numbers agree with its reports: operators nest in time on their thread;
an operator's self time excludes its runtime calls; device time is that of the activities its runtime calls launched; an
operator whose only child has the same name is merged with it.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders import schema
from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..core.batches import integer_arrays
from ..core.call_tree import (
    Calls,
    Ints,
    Parents,
    calls_of,
    crossings,
    nearest,
    parent_within,
    slices_of,
    sum_below,
)
from ..core.callers import operator_rows
from ..core.derived import derived_value
from ..core.quantiles import Codes, dense
from ..kernels.tensor_cores import OPERATORS, by_tensor_cores, share_on_tensor_cores

DATA_LOADER = re.compile(r"enumerate\(DataLoader\)#.*\.__next__$|enumerate\(DataPipe\)#")
"""Slices in which the host waits for input data."""
_IN_TREE = re.compile(r"ProfilerStep#|Optimizer\.step")
_NO_OPERATOR = re.compile(r"ProfilerStep|Optimizer\.|(DataParallel|DistributedDataParallel)\.forward$")
Mask = npt.NDArray[np.bool_]


class Operators(Struct, frozen=True):
    """A run's operator table, device time in total (ns), slices that outlast their parent."""

    frame: pl.DataFrame
    device_ns: int
    crossing: int = 0

    @property
    def unclaimed_ns(self) -> int:
        """Device time that no operator launched, steps and other annotations among the operators included."""
        return self.device_ns - int(self.frame["device_self_ns"].sum())


def is_data_loader(name: str) -> bool:
    """Whether a slice with that name waits for input data."""
    return DATA_LOADER.match(name) is not None


def no_operator(name: str) -> bool:
    """Whether a slice with that name is a step or wrapper that does not count as an operator."""
    return _NO_OPERATOR.match(name) is not None


class Nodes(Struct, frozen=True):
    """Operators and the annotations among them, in recorded order, as rows of ``frame`` with their ``ends``. ``parent``
    is each node's closest ancestor node, ``host_parent`` the parent of each row of the host table, and ``number`` the
    node of each of those rows; -1 for none."""

    frame: pl.DataFrame
    starts: Ints
    ends: Ints
    parent: Ints
    depth: Ints
    host_parent: Parents
    number: Parents


def operators_of(run: Trace) -> Operators | None:
    """Time per operator, most device time first; None if the run has no operators."""
    return derived_value(run, "operators", Operators | None, lambda: _operators(run))


def _operators(run: Trace) -> Operators | None:
    nodes = _nodes(run)
    if nodes.frame.is_empty():
        return None
    name, seen = dense(nodes.frame["name"].to_physical().cast(pl.Int64).to_numpy())
    names = nodes.frame["name"][seen].cast(pl.String).to_list()
    is_op = (nodes.frame["kind"] == "op").to_numpy()
    into = _folded_into(nodes.parent, name, is_op)
    calls = calls_of(run)
    owner = _owners(calls, nodes)
    device, tensor, unsure, total = _device_time(run, nodes)
    no_operators = np.array([no_operator(text) or is_data_loader(text) for text in names], dtype=bool)
    counted = is_op & (into == np.arange(len(into))) & ~no_operators[name]
    if not counted.any():
        return None

    def below(values: npt.NDArray[np.int64 | np.bool_]) -> Ints:
        return sum_below(nodes.parent, nodes.depth, values)

    matters = np.array([text in OPERATORS for text in names], dtype=bool)
    frame = _summed(names, name, counted, {
        "device_self_ns": _gathered(device, into), "device_total_ns": below(device),
        "host_self_ns": _own_host_time(nodes, into, calls, owner), "host_total_ns": nodes.frame["dur_ns"].to_numpy(),
        "tensor_self": _gathered(tensor, into), "tensor_total": below(tensor),
        "unsure_self": _gathered(unsure, into), "unsure_total": below(unsure),
        "eligible": below((matters[name] & is_op) | (tensor > 0) & is_op),
    })
    return Operators(frame, total, crossings(run.host))


def _nodes(run: Trace) -> Nodes:
    """Operators, and the annotations that belong in the tree."""
    marked = pl.col("kind").is_in(["annotation", "dataloader"])
    names = run.host.filter(marked).select(pl.col("name").unique().cast(pl.String)).collect(engine="streaming")["name"]
    wanted = [name for name in names.drop_nulls() if _IN_TREE.match(name) or is_data_loader(name)]
    in_tree = marked & pl.col("name").is_in(pl.Series(wanted, dtype=schema.NAME).implode())
    timed = pl.all_horizontal(pl.col("name", "start_ns", "dur_ns").is_not_null())
    above = slices_of(run).parent
    nodes = run.host.with_row_index("row").filter((pl.col("kind") == "op") | in_tree, timed)
    result = integer_arrays(nodes.select("row", pl.col("depth").fill_null(0)), "row", "depth")
    is_node, depth = np.zeros(len(above), dtype=bool), result["depth"]
    is_node[result["row"]] = True
    frame = nodes.select("name", "kind", "start_ns", "dur_ns").collect(engine="streaming")
    starts = frame["start_ns"].to_numpy()
    return Nodes(
        frame, starts, starts + frame["dur_ns"].to_numpy(), parent_within(above, is_node), depth, above,
        np.where(is_node, np.cumsum(is_node, dtype=np.int32) - 1, -1).astype(np.int32),
    )


def _folded_into(parent: Ints, name: Codes, is_op: Mask) -> Ints:
    """For each call the call it is merged into: the top of its chain of only children with its name, usually itself."""
    into = np.arange(len(parent), dtype=np.int64)
    children = np.bincount(parent[parent >= 0], minlength=len(parent))
    up = np.maximum(parent, 0)
    fold = (parent >= 0) & (children[up] == 1) & (name[up] == name) & is_op & is_op[up]
    into[fold] = parent[fold]
    while (into[into] != into).any():
        into = into[into]
    return into


def _owners(calls: Calls, nodes: Nodes) -> Ints:
    """The innermost node around each call, -1 for none."""
    if not len(nodes.starts):
        return np.full(len(calls.starts), -1, dtype=np.int64)
    around = nearest(nodes.host_parent, nodes.host_parent[calls.row].astype(np.int64), nodes.number >= 0)
    return np.where(around >= 0, nodes.number[np.maximum(around, 0)], -1)


def _device_time(run: Trace, nodes: Nodes) -> tuple[Ints, Ints, Ints, int]:
    """Device time launched per node: total, on tensor cores, possibly on them; then the sum overall."""
    counts = is_work(), pl.col("dur_ns").is_not_null()
    rows = run.kernels.with_row_index("row").filter(*counts).select("row", "name", "dur_ns").collect(engine="streaming")
    durations, op = rows["dur_ns"].to_numpy(), operator_rows(run)[rows["row"].to_numpy()]
    node = np.where(op >= 0, nodes.number[np.maximum(op, 0)], -1) if len(nodes.number) else op
    size = len(nodes.starts)

    def per_node(some: Mask) -> Ints:
        return np.bincount(node[some], weights=durations[some], minlength=size).astype(np.int64)

    have = node >= 0
    device = per_node(have)
    tensor, unsure = (per_node(mask & have) for mask in by_tensor_cores(rows["name"]))
    return device, tensor, unsure, int(durations.sum())


def _gathered(values: Ints, into: Ints) -> Ints:
    """Values of merged calls added to the call they are merged into."""
    return np.bincount(into, weights=values, minlength=len(into)).astype(np.int64)


def _own_host_time(nodes: Nodes, into: Ints, calls: Calls, owner: Ints) -> Ints:
    """Duration minus that of children and of runtime calls; of nested runtime calls only the outer ones count."""
    durations = nodes.frame["dur_ns"].to_numpy()
    child = (nodes.parent >= 0) & (into == np.arange(len(into)))
    inner = np.bincount(into[nodes.parent[child]], weights=durations[child], minlength=len(into))
    result = (owner >= 0) & calls.outermost
    called = np.bincount(into[owner[result]], weights=(calls.ends - calls.starts)[result], minlength=len(into))
    return (durations - inner - called).astype(np.int64)


def _summed(names: list[str], name: Codes, counted: Mask, values: dict[str, Ints]) -> pl.DataFrame:
    """Sums per name over the calls in ``counted``."""
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
            tc_eligible=pl.when((pl.col("eligible") > 0) | (pl.col("unsure_total") == 0)).then(pl.col("eligible") > 0),
            tc_self_ratio=share_on_tensor_cores(*map(pl.col, ("tensor_self", "unsure_self", "device_self_ns"))),
            tc_total_ratio=share_on_tensor_cores(*map(pl.col, ("tensor_total", "unsure_total", "device_total_ns"))),
        )
        .sort("device_self_ns", "host_self_ns", pl.col("name").cast(pl.String), descending=[True, True, False])
    )
