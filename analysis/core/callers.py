"""Launch call, operator, module and Python frame of every device activity.

The operator is the one with the activity's External id, else the innermost one around the launch call, else, for calls
recorded apart from the thread that made them, the one with the call's External id. A backward
operator runs without any Python line of its own, so its module and frame are those of the forward operator with the
same sequence number. The kernels of a graph are launched by a replay, which does not say who captured them: without an
External id of their own they get operator, module and frame from the graph's capture, or null if it was not recorded.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from .batches import ABSENT, CALLS, in_order, integer_arrays, match, numbered, values_at
from .call_tree import HostSlices, Ints, Mask, nearest, pack, slices_of
from .captures import Joined, joined
from .derived import derived, stored_frame

MODULE = "nn.Module: "  # Recorded prefix of a module's name.
_GRAPH = re.compile(r"GraphLaunch", re.IGNORECASE)
_LINE = re.compile(r".+\.pyx?\(\d+\)")
_LIBRARY = re.compile(r"(.*[/\\])?(torch|site-packages[/\\]torch|functorch|triton)[/\\]|<")
_BACKWARD = re.compile(r"autograd::engine::|.*Backward\d*$")
FRAME = {name: NAME for name in ("op", "op_forward", "module", "frame")} | {"launch_ns": pl.Int64()}
"""Columns of ``Callers.frame``."""


class Callers(Struct, frozen=True):
    """One entry per row of ``run.kernels``, in order. ``frame`` has the columns ``FRAME``; ``call`` and ``operator``
    are the host-table rows of the launch call and the operator, -1 for none. ``replayed`` counts graph activities whose
    operator was not recorded."""

    frame: pl.DataFrame
    call: Ints
    operator: Ints
    replayed: int
    joined: Joined | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader: a refused capture, launches without a recorded operator."""
        notes = []
        if self.joined is not None and self.joined.facts["refused"]:
            notes.append(f"Capture {self.joined.facts['file']} is refused: {self.joined.facts['refused']}.")
        if self.replayed:
            notes.append(
                f"{self.replayed:,} launches came from graph replays; the capturing operators were not recorded.")
        return tuple(notes)

    @property
    def facts(self) -> dict[str, Any]:
        """``capture``, if the run has one."""
        return {} if self.joined is None else {"capture": self.joined.facts}


class Places(Struct, frozen=True):
    """Masks of the slices that are modules and Python frames; ``own``: frames that are not the framework's."""

    module: Mask
    own: Mask
    frame: Mask

    def around(self, slices: HostSlices, rows: Ints) -> tuple[pl.Series, pl.Series]:
        """The module and the Python frame around each row (-1 for none), which may be the row itself."""
        module = slices.names_of(nearest(slices.parent, rows, self.module))
        own = nearest(slices.parent, rows, self.own)
        frame = np.where(own >= 0, own, nearest(slices.parent, np.where(own >= 0, -1, rows), self.frame))
        text = module.cast(pl.String).str.strip_prefix(MODULE).cast(NAME)
        return text, slices.names_of(frame)


def places_of(slices: HostSlices) -> Places:
    """Modules and frames among the slices. A frame of the framework itself is used only if there is no other."""
    python = slices.of_kind("python")
    module = slices.named(lambda text: text.startswith(MODULE), python | slices.of_kind("annotation"))
    frame = slices.named(lambda text: _LINE.match(text), python)
    own = slices.named(lambda text: _LINE.match(text) and not _LIBRARY.match(text), python)
    return Places(module, own, frame)


_MEMO = "callers"


def callers_of(run: Trace) -> Callers | None:
    """The callers of each activity of the run; None if host or device activities were not recorded."""
    return run.remember(_MEMO, (), lambda: _callers(run))


def operator_rows(run: Trace) -> Ints | None:
    """``Callers.operator`` of a run, without the names, which take most of the time of finding the callers; None as in
    ``callers_of``."""
    callers: Callers | None = run.remembered(_MEMO)
    if callers is not None:
        return callers.operator
    if not run.has("host") or not run.has("kernels"):
        return None
    frame = stored_frame(run, _MEMO)
    return _launchers(run, slices_of(run))["operator"] if frame is None else frame["operator"].cast(pl.Int64).to_numpy()


