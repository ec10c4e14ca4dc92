"""Launch call, operator, module and Python frame of every device activity.

Call and operator are those of the run's account (``loaders.account``). A backward operator runs without any Python
line of its own, so its module and frame are those of the forward operator with the same sequence number. The kernels
of a graph are launched by a replay, which does not say who captured them: they get operator, module and frame from the
graph's capture, or what is around the replay if it was not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ...loaders.trace import OP_BY, Trace
from .batches import integer_arrays, numbered
from .call_tree import HostSlices, Ints, Mask, nearest, pack, slices_of
from .captures import Joined, facts_without_host, joined
from .derived import derived

MODULE = "nn.Module: "  # Recorded prefix of a module's name.
_LINE = re.compile(r".+\.pyx?\(\d+\)")
_LIBRARY = re.compile(r"(.*[/\\])?(torch|site-packages[/\\]torch|functorch|triton)[/\\]|<")
_BACKWARD = re.compile(r"autograd::engine::|.*Backward\d*$")
FRAME = {name: NAME for name in ("op", "op_forward", "module", "frame")} | {"launch_ns": pl.Int64()}
"""Columns of ``Callers.frame``."""


class Callers(Struct, frozen=True):
    """One entry per row of ``run.kernels``, in order. ``frame`` has the columns ``FRAME``; ``call`` and ``operator``
    are the host-table rows of the launch call and the operator, -1 for none. ``replayed`` counts graph activities whose
    operator was not recorded: theirs is that around the replay."""

    frame: pl.DataFrame
    call: Ints
    operator: Ints
    replayed: int
    joined: Joined | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader: captures joined and refused, launches without a recorded operator."""
        notes = [*self.joined.notes] if self.joined is not None else []
        if self.replayed:
            notes.append(
                f"{self.replayed:,} launches came from graph replays; the capturing operators were not recorded.")
        return tuple(notes)


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


def links_of(run: Trace) -> dict[str, Any]:
    """The run's ``links``, with the kernels that a capture names counted as such."""
    callers = callers_of(run)
    links = run.links
    if callers is None or callers.joined is None:
        return links
    named = pl.Series(callers.joined.named)
    counts = dict(links["op"])
    for number, count in run.account().activities["op_by"].filter(named).value_counts().rows():
        counts[OP_BY[number]] -= count
    counts["capture"] = int(named.sum())
    return links | {"op": {how: count for how, count in counts.items() if count}}


def capture_facts(run: Trace) -> dict[str, Any]:
    """``capture``: ``file matched of refused`` of the run's capture, a list of them where there are several; nothing if
    there is none."""
    callers = callers_of(run)
    joins = None if callers is None else callers.joined
    facts = facts_without_host(run) if callers is None else [] if joins is None else joins.facts
    return {"capture": facts[0] if len(facts) == 1 else facts} if facts else {}


def missing_notes(run: Trace) -> list[str]:
    """A note on launch calls without a record of their kernel."""
    lost = int((~run.account().missing["cut"]).sum()) if run.has("host") else 0
    if not lost:
        return []
    calls = "launch call has" if lost == 1 else "launch calls have"
    any_kernel = run.has("kernels.kind=kernel") or run.has("kernels.kind=collective")
    return [f"{lost:,} {calls} no kernel in the file: lost by the profiler"
            f"{'' if any_kernel else ', or kernels were not traced'}."]


def call_rows(run: Trace) -> Ints:
    """The host row of each activity's launch call, -1 for none."""
    return run.account().activities["call"].fill_null(-1).cast(pl.Int64).to_numpy()


def operator_rows(run: Trace, replays: bool = True) -> Ints:
    """The host row of each activity's operator, -1 for none. ``replays``: of a graph's kernels that of its replay."""
    activities = run.account().activities
    rows = activities["op"].fill_null(-1).cast(pl.Int64).to_numpy()
    return rows if replays else np.where((activities["op_by"] == OP_BY.index("replay")).to_numpy(), -1, rows)


