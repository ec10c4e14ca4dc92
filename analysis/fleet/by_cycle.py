"""What each device of a recording did in each of its cycles, so that a dataset can be limited to one of them."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...loaders import schema
from ...loaders.trace import Trace
from ..core.intervals import Ints, union_per_owner
from ..cycles.account import Cycles
from ..cycles.assignment import in_cycles
from ..ranks.memory import memory_by_cycle, of_place

_KEYS = ("rank", "device", "cycle")


def cycle_devices(run: Trace, cycles: Cycles) -> pl.DataFrame:
    """The table ``cycle_device_sums`` of the run, in order of rank, device and cycle."""
    rows = (
        in_cycles(run, cycles.frame, cycles.device_time).filter(pl.col("kind").cast(pl.String) != "sync")
        .select("rank", pl.col("device", "kind").cast(pl.String), "cycle", "start_ns", "dur_ns")
        .drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    )
    keys = rows.select(_KEYS).unique().sort(_KEYS).with_row_index("owner")
    rows = rows.join(keys, on=_KEYS, how="left", nulls_equal=True)
    kind = rows["kind"]
    talks, works = _time(rows, kind == "collective", keys.height), _time(rows, kind == "kernel", keys.height)
    either = kind.is_in(["collective", "kernel"])
    known = np.isin(np.arange(keys.height), rows["owner"].filter(either).to_numpy())
    found = keys.with_columns(
        busy_ns=pl.Series(_time(rows, None, keys.height)),
        comm_ns=pl.Series(talks).set(pl.Series(~known), None),
        exposed_ns=pl.Series(_time(rows, either, keys.height) - works).set(pl.Series(~known), None),
    )
    memory = memory_by_cycle(run, cycles.frame)
    taken = [
        of_place(memory.get(cycle, {}), rank, device) for rank, device, cycle in found.select(_KEYS).rows()
    ]
    return schema.conform("cycle_device_sums", found.with_columns(
        pl.Series(f"memory_{name}", [getattr(one, name) for one in taken], dtype=pl.Float64)
        for name in ("peak", "reserved", "total")
    ).lazy()).collect()


def _time(rows: pl.DataFrame, which: pl.Series | None, owners: int) -> Ints:
    """Time that these rows of each owner cover together, ns."""
    some = rows if which is None else rows.filter(which)
    starts = some["start_ns"].to_numpy()
    first, last, of = union_per_owner(
        starts, starts + some["dur_ns"].to_numpy(), some["owner"].cast(pl.Int64).to_numpy()
    )
    return np.bincount(of, weights=last - first, minlength=owners).astype(np.int64)
