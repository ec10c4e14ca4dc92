"""Who launched every device activity: its operator, the module and the Python frame around that, and its launch call.

The operator is the one with the activity's External id, else the innermost around its launch call. A backward operator
ran where nobody wrote a line, so its module and frame are those of the forward operator with the same sequence number.
The kernels of a graph are launched by a replay, which says nothing of who captured them: without an External id of
their own their operator, module and frame are null.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from .batches import numbers
from .call_tree import Ints, Mask, nearest, pack
from .derived import derived
from .launch_calls import ABSENT, CALLS, gathered, ids, match, numbered, values_at
from .text_column import TextColumn

MODULE = "nn.Module: "
"""What the recorder puts before the name of a module."""
_GRAPH = re.compile(r"GraphLaunch", re.IGNORECASE)
_LINE = re.compile(r".+\.pyx?\(\d+\)")
_LIBRARY = re.compile(r"(.*[/\\])?(torch|site-packages[/\\]torch|functorch|triton)[/\\]|<")
_BACKWARD = re.compile(r"autograd::engine::|.*Backward\d*$")
FRAME = {name: NAME for name in ("op", "op_forward", "module", "frame")} | {"launch_ns": pl.Int64()}
"""Columns of ``Callers.frame``."""


class Callers(Struct, frozen=True):
    """One entry for each row of ``run.kernels``, in their order.

    ``frame`` has the columns ``FRAME``. ``call`` is the row of the launch call in the host table and ``operator`` that
    of the operator, -1 for none. ``replayed`` counts activities of graphs whose operator is not recorded.
    """

    frame: pl.DataFrame
    call: Ints
    operator: Ints
    replayed: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""
        if not self.replayed:
            return ()
        return (f"{self.replayed:,} launches were replayed by graphs: who captured them is not recorded.",)


class HostSlices(Struct, frozen=True):
    """The host table as arrays, one entry a row: ids ``ABSENT`` where not recorded, ``parent`` -1 for none."""

    name: TextColumn
    kind: TextColumn
    start: Ints
    dur: Ints
    rank: Ints
    parent: npt.NDArray[np.int32]

    def of_kind(self, *kinds: str) -> Mask:
        """Which slices are of these kinds."""
        return self.kind.where(kinds.__contains__)

    def named(self, condition: Callable[[str], object], among: Mask) -> Mask:
        """Which of these slices have a name for which the condition holds."""
        return self.name.where(condition) & among

    def names_of(self, rows: Ints) -> pl.Series:
        """The name of each row, null for -1."""
        if not len(self.name.number):
            return gathered(self.name.distinct, rows)
        named = self.name.at(np.maximum(rows, 0))
        return named.set(pl.Series(rows < 0), None) if len(rows) and int(rows.min()) < 0 else named


def slices_of(run: Trace) -> HostSlices:
    """Every slice of the host table."""
    return HostSlices(
        TextColumn.of(host_column(run, "name")), TextColumn.of(host_column(run, "kind")),
        host_column(run, pl.col("start_ns").fill_null(0)).to_numpy(),
        host_column(run, pl.col("dur_ns").fill_null(0)).to_numpy(), ids(host_column(run, "rank")),
        host_column(run, pl.col("parent").cast(pl.Int32).fill_null(-1)).to_numpy(),
    )


def host_column(run: Trace, wanted: pl.Expr | str) -> pl.Series:
    """A column of the host table. It is the longest by far: several of its columns at once take twice their memory."""
    return run.host.select(wanted).collect(engine="streaming").to_series()


def threads_of(run: Trace) -> Ints:
    """A number from 0 for each thread (rank, pid, tid), for each slice of the host table."""
    return numbered(*(ids(host_column(run, key)) for key in ("rank", "pid", "tid")))


class Places(Struct, frozen=True):
    """Which slices are modules and which are Python frames; ``own`` are frames that are not the framework's."""

    module: Mask
    own: Mask
    frame: Mask

    def around(self, slices: HostSlices, rows: Ints) -> tuple[pl.Series, pl.Series]:
        """The module and the Python frame around each of the rows (-1 for none), which may be that row itself."""
        module = slices.names_of(nearest(slices.parent, rows, self.module))
        own = nearest(slices.parent, rows, self.own)
        frame = np.where(own >= 0, own, nearest(slices.parent, np.where(own >= 0, -1, rows), self.frame))
        text = module.cast(pl.String).str.strip_prefix(MODULE).cast(NAME)
        return text, slices.names_of(frame)


def places_of(slices: HostSlices) -> Places:
    """Modules and frames among the slices. A frame of the framework itself is taken only where there is no other."""
    python = slices.of_kind("python")
    module = slices.named(lambda text: text.startswith(MODULE), python | slices.of_kind("annotation"))
    frame = slices.named(lambda text: _LINE.match(text), python)
    own = slices.named(lambda text: _LINE.match(text) and not _LIBRARY.match(text), python)
    return Places(module, own, frame)


_known: deque[tuple[Trace, Callers | None]] = deque(maxlen=4)


def callers_of(run: Trace, slices: HostSlices | None = None) -> Callers | None:
    """Who launched each activity of the run; None where neither calls nor operators were recorded.

    Whoever has the slices of the run gives them, for they take as long to read as most of what follows.
    """
    for trace, callers in _known:
        if trace is run:
            return callers
    callers = _callers(run, slices)
    _known.append((run, callers))
    return callers


