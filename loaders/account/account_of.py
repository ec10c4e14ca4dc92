"""The account of a recording: read from the store, computed, or, of a part of a recording, taken from the whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import polars as pl

from . import CALL_BY, OP_BY, Account
from .arrays import Bytes, rows_of, values_of
from .calls import CALLS, NAMES, launch_calls, missing_calls
from .operators import operators_of
from .tables import Recorded, slices_of, work_of

STORED_BYTES = 20_000_000
"""Bytes of a recording from which on its account is stored: a smaller one is computed as fast as it is read."""


class Accountable(Recorded, Protocol):
    """A Trace."""

    @property
    def derived_store(self) -> Any:
        """Where derived frames are kept, None without."""
        ...

    @property
    def part_of(self) -> Any:
        """The ``PartOf`` of a part of a recording, None of a whole one."""
        ...

    def derived(self, name: str, find: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """See ``Trace.derived``."""
        ...

    def account(self) -> Account:
        """See ``Trace.account``."""
        ...


def account_of(trace: Accountable) -> Account:
    """The account of a recording: stored, computed, or, of a part of a recording, taken from the whole."""
    whole = trace
    while whole.part_of is not None:
        whole = whole.part_of.parent
    if whole is not trace and (part := _of_part(trace, whole)) is not None:
        return part
    computed: list[Account] = []

    def now() -> Account:
        if not computed:
            computed.append(_computed(trace))
        return computed[0]

    if (trace.info.bytes or 0) < STORED_BYTES or trace.derived_store is None:
        return now()
    return Account(
        trace.derived("account", lambda: now().activities), trace.derived("account-missing", lambda: now().missing),
        json.loads(trace.derived("account-links", lambda: _cell(now().facts))["facts"][0]),
    )


def _cell(facts: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame({"facts": [json.dumps(facts)]})


def _of_part(trace: Accountable, whole: Accountable) -> Account | None:
    """The account of some rows of a recording; None if the host table does not say which rows of it are there."""
    rows = None
    if trace.host is not whole.host:
        rows = trace.host.select("index").collect(engine="streaming")["index"]
        if rows.null_count():
            return None
    account = whole.account()
    have = whole.kernels.select("index").collect(engine="streaming")["index"]
    here = trace.kernels.select("index").collect(engine="streaming")["index"]
    activities = account.activities
    if not here.equals(have):
        at = pl.DataFrame({"index": have}).with_row_index("at")
        places = here.to_frame().join(at, on="index", how="left", maintain_order="left")["at"]
        activities = activities[places]
    missing = account.missing
    if rows is not None:
        activities = activities.with_columns(
            _place_of(activities[name], rows).alias(name) for name in ("call", "op"))
        missing = missing.with_columns(_place_of(missing["row"], rows).alias("row")).drop_nulls("row")
    return Account(activities, missing, account.facts)


def _place_of(values: pl.Series, rows: pl.Series) -> pl.Series:
    """The position in ``rows`` (ascending) of each value, null where it is not there."""
    if not len(rows):
        return values.clear(len(values))
    at = rows.search_sorted(values.fill_null(-1), side="left").clip(0, len(rows) - 1).cast(pl.Int32)
    same = rows.gather(at).cast(pl.Int64) == values.cast(pl.Int64)
    return pl.select(pl.when(same).then(at)).to_series()


def _computed(trace: Recorded) -> Account:
    """The account of a recording, computed from its tables."""
    work, (calls, ops) = work_of(trace), slices_of(trace, CALLS, NAMES)
    call, call_by = launch_calls(work, calls)
    op, op_by, external = operators_of(work, calls, ops, call, call_by)
    missing, count = missing_calls(work, calls, call)
    linked = np.maximum(call, 0)
    graph = work.graph.copy()
    if len(calls.row):
        graph |= (call >= 0) & calls.named["graph"][linked]
    activities = pl.DataFrame({
        "call": rows_of(calls.row, call), "op": rows_of(ops.row, op),
        "call_by": call_by, "op_by": op_by,
        "launch_ns": values_of(calls.start, call), "launch_pid": values_of(calls.pid, call), "graph": graph,
    })
    counted = work.counted
    facts = {
        "call": _counts(CALL_BY, call_by[counted]), "op": _counts(OP_BY, op_by[counted]), "external_id": external,
        "lost": int((~missing["cut"]).sum()), "cut": int(missing["cut"].sum()),
        "launch_calls": count, "repeats": int(trace.info.facts.get("repeats", 0)),
        "timeless": int(work.timeless.sum()),
    }
    return Account(activities, missing, facts)


def _counts(words: tuple[str, ...], numbers: Bytes) -> dict[str, int]:
    counted = np.bincount(numbers, minlength=len(words)).tolist()
    return {word: count for word, count in zip(words, counted, strict=True) if count}


def processes_of(trace: Accountable) -> list[dict[str, Any]]:
    """The processes with device activities: name, rank, devices and number of activities."""
    names = trace.info.facts.get("processes") or {}
    rank = pl.col("rank")
    if not trace.has("host") and not trace.info.facts.get("files"):
        rank = pl.lit(None, pl.Int64).alias("rank")  # ranks in the arguments of activities tell no processes
    rows = trace.kernels.filter(pl.Series(work_of(trace).counted)).group_by(rank).agg(
        devices=pl.col("device").drop_nulls().unique().cast(pl.String).sort(), activities=pl.len(),
        pid=pl.col("pid").drop_nulls().first(),
    ).sort("rank", nulls_last=True).collect(engine="streaming")
    return [
        {"process": names.get(str(rank)) or (None if pid is None else str(pid)), "rank": rank, "devices": devices,
         "activities": count}
        for rank, devices, count, pid in rows.select("rank", "devices", "activities", "pid").rows()
    ]
