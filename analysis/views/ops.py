"""Ops: which operators take time on the host and on the device, and whether they use tensor cores.

Operators are correlated with the kernels they launched; an input that only has a recorded operator table is shown as
recorded. The second layout is a tree: modules, the operators they call, kernels as leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.column import Column, pair_columns, with_cycle_sums
from ..contract.options import Options, Side
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..core.call_tree import crossing_notes
from ..core.callers import callers_of
from ..cycles.paired import OneRun, answered_by, cycle_sums, launched_in
from ..cycles.scope import with_host_of_parent
from ..details.glances import Glances, kernel_glance, operator_glance, summed_kernels
from ..details.listed import tail
from ..details.row_details import kernel_sections, operator_sections
from ..operators.call_paths import MODULE_KIND, OPERATOR_KIND, call_paths, kernels_below
from ..operators.captured import with_captures
from ..operators.tree import Operators, operators_of
from ..table.sides import paired_rows
from ..table.tree import in_order, texts_of

if TYPE_CHECKING:
    from ..cycles.whole import WholeCycles

COLUMNS = (
    Column("name", "operator", "text", "operator as recorded", width=34, order=0, elastic=True, pinned=True,
           role="name", pairs="key"),
    Column("calls", "calls", "count", "calls", width=7, order=2, role="count", pairs="sum"),
    Column("device_self_ns", "device self", "ns", "device time of the activities it launched itself", width=11, order=0,
           role="time", pairs="sum"),
    Column("device_total_ns", "device total", "ns", "device time including the operators it called", width=12, order=3,
           pairs="sum"),
    Column("host_self_ns", "host self", "ns", "host time excluding the operators and runtime calls it made", width=10,
           order=1, role="time", pairs="sum"),
    Column("host_total_ns", "host total", "ns", "host time", width=10, order=4, pairs="sum"),
    Column("tc_eligible", "TC able", "bool", "whether it, or an operator it called, can use tensor cores (empty if "
           "names do not tell)", width=7, order=6),
    Column("tc_self_ratio", "TC self", "fraction", "share of its own device time on tensor cores, by kernel name "
           "(empty if names do not tell)", width=8, order=5, bar="share", of="of its device time"),
    Column("tc_total_ratio", "TC total", "fraction", "share of its total device time on tensor cores", width=8,
           order=7, bar="share", of="of its device time"),
)


def table(run: Trace, options: Options, side: Side) -> OneRun:
    """The operators of one run, their totals, and notes. Raises CannotAnswer."""
    names = [column.name for column in COLUMNS]
    operators = _operators(run)
    if operators is not None:
        facts = _facts(operators.frame) | {
            "device_ns": operators.device_ns, "unclaimed_device_ns": operators.unclaimed_ns}
        lost = operators.unclaimed_ns / operators.device_ns if operators.device_ns else 0.0
        note = f"{units.percent(100 * lost)} of the device time was launched by no recorded operator."
        unclaimed = (note,) if operators.unclaimed_ns > 0 else ()
        notes = (*unclaimed, *crossing_notes(operators.crossing))
        frame = operators.frame.select(names)
        if not run.has("kernels"):
            frame = _on_the_host(frame).sort("host_self_ns", "name", descending=[True, False])
        return OneRun(frame, facts, notes=notes, sums=(_sentence(facts, run.has("kernels")),))
    if run.has("operators"):
        frame = run.operators.select(names).collect().sort(
            "device_self_ns", "host_self_ns", pl.col("name").cast(pl.String), descending=[True, True, False],
            nulls_last=True,
        )
        facts = _facts(frame)
        note = "The input holds sums per operator as its own tool made them."
        return OneRun(frame, facts, notes=(note,), sums=(_sentence(facts, True),))
    raise CannotAnswer(f"{run.info.label} holds no operators; a PyTorch trace with CPU activities has them.")


def _operators(run: Trace) -> Operators | None:
    """The operators of a run, most device time first; of cycles found on the device those that launched their work."""
    found, every = with_captures(run, operators_of(run)), with_host_of_parent(run)
    of_all = with_captures(every, operators_of(every)) if every is not None else None
    if found is None or of_all is None:
        return found
    launched = (*_BY_LAUNCH, "tc_eligible", "tc_self_ratio", "tc_total_ratio")
    frame = launched_in(found.frame, of_all.frame, COLUMNS, launched)
    return replace(found, frame=frame.sort("device_self_ns", "host_self_ns", pl.col("name").cast(pl.String),
                                           descending=[True, True, False]))


def _facts(frame: pl.DataFrame) -> dict[str, Any]:
    return {
        "operators": frame.height, "calls": int(frame["calls"].sum()),
        "device_self_ns": int(frame["device_self_ns"].sum()), "host_self_ns": int(frame["host_self_ns"].sum()),
    }


def _on_the_host(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of a run without device activities: device columns are null (unknown), not 0."""
    of_device = [name for name in frame.columns if name.startswith(("device_", "tc_", "idle_"))]
    return frame.with_columns(pl.lit(None, frame.schema[name]).alias(name) for name in of_device)