def operators_of_launches(run: Trace) -> pl.Series | None:
    """The operator of each activity (column ``op`` of ``FRAME``), by External id alone if that resolves all of them."""
    callers: Callers | None = run.remembered(_MEMO)
    if callers is not None:
        return callers.frame["op"]
    if run.captures is not None:
        callers = callers_of(run)
        return None if callers is None else callers.frame["op"]
    if not run.has("host") or not run.has("kernels"):
        return None
    if (frame := stored_frame(run, _MEMO)) is not None:
        return frame["op"]
    operators = integer_arrays(run.host.filter(pl.col("kind") == "op", pl.col("external_id").is_not_null()).select(
        "rank", "external_id", name=pl.col("name").to_physical().cast(pl.Int64)), "external_id", "name")
    rows = integer_arrays(run.kernels.select("rank", "op_id", "graph"), "op_id")
    result = match((rows["rank"], rows["op_id"]), (operators["rank"], operators["external_id"]))
    if ((result < 0) & (rows["graph"] == ABSENT)).any():
        callers = callers_of(run)
        return None if callers is None else callers.frame["op"]
    return values_at(operators["name"], result).cast(pl.UInt32).cat.to(NAME).alias("op")


def _callers(run: Trace) -> Callers | None:
    if not run.has("host") or not run.has("kernels"):
        return None
    frame = derived(run, _MEMO, lambda: _callers_frame(run, slices_of(run)))
    call, operator = (frame[name].cast(pl.Int64).to_numpy() for name in ("call", "operator"))
    replayed = frame["replayed"].to_numpy()
    captured = joined(run, replayed)
    columns = frame.select(*FRAME)
    if captured is not None:
        columns, replayed = _with_captures(columns, captured), replayed & (captured.capture < 0)
    return Callers(columns, call, operator, int(replayed.sum()), captured)


def _with_captures(frame: pl.DataFrame, captures: Joined) -> pl.DataFrame:
    """The callers, with those of graph kernels taken from their captures."""
    names = ("op", "module", "frame")
    for at, captured in enumerate(captures.captures):
        rows = np.flatnonzero(captures.capture == at)
        if not len(rows):
            continue
        slices = HostSlices(captured.run)
        module, line = places_of(slices).around(slices, np.where(
            captured.operator >= 0, captured.operator, captured.rows))
        launchers = pl.DataFrame([slices.names_of(captured.operator).alias("op"), module.alias("module"),
                                  line.alias("frame")])[pl.Series(captures.launch[rows])]
        at_rows, launchers = pl.Series(rows), launchers.cast(pl.String)
        texts = {name: frame[name].cast(pl.String).scatter(at_rows, launchers[name]) for name in names}
        frame = frame.with_columns(series.alias(name).cast(NAME) for name, series in texts.items())
    return frame


def _callers_frame(run: Trace, slices: HostSlices) -> pl.DataFrame:
    """``FRAME`` with ``call`` and ``operator``, as in ``Callers``, and whether each was ``replayed`` by a graph."""
    rows = _launchers(run, slices)
    call, operator, replayed = rows["call"], rows["operator"], rows["replayed"] > 0
    base = np.where(operator >= 0, operator, np.where(replayed, -1, call))
    forward = forward_of(run, slices, operator)
    module, frame = places_of(slices).around(slices, np.where(forward >= 0, forward, base))
    columns = {
        "op": slices.names_of(operator), "op_forward": slices.names_of(forward), "module": module, "frame": frame,
        "launch_ns": values_at(rows["launch_ns"], np.arange(len(call))),
    }
    return pl.DataFrame(columns, schema=FRAME).with_columns(
        call=pl.Series(call.astype(np.int32)), operator=pl.Series(operator.astype(np.int32)),
        replayed=pl.Series(replayed),
    )


