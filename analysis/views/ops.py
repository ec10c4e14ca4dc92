"""Ops: which operators take time on the host and on the device, and whether they use tensor cores.

Operators are correlated with the kernels they launched; where the input only holds a recorded operator table, that is
shown as it is.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ...loaders.trace import Trace
from ..contract.column import Column, pair_columns
from ..contract.options import Options, Side
from ..contract.view import CannotAnswer, View
from ..core import units
from ..core.call_tree import crossing_notes
from ..cycles.paired import OneRun, answered_by
from ..details.glances import operator_glance
from ..details.row_details import operator_sections
from ..operators.captured import with_captures
from ..operators.tree import operators_of
from ..operators.tree_view import TREE

COLUMNS = (
    Column("name", "operator", "text", "operator as recorded", width=34, order=0, elastic=True, pinned=True,
           role="name", pairs="key"),
    Column("calls", "calls", "count", "calls", width=7, order=2, role="count", pairs="sum"),
    Column("device_self_ns", "device self", "ns", "time of the device activities it launched itself", width=11,
           order=0, role="time", pairs="sum"),
    Column("device_total_ns", "device total", "ns", "device time including the operators it called", width=12, order=3,
           pairs="sum"),
    Column("host_self_ns", "host self", "ns", "host time outside operators and runtime calls it made", width=10,
           order=1, role="time", pairs="sum"),
    Column("host_total_ns", "host total", "ns", "host time", width=10, order=4, pairs="sum"),
    Column("tc_eligible", "TC able", "bool", "whether it, or an operator it called, can use tensor cores; empty where "
           "its name and its kernels' leave it open", width=7, order=6),
    Column("tc_self_ratio", "TC self", "fraction", "share of its own device time on tensor cores, by kernel names; "
           "empty where these leave it open", width=8, order=5, bar="share"),
    Column("tc_total_ratio", "TC total", "fraction", "share of its total device time on tensor cores", width=8,
           order=7, bar="share"),
)


def table(run: Trace, options: Options, side: Side) -> OneRun:
    """The operators of one run, totals about them, and notes. Raises CannotAnswer."""
    names = [column.name for column in COLUMNS]
    found = with_captures(run, operators_of(run))
    if found is not None:
        facts = _facts(found.frame) | {"device_ns": found.device_ns, "unclaimed_device_ns": found.unclaimed_ns}
        lost = found.unclaimed_ns / found.device_ns if found.device_ns else 0.0
        note = f"{units.percent(100 * lost)} of the device time was launched by no recorded operator."
        unclaimed = (note,) if found.unclaimed_ns > 0 else ()
        notes = (*unclaimed, *crossing_notes(found.crossing))
        return OneRun(found.frame.select(names), facts, notes=notes, sums=(_sentence(facts),))
    if run.has("operators"):
        frame = run.operators.select(names).collect().sort(
            "device_self_ns", "host_self_ns", pl.col("name").cast(pl.String), descending=[True, True, False],
            nulls_last=True,
        )
        facts = _facts(frame)
        note = "The input holds sums per operator as its own tool made them."
        return OneRun(frame, facts, notes=(note,), sums=(_sentence(facts),))
    raise CannotAnswer(f"{run.info.label} holds no operators; a PyTorch trace with CPU activities has them.")


def _facts(frame: pl.DataFrame) -> dict[str, Any]:
    return {
        "operators": frame.height, "calls": int(frame["calls"].sum()),
        "device_self_ns": int(frame["device_self_ns"].sum()), "host_self_ns": int(frame["host_self_ns"].sum()),
    }


def _sentence(facts: dict[str, Any]) -> str:
    return (
        f"{units.count(facts['operators'])} operators · {units.count(facts['calls'])} calls · "
        f"{units.duration(facts['device_self_ns'])} on the device · {units.duration(facts['host_self_ns'])} on the host"
    )


VIEW = View(
    "ops", COLUMNS, answered_by(COLUMNS, table), pair_columns(COLUMNS), noun="ops", details=operator_sections,
    glance=operator_glance, other=TREE,
)
