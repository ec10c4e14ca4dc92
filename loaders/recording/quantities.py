"""What counters are, by name: one table for every reader of counters.

A counter is a *sample* (a moment), a *held* value (it holds for ``dur_ns``), an *event* (a number that has no mean: an
XID, a throttle reason, a count of ECC errors) or *mixed* (rows of several devices that nothing tells apart). A column
that only says whose a row is, is a *key* and no counter. The unit is the recorded one unless the values cannot have it:
no GPU clock is above 10,000 MHz, no device takes more than 10 kW, and no share is above 1,000 %.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import polars as pl

from ..account.repeats import rewritten
from ..loader import Job
from ..schema import NAME
from ..trace import Trace
from .faults import OUT_OF_RANGE, Faults
from .values import LIMIT

EVENT, MIXED = "event", "mixed"
"""Kinds of counters that have no mean; null is any other."""
_EVENTS = re.compile(
    r"xid|\becc\b|_ecc_|ecc[._](?:errors|sbe|dbe)|throttl|clocks?[._]?event|retired|remap|\bpviol\b|\btviol\b|_violation$"
    r"|row_remap|bad_page|ras_|uncorrectable|correctable|\bsbecc\b|\bdbecc\b|\bpci\b(?=.*err)|replay_(?:counter|count)"
    r"|pcie_replay|link_flap|(?:crc|recovery|replay)_error", re.I)
_NO_EVENTS = re.compile(r"ecc\.mode|ecc_mode", re.I)
_KEYS = frozenset(
    "pid index uuid gpu_uuid serial gpu_serial minor_number gi ci gi_id ci_id mig mig_id mig_device gpu_instance_id "
    "compute_instance_id pci.bus_id gpu_bus_id pci_bus_id bdf gpu_bdf node_id partition_id xcp xcp_id process_id "
    "vbios_version driver_version".split()
)
_CLOCK = re.compile(r"clock|clk|freq", re.I)
_NO_CLOCK = re.compile(r"throttl|event|reason|cpu", re.I)
MOST_MHZ, MOST_WATTS, MOST_PERCENT = 10_000.0, 10_000.0, 1_000.0


class _Unit(NamedTuple):
    """Unit and values above it that mean another unit: the factor to correct them, None if they are wrong."""

    unit: str
    most: float
    factor: float | None
    instead: str


_LIMITS = (
    _Unit("MHz", MOST_MHZ, 1e-6, "Hz"), _Unit("W", MOST_WATTS, 1e-3, "mW"), _Unit("%", MOST_PERCENT, None, ""),
    _Unit("B", float(LIMIT), None, ""),
)


def is_key(name: str) -> bool:
    """Whether a column says whose a row is, so that its numbers are no counter."""
    return name.strip().lower() in _KEYS


def kind_of(name: str) -> str | None:
    """``event`` for counters without a mean, else null."""
    return EVENT if _EVENTS.search(name) and not _NO_EVENTS.search(name) else None


def checked(samples: pl.DataFrame, faults: Faults, table: str) -> pl.DataFrame:
    """Samples with ``value``, ``unit`` and ``kind`` checked: a clock in Hz under the unit MHz is converted and named
    once, a share that is none is counted and null."""
    names = samples["metric"].cast(pl.String).unique().drop_nulls().to_list()
    kinds = {name: known for name in names if (known := kind_of(name)) is not None}
    given = pl.col("kind") if "kind" in samples.columns else pl.lit(None, pl.String)
    kind = pl.col("metric").cast(pl.String).replace_strict(kinds, default=None, return_dtype=pl.String)
    samples = samples.with_columns(kind=pl.coalesce(given.cast(pl.String), kind).cast(NAME))
    if "unit" not in samples.columns:
        return samples
    unit, value = pl.col("unit").cast(pl.String), pl.col("value")
    for limit in _LIMITS:
        over = (unit == limit.unit) & (value.abs() > limit.most) & pl.col("kind").is_null()
        if limit.unit == "MHz":
            clocks = [name for name in names if _CLOCK.search(name) and not _NO_CLOCK.search(name)]
            over = over & pl.col("metric").cast(pl.String).is_in(clocks)
        wrong = samples.filter(over)["metric"].cast(pl.String)
        if wrong.is_empty():
            continue
        never = over if limit.factor is None else over & (value.abs() * limit.factor > limit.most)
        impossible = samples.filter(never)["metric"].cast(pl.String)
        for name, count in impossible.value_counts().rows():
            faults.wrong(table, name, OUT_OF_RANGE, count)
        samples = samples.with_columns(value=pl.when(~never.fill_null(False)).then(value))
        wrong = samples.filter(over)["metric"].cast(pl.String)
        if limit.factor is None or wrong.is_empty():
            continue
        for name in wrong.unique(maintain_order=True):
            said = f"{name} is recorded in {limit.instead} under the unit {limit.unit}: shown in {limit.unit}"
            faults.sentences += [] if said in faults.sentences else [said]
        samples = samples.with_columns(
            value=pl.when(over.fill_null(False)).then(value * limit.factor).otherwise(value))
    return samples


def with_checked(trace: Trace, job: Job) -> Trace:
    """The trace with its counters checked, of readers that write them before all are known."""
    if not trace.has("metrics"):
        return trace
    counters = trace.metrics.group_by("metric", "unit").agg(most=pl.col("value").abs().max()).collect(
        engine="streaming").with_columns(pl.col("metric", "unit").cast(pl.String))
    most = {limit.unit: limit.most for limit in _LIMITS}
    if not any(kind_of(name or "") or (size or 0) > most.get(unit, math.inf) for name, unit, size in counters.rows()):
        return trace
    faults = Faults()
    rows = checked(trace.metrics.collect(), faults, "the counters")
    return trace.with_tables(metrics=rewritten("metrics", rows.lazy(), job)).warn(*faults.warnings())