def operators_of_launches(run: Trace) -> pl.Series | None:
    """The operator of each activity (column ``op`` of ``FRAME``), by External id alone where that tells all of them."""
    for trace, callers in _known:
        if trace is run:
            return callers.frame["op"] if callers is not None else None
    if not run.has("host") or not run.has("kernels"):
        return None
    operators = numbers(run.host.filter(pl.col("kind") == "op", pl.col("external_id").is_not_null()).select(
        "rank", "external_id", name=pl.col("name").to_physical().cast(pl.Int64)), "external_id", "name")
    rows = numbers(run.kernels.select("rank", "op_id", "graph"), "op_id")
    found = match((rows["rank"], rows["op_id"]), (operators["rank"], operators["external_id"]))
    if ((found < 0) & (rows["graph"] == ABSENT)).any():
        callers = callers_of(run)
        return None if callers is None else callers.frame["op"]
    return values_at(operators["name"], found).cast(pl.UInt32).cat.to(NAME).alias("op")


def _callers(run: Trace, slices: HostSlices | None) -> Callers | None:
    if not run.has("host") or not run.has("kernels"):
        return None
    frame = derived(run, "callers", lambda: _found(run, slices_of(run) if slices is None else slices))
    call, operator = (frame[name].cast(pl.Int64).to_numpy() for name in ("call", "operator"))
    return Callers(frame.select(*FRAME), call, operator, int(frame["replayed"].sum()))


def _found(run: Trace, slices: HostSlices) -> pl.DataFrame:
    """``FRAME`` with ``call`` and ``operator``, as in ``Callers``, and whether each was ``replayed`` by a graph."""
    rows = run.kernels.select("rank", "correlation", "op_id", "graph").collect(engine="streaming")
    call, is_operator = _launch_calls(run, slices, rows), slices.of_kind("op")
    operator = _by_external_id(run, slices, rows, is_operator)
    replays = slices.named(lambda text: _GRAPH.search(text), slices.of_kind(*CALLS))
    replayed = rows["graph"].is_not_null().to_numpy() | ((call >= 0) & replays[call])
    asked = (operator < 0) & ~replayed
    operator[asked] = nearest(slices.parent, call[asked], is_operator)
    replayed &= operator < 0
    base = np.where(operator >= 0, operator, np.where(replayed, -1, call))
    forward = forward_of(run, slices, is_operator, operator)
    module, frame = places_of(slices).around(slices, np.where(forward >= 0, forward, base))
    columns = {
        "op": slices.names_of(operator), "op_forward": slices.names_of(forward), "module": module, "frame": frame,
        "launch_ns": gathered(pl.Series(slices.start), call),
    }
    return pl.DataFrame(columns, schema=FRAME).with_columns(
        call=pl.Series(call.astype(np.int32)), operator=pl.Series(operator.astype(np.int32)),
        replayed=pl.Series(replayed),
    )


def _launch_calls(run: Trace, slices: HostSlices, rows: pl.DataFrame) -> Ints:
    """The row of the earliest runtime or driver call with the correlation of each activity, -1 for none."""
    correlation = ids(host_column(run, "correlation"))
    calls = np.flatnonzero(slices.of_kind(*CALLS) & (correlation != ABSENT) & (correlation != 0))
    calls = calls[np.argsort(slices.start[calls], kind="stable")]
    found = match((ids(rows["rank"]), ids(rows["correlation"])), (slices.rank[calls], correlation[calls]))
    return np.where(found >= 0, calls[np.maximum(found, 0)], -1) if len(calls) else found


def _by_external_id(run: Trace, slices: HostSlices, rows: pl.DataFrame, is_operator: Mask) -> Ints:
    """The row of the operator with the External id of each activity, -1 for none."""
    external = ids(host_column(run, "external_id"))
    operators = np.flatnonzero(is_operator & (external != ABSENT))
    found = match((ids(rows["rank"]), ids(rows["op_id"])), (slices.rank[operators], external[operators]))
    return np.where(found >= 0, operators[np.maximum(found, 0)], -1) if len(operators) else found


def forward_of(run: Trace, slices: HostSlices, is_operator: Mask, rows: Ints) -> Ints:
    """The forward operator that each of the rows (-1 for none) belongs to the backward of, -1 for none.

    It is the last one with the same sequence number that began before: an operator and what it calls share a number
    until the one that puts itself into the graph.
    """
    sequence = ids(host_column(run, "sequence"))
    numbered_ops = is_operator & (sequence != ABSENT)
    none = np.full(len(rows), -1, dtype=np.int64)
    if not numbered_ops.any():
        return none
    backward = numbered_ops & host_column(run, pl.col("forward_tid").is_not_null()).to_numpy()
    backward |= slices.named(lambda text: _BACKWARD.match(text), numbered_ops)
    forward = np.flatnonzero(numbered_ops & ~backward)
    back = nearest(slices.parent, rows, backward)
    asked = np.flatnonzero(back >= 0)
    if not len(forward) or not len(asked):
        return none
    wanted = back[asked]
    both = np.concatenate((forward, wanted))
    at = pack(numbered(slices.rank[both], sequence[both]), slices.start[both])
    order = np.argsort(at[: len(forward)], kind="stable")
    place = np.searchsorted(at[: len(forward)][order], at[len(forward) :], side="left") - 1
    found = forward[order][np.maximum(place, 0)]
    same = (place >= 0) & (sequence[found] == sequence[wanted]) & (slices.rank[found] == slices.rank[wanted])
    none[asked[same]] = found[same]
    return none