def _sentence(facts: dict[str, Any], device: bool) -> str:
    on_device = f"{units.duration(facts['device_self_ns'])} on the device · " if device else ""
    return (
        f"{units.count(facts['operators'])} operators · {units.count(facts['calls'])} calls · "
        f"{on_device}{units.duration(facts['host_self_ns'])} on the host"
    )


TREE_COLUMNS = (
    Column("tree", "module, operator, kernel", "text", "name, indented below its caller", 44, order=0, elastic=True,
           pinned=True, role="tree", pairs="key"),
    Column("name", "name", "text", "module, operator or kernel as recorded", 34, order=None, role="name", pairs="key"),
    Column("path", "path", "text", "names from the root down", 40, order=None, role="label", pairs="key"),
    Column("kind", "kind", "text", "module, operator, or the kind of device activity", 10, order=4, role="label",
           pairs="key"),
    Column("depth", "depth", "number", "number of enclosing modules and operators", 5, order=None, pairs="key"),
    Column("under", "below", "count", "number of rows below it in the tree", 6, order=None, pairs="key"),
    Column("count", "count", "count", "calls or launches", 8, order=1, role="count", pairs="sum"),
    Column("device_self_ns", "device self", "ns", "device time of the activities it launched itself, the kernels below "
           "it", 11, order=2, role="time", pairs="sum"),
    Column("device_total_ns", "device total", "ns", "device time including everything below it", 12, order=0,
           pairs="sum"),
    Column("idle_total_ns", "idle before", "ns", "device idle time that ended with a launch below it", 11, order=4,
           pairs="sum"),
    Column("host_self_ns", "host self", "ns", "host time excluding the modules and operators it calls", 10, order=3,
           pairs="sum"),
    Column("host_total_ns", "host total", "ns", "host time including everything below it (for a module also the "
           "backward operators of its operators)", 10, order=1, pairs="sum"),
)
TREE_PAIR_COLUMNS = pair_columns(TREE_COLUMNS)
_KEYS = ("path", "name", "kind", "depth", "parent")
_TREE_SUMS = (*(Column(name, name, "text", "", pairs="key") for name in _KEYS),
              *(column for column in TREE_COLUMNS if column.sums))
_BY_LAUNCH = ("device_self_ns", "device_total_ns")


def build_tree(runs: Runs, options: Options) -> Answer:
    """The tree of one run, most device time first, or of two runs, largest change first."""
    trees = [_launched_tree(run) for run in runs]
    launchers = filter(None, map(callers_of, runs))
    notes = tuple(dict.fromkeys(note for callers in launchers for note in callers.notes))
    if len(trees) == 1:
        result = in_order(trees[0], ("device_total_ns", "host_total_ns"))
        rows = result.with_columns(texts_of(result))
        listed = rows.select(column.name for column in TREE_COLUMNS)
        listed = listed if runs[0].has("kernels") else _on_the_host(listed)
        return Answer(listed.lazy(), _tree_facts(rows), (_tree_sentence(rows),), notes)
    per = cycle_sums(runs, options, _TREE_SUMS, trees, _tree_in, launched=True)
    of = "_per_cycle" if per.has_sums else ""
    result = in_order(paired_rows(*per.frames, with_cycle_sums(_TREE_SUMS)),
                    (f"device_total{of}_ns_delta", f"host_total{of}_ns_delta"))
    rows = result.with_columns(texts_of(result))
    by_cycle = (per.sentence(rows, _TREE_SUMS), _tree_sentence(rows, of)) if per.has_sums else ()
    return Answer(
        rows.select(column.name for column in TREE_PAIR_COLUMNS).lazy(), _tree_facts(rows) | per.facts,
        (_tree_sentence(rows),), (*notes, *per.notes), cycle_summary=by_cycle,
    )


