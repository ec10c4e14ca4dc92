"""The operators view's other shape: modules, what they call, and the kernels at the end of it, as a tree."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..contract.column import Column, pair_columns, with_cycle_sums
from ..contract.options import Options
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..core.callers import callers_of
from ..cycles.paired import cycle_sums
from ..details.glances import Glances, kernel_glance, operator_glance, summed_kernels
from ..details.listed import tail
from ..details.row_details import kernel_sections, operator_sections
from ..table.sides import beside
from .call_paths import MODULE_KIND, OPERATOR_KIND, call_paths, in_order, kernels_below, texts_of

COLUMNS = (
    Column("tree", "module, operator, kernel", "text", "the name, under what calls it", 44, order=0, elastic=True,
           pinned=True, role="tree", pairs="key"),
    Column("name", "name", "text", "module, operator or kernel as recorded", 34, order=None, role="name", pairs="key"),
    Column("path", "path", "text", "names from the root on", 40, order=None, role="label", pairs="key"),
    Column("kind", "kind", "text", "module, operator, or the kind of device activity", 10, order=4, role="label",
           pairs="key"),
    Column("depth", "depth", "number", "how many modules and operators are around it", 5, order=None, pairs="key"),
    Column("under", "below", "count", "rows that follow and are below it", 6, order=None, pairs="key"),
    Column("count", "count", "count", "calls, or launches", 8, order=1, role="count", pairs="sum"),
    Column("device_self_ns", "device self", "ns", "time of the device activities it launched itself, which are the "
           "kernels under it", 11, order=2,
           role="time", pairs="sum"),
    Column("device_total_ns", "device total", "ns", "device time with that of everything below it", 12, order=0,
           pairs="sum"),
    Column("host_self_ns", "host self", "ns", "host time outside of the modules and operators it calls", 10, order=3,
           pairs="sum"),
    Column("host_total_ns", "host total", "ns", "host time with that of everything below it; of a module also that "
           "of the backward operators of its operators", 10, order=1, pairs="sum"),
)
PAIR_COLUMNS = pair_columns(COLUMNS)
_KEYS = ("path", "name", "kind", "depth", "parent")


def build(runs: Runs, options: Options) -> Answer:
    """The tree of one run, most device time first, or of two, the largest change first."""
    trees = [_tree(run) for run in runs]
    notes = tuple(dict.fromkeys(note for run in runs for note in _notes(run)))
    if len(trees) == 1:
        made = in_order(trees[0], ("device_total_ns", "host_total_ns"))
        rows = made.with_columns(texts_of(made))
        return Answer(rows.select(column.name for column in COLUMNS).lazy(), _facts(rows), (_sentence(rows),), notes)
    keys = tuple(Column(name, name, "text", "", pairs="key") for name in _KEYS)
    sums = (*keys, *(column for column in COLUMNS if column.sums))
    per = cycle_sums(runs, options, sums, trees, lambda cycles, options, side: _tree(cycles.part))
    of = "_per_cycle" if per.known else ""
    made = in_order(beside(*per.frames, with_cycle_sums(sums)),
                    (f"device_total{of}_ns_delta", f"host_total{of}_ns_delta"))
    rows = made.with_columns(texts_of(made))
    said = _sentence(rows)
    return Answer(
        rows.select(column.name for column in PAIR_COLUMNS).lazy(), _facts(rows) | per.facts, (said,),
        (*notes, *per.notes), cycle_summary=(per.sentence(rows, sums), said) if per.known else (),
    )


def _facts(rows: pl.DataFrame) -> dict[str, Any]:
    return {"nodes": rows.height, "depth": int(rows.select(pl.col("depth").max()).item() or 0) + 1}


def _tree(run: Any) -> pl.DataFrame:
    result = call_paths(run)
    if result is None:
        why = "sums per operator, not calls" if run.has("operators") else "no modules and no operators"
        raise CannotAnswer(f"{run.info.label} holds {why}: who calls whom is not known.")
    return result


def _notes(run: Any) -> tuple[str, ...]:
    callers = callers_of(run)
    return callers.notes if callers is not None else ()


def _sentence(rows: pl.DataFrame) -> str:
    counted = {kind: count for kind, count in rows.group_by("kind").len().rows()}
    modules, operators = counted.get(MODULE_KIND, 0), counted.get(OPERATOR_KIND, 0)
    kernels = sum(counted.values()) - modules - operators
    return " · ".join(
        f"{units.count(number)} {what}" for number, what in (
            (modules, "modules"), (operators, "operators by their path"), (kernels, "kernels under them")) if number
    )


def _details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    if row["kind"] == MODULE_KIND:
        return _below(row, [_tree(run) for run in runs])
    if row["kind"] == OPERATOR_KIND:
        return operator_sections(row, runs, options)
    return kernel_sections({"name": row["name"]}, runs, options)


def _glance(runs: Runs, options: Options) -> Glances:
    operators, kernels = operator_glance(runs, options), kernel_glance(runs, options)
    trees = [_tree(run) for run in runs]

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


TREE = View("ops", COLUMNS, build, pair_columns=PAIR_COLUMNS, noun="paths", details=_details, glance=_glance)