def operators_of_launches(run: Trace) -> pl.Series | None:
    """The operator of each activity (column ``op`` of ``FRAME``); None as in ``callers_of``."""
    callers: Callers | None = run.remembered(_MEMO)
    if callers is not None:
        return callers.frame["op"]
    if run.captures is not None:
        callers = callers_of(run)
        return None if callers is None else callers.frame["op"]
    if not run.has("host") or not run.has("kernels"):
        return None
    return slices_of(run).names_of(operator_rows(run)).alias("op")


def launchers(run: Trace, index: pl.Series, columns: Sequence[str] = ("op",)) -> pl.DataFrame:
    """``op`` of some activities (values of ``kernels.index``) and, where asked for, ``call``, the host row of that
    operator's call, -1 for none."""
    every = run.kernels.select("index").collect(engine="streaming").with_columns(
        op=operators_of_launches(run), call=pl.Series(operator_rows(run)))
    return index.to_frame("index").join(every, on="index", how="left", maintain_order="left").select(columns)


def _callers(run: Trace) -> Callers | None:
    if not run.has("host") or not run.has("kernels"):
        return None
    frame = derived(run, _MEMO, lambda: _callers_frame(run, slices_of(run)))
    call, operator = (frame[name].cast(pl.Int64).to_numpy() for name in ("call", "operator"))
    replayed = frame["replayed"].to_numpy()
    captured = joined(run)
    columns = frame.select(*FRAME)
    if captured is not None:
        columns, replayed = _with_captures(columns, captured), replayed & (captured.capture < 0)
    return Callers(columns, call, operator, int(replayed.sum()), captured)


def _with_captures(frame: pl.DataFrame, captures: Joined) -> pl.DataFrame:
    """The callers, with those of graph kernels taken from their captures; where a capture has no operator around a
    launch, the replay's stays."""
    for at, captured in enumerate(captures.captures):
        rows = np.flatnonzero(captures.capture == at)
        if not len(rows):
            continue
        slices, launch = HostSlices(captured.run), pl.Series(captures.launch[rows])
        forward = forward_of(captured.run, slices, captured.operator)
        base = np.where(captured.operator >= 0, captured.operator, captured.rows)
        module, line = places_of(slices).around(slices, np.where(forward >= 0, forward, base))
        at_rows, texts = pl.Series(rows), {}
        for name, column in {"op": slices.names_of(captured.operator), "op_forward": slices.names_of(forward),
                             "module": module, "frame": line}.items():
            before, now = frame[name].cast(pl.String), column[launch].cast(pl.String)
            if name == "op":
                now = pl.select(pl.coalesce(now, before[at_rows])).to_series()
            texts[name] = before.scatter(at_rows, now)
        frame = frame.with_columns(series.alias(name).cast(NAME) for name, series in texts.items())
    return frame


def _callers_frame(run: Trace, slices: HostSlices) -> pl.DataFrame:
    """``FRAME`` with ``call`` and ``operator``, as in ``Callers``, and whether each was ``replayed`` by a graph."""
    activities = run.account().activities
    call, operator = call_rows(run), operator_rows(run)
    base = np.where(operator >= 0, operator, call)
    unknown = activities["op_by"].is_in([OP_BY.index(how) for how in ("none", "replay")])
    forward = forward_of(run, slices, operator)
    module, frame = places_of(slices).around(slices, np.where(forward >= 0, forward, base))
    columns = {
        "op": slices.names_of(operator), "op_forward": slices.names_of(forward), "module": module, "frame": frame,
        "launch_ns": activities["launch_ns"],
    }
    return pl.DataFrame(columns, schema=FRAME).with_columns(
        call=pl.Series(call.astype(np.int32)), operator=pl.Series(operator.astype(np.int32)),
        replayed=activities["graph"] & unknown,
    )


def _with_rows(run: Trace, *conditions: pl.Expr) -> pl.LazyFrame:
    """The host slices that meet the conditions, with their ``row``."""
    return run.host.with_row_index("row").filter(*conditions)


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