def _launchers(run: Trace, slices: HostSlices) -> dict[str, Ints]:
    """``call``, ``operator`` and ``replayed`` as in ``_callers_frame``; ``launch_ns``: start of the launch call, ns."""
    rows = integer_arrays(run.kernels.select("rank", "correlation", "op_id", "graph"), "correlation", "op_id", "graph")
    calls = integer_arrays(_with_rows(run, pl.col("kind").is_in(CALLS), pl.col("correlation") != 0).select(
        "row", "rank", "correlation", pl.col("start_ns").fill_null(0), op_id="external_id",
    ), "row", "correlation", "op_id")
    order = np.argsort(calls["start_ns"], kind="stable")
    calls = {name: in_order(values, order) for name, values in calls.items()}
    result = match((rows["rank"], rows["correlation"]), (calls["rank"], calls["correlation"]))
    call = at_or_none(calls["row"], result)
    is_operator = slices.of_kind("op")
    operator = _by_external_id(run, rows)
    replays = slices.named(lambda text: _GRAPH.search(text), slices.of_kind(*CALLS))
    replayed = (rows["graph"] != ABSENT) | ((call >= 0) & replays[call])
    unclaimed = (operator < 0) & ~replayed
    operator[unclaimed] = nearest(slices.parent, call[unclaimed], is_operator)
    alone = np.flatnonzero((operator < 0) & ~replayed & (result >= 0))
    if len(alone):
        operator[alone] = _by_external_id(run, {key: calls[key][result[alone]] for key in ("rank", "op_id")})
    replayed &= operator < 0
    launch_ns = np.where(result >= 0, calls["start_ns"][np.maximum(result, 0)], ABSENT) if len(calls["row"]) else call
    return {"call": call, "operator": operator, "replayed": replayed.astype(np.int64), "launch_ns": launch_ns}


def _by_external_id(run: Trace, rows: dict[str, Ints]) -> Ints:
    """The row of the operator with each activity's External id, -1 for none."""
    operators = integer_arrays(_with_rows(run, pl.col("kind") == "op", pl.col("external_id").is_not_null()).select(
        "row", "rank", "external_id"), "row", "external_id")
    result = match((rows["rank"], rows["op_id"]), (operators["rank"], operators["external_id"]))
    return at_or_none(operators["row"], result)


def _with_rows(run: Trace, *conditions: pl.Expr) -> pl.LazyFrame:
    """The host slices that meet the conditions, with their ``row``."""
    return run.host.with_row_index("row").filter(*conditions)


def at_or_none(values: Ints, places: Ints) -> Ints:
    """The value at each place, -1 for -1."""
    if not len(values):
        return np.full(len(places), -1, dtype=np.int64)
    return np.where(places >= 0, values[np.maximum(places, 0)], -1).astype(np.int64, copy=False)


def forward_of(run: Trace, slices: HostSlices, rows: Ints) -> Ints:
    """Per row (-1 for none): the forward operator of the backward operator around it, -1 for none. That is the last
    operator with the same sequence number that began earlier: an operator and its callees share a number up to the one
    that adds itself to the autograd graph."""
    ops = integer_arrays(_with_rows(run, pl.col("kind") == "op", pl.col("sequence").is_not_null()).select(
        "row", "rank", "sequence", pl.col("start_ns").fill_null(0),
        told=pl.col("forward_tid").is_not_null().cast(pl.Int8)), "row", "sequence", "told")
    none = np.full(len(rows), -1, dtype=np.int64)
    if not len(ops["row"]):
        return none
    is_backward = (ops["told"] == 1) | slices.name.where(_BACKWARD.match)[ops["row"]]
    backward = np.zeros(len(slices.name.number), dtype=bool)
    backward[ops["row"][is_backward]] = True
    forward = np.flatnonzero(~is_backward)
    back = nearest(slices.parent, rows, backward)
    unclaimed = np.flatnonzero(back >= 0)
    if not len(forward) or not len(unclaimed):
        return none
    wanted = np.searchsorted(ops["row"], back[unclaimed])
    both = np.concatenate((forward, wanted))
    at = pack(numbered(ops["rank"][both], ops["sequence"][both]), ops["start_ns"][both])
    order = np.argsort(at[: len(forward)], kind="stable")
    place = np.searchsorted(at[: len(forward)][order], at[len(forward) :], side="left") - 1
    result = forward[order][np.maximum(place, 0)]
    same = (place >= 0) & (ops["sequence"][result] == ops["sequence"][wanted])
    same &= ops["rank"][result] == ops["rank"][wanted]
    none[unclaimed[same]] = ops["row"][result[same]]
    return none