def _tree_facts(rows: pl.DataFrame) -> dict[str, Any]:
    return {"nodes": rows.height, "depth": int(rows.select(pl.col("depth").max()).item() or 0) + 1}


def _tree_in(cycles: WholeCycles, options: Options, side: Side) -> pl.DataFrame:
    return _launched_tree(cycles.part, cycles.run)


def _launched_tree(run: Trace, whole: Trace | None = None) -> pl.DataFrame:
    """The tree of a run; of cycles found on the device with what launched their work. ``count`` of a kernel goes by its
    launch too, that of a call by the call itself."""
    if (every := with_host_of_parent(run)) is None:
        return _tree(run, whole)
    frame, of_all = (_tree(one, whole).with_columns(launches="count") for one in (run, every))
    rows = launched_in(frame, of_all, _TREE_SUMS, (*_BY_LAUNCH, "idle_total_ns", "launches"))
    is_call = pl.col("kind").is_in((MODULE_KIND, OPERATOR_KIND))
    return rows.with_columns(count=pl.when(is_call).then("count").otherwise(pl.col("launches").fill_null(0)))


def _tree(run: Trace, whole: Trace | None = None) -> pl.DataFrame:
    result = call_paths(run, whole)
    if result is None:
        why = "sums per operator, not calls" if run.has("operators") else "no modules and no operators"
        raise CannotAnswer(f"{run.info.label} holds {why}: who calls whom is not known.")
    if run.has("kernels.op_scope"):
        from ..operators.hlo_scopes import with_scopes

        result = with_scopes(run, result)
    return result


def _tree_sentence(rows: pl.DataFrame, per_cycle: str = "") -> str:
    """The numbers of rows; with ``per_cycle``, which its column names have, of those that ran in the cycles compared:
    a list leaves out the others."""
    every = rows.height
    if per_cycle:
        rows = rows.filter(pl.any_horizontal(cs.matches(f"{per_cycle}.*_[ab]$").fill_null(0) != 0))
    counted = {kind: count for kind, count in rows.group_by("kind").len().rows()}
    modules, operators = counted.get(MODULE_KIND, 0), counted.get(OPERATOR_KIND, 0)
    kernels = sum(counted.values()) - modules - operators
    return " · ".join(
        f"{units.counted(number, one, many)}{what}" for number, one, many, what in (
            (modules, "module", "modules", ""), (operators, "operator", "operators", " by their path"),
            (kernels, "kernel", "kernels", " under them"),
            (every - rows.height, "more path", "more paths", " only outside whole cycles")) if number
    )


def _tree_details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    if row["kind"] == MODULE_KIND:
        return _below(row, [_launched_tree(run) for run in runs])
    if row["kind"] == OPERATOR_KIND:
        return operator_sections(row, runs, options)
    return kernel_sections({"name": row["name"]}, runs, options)


def _tree_glance(runs: Runs, options: Options) -> Glances:
    operators, kernels = operator_glance(runs, options), kernel_glance(runs, options)
    trees = [_launched_tree(run) for run in runs]

    def of(row: dict[str, Any]) -> list[Section]:
        if row["kind"] == MODULE_KIND:
            return _below(row, trees)
        return operators(row) if row["kind"] == OPERATOR_KIND else kernels({"name": row["name"]})

    return of


def _below(row: dict[str, Any], trees: list[pl.DataFrame]) -> list[Section]:
    """The kernels anywhere below a module."""
    return [
        section for number, tree in enumerate(trees)
        for section in summed_kernels(f"Kernels below it{tail(number, trees)}", kernels_below(tree, row["path"]))
    ]


TREE = View(
    "ops", TREE_COLUMNS, build_tree, pair_columns=TREE_PAIR_COLUMNS, noun="paths", details=_tree_details,
    glance=_tree_glance,
)
VIEW = View(
    "ops", COLUMNS, answered_by(COLUMNS, table, launched=True), pair_columns(COLUMNS),
    noun="ops", details=operator_sections, glance=operator_glance, other=TREE,
)
