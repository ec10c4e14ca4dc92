"""View ``diff``: what changed between two runs, with what confidence, at what cost, and which resource explains it.

Steps, each a file of ``diff``: comparability of the runs; time per function and cycle; test of the cycle time;
functions with a significant change; resources that changed; the changes these resources explain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
from msgspec.structs import replace

from ..contract.options import Options
from ..contract.sections import Section
from ..contract.view import Answer, Runs, View
from ..diff import by_cycle
from ..diff.columns import COLUMNS, arrows
from ..diff.headline import prepared_pair
from ..overview.lines import lines_of_pair
from ..table.row_ids import row_ids


def build(runs: Runs, options: Options) -> Answer:
    """Ranked functions and verdict for two runs. Raises CannotAnswer where they have nothing to compare."""
    answer = _compared(runs, options)
    table = answer.frame.collect()
    checks = answer.facts.get("same_work", {}).get("checks", ())
    if any(one["evidence"] == "operators" and (one["likeness"] or 0.0) < 1 for one in checks):
        from ..diff.per_flop import with_time_per_flop  # only runs of different operators or shapes need it

        table = with_time_per_flop(table, (runs[0], runs[1]))
    facts, summary = dict(answer.facts), answer.summary
    if (facts.get("same_work") or {}).get("answer") in ("no", "unknown") and all(run.has("kernels") for run in runs):
        from ..diff.per_flop import side_by_side  # only runs that are not judged need it

        known = next(((one["a"], one["b"]) for one in checks if one["evidence"] == "flops"), (None, None))
        beside = side_by_side((runs[0], runs[1]), options, known)
        if beside is not None:
            facts["side_by_side"] = beside.facts
            summary = (*summary[:-1], f"Compare {beside.sentence}", *summary[-1:])
    facts["lines"] = lines_of_pair(summary, facts.get("cycle_time"), _why_no_cause(facts), _grown(facts, table))
    table = arrows(_with_ids(table, facts))
    return replace(answer, frame=table.lazy(), facts=facts, summary=summary)


def _grown(facts: dict[str, Any], table: pl.DataFrame) -> dict[str, bool]:
    """Whether each device works longer in B; where no work of devices is known, whether all rows together do."""
    work = facts.get("work") or ()
    if work:
        return {str(one["device"]): one["busy_b_ms"] > one["busy_a_ms"] for one in work}
    return {"": (table["b_ms"].sum() or 0) > (table["a_ms"].sum() or 0)}


def _why_no_cause(facts: dict[str, Any]) -> str:
    """Why no cause is named: what was not recorded, or that nothing is judged."""
    if (facts.get("same_work") or {}).get("answer") not in (None, "yes"):
        return "nothing shows that both runs do the same work"
    if (facts.get("cycle_time") or {}).get("verdict") in ("unchanged", "cannot tell"):
        return "no change is proved"
    return "" if facts.get("resources") else "clocks and other counters were not recorded"


def _with_ids(table: pl.DataFrame, facts: dict[str, Any]) -> pl.DataFrame:
    """The table with ``parent``, the id of the row each is part of, and ``lost``, its share of the change; the causes
    in the fact ``change`` get the ids of their rows."""
    ids = row_ids(VIEW, 2)
    assert ids is not None
    rows = table.select(pl.col(name).cast(pl.String) if table.schema[name] == pl.Categorical else name
                        for name in ids.columns).rows()
    names = ids.of(rows, range(table.height))
    keys = table.select(
        pl.col("function", "device", "kind", "part_of", "part_on").cast(pl.String), "pid_a", "pid_b").rows()
    heads = {(function, device, pid_a, pid_b): one for one, (function, device, _, part_of, _, pid_a, pid_b) in zip(
        names, keys, strict=True) if part_of is None}
    parents = [None if part_of is None else heads.get((part_of, part_on, pid_a, pid_b))
               for _, _, _, part_of, part_on, pid_a, pid_b in keys]
    table = table.with_columns(parent=pl.Series(parents, dtype=pl.String))
    change = facts.get("change")
    if change is None:
        return table
    places: dict[tuple[str, str | None, str], int] = {}
    for at, (function, device, kind, *_) in enumerate(keys):
        places.setdefault((function, device, kind), at)
    lost: list[float | None] = [None] * table.height
    causes = []
    for one in change["causes"]:
        function = f"idle: {one['name']}" if one["kind"] == "idle" else one["name"]
        place = places.get((function, change["device"], one["kind"]))
        own = [] if place is None else [names[place], *(
            name for name, parent in zip(names, parents, strict=True) if parent == names[place])]
        causes.append({**one, "rows": own})
        if place is not None and change["delta_ms"]:
            lost[place] = min(1.0, one["delta_ms"] / change["delta_ms"])
    facts["change"] = {**change, "causes": causes}
    called = (facts.get("cycle_time") or {}).get("verdict") in ("slower", "faster")
    return table.with_columns(lost=pl.Series(lost if called else [None] * table.height, dtype=pl.Float64))


def _compared(runs: Runs, options: Options) -> Answer:
    run_a, run_b = runs
    if run_a.has("comparison"):
        from ..diff.finished import finished  # only recordings that hold a finished comparison

        return finished(runs)
    ready = prepared_pair((run_a, run_b), options)
    if ready is None:
        from ..diff.by_launch import by_launch  # only runs without common cycles

        return by_launch((run_a, run_b), options)
    return by_cycle.compare((run_a, run_b), ready, options)


def _details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    from ..details.suspects import suspect_sections  # needed only when a row is opened

    return suspect_sections(row, runs, options)


def _glance(runs: Runs, options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    from ..details.suspects import function_glance  # needed only in the app

    return function_glance(runs, options)


VIEW = View("diff", COLUMNS, build, alternates=("suspicion",), one_run=False,
            row_id=("function", "device", "kind", "pid_a", "pid_b", "rank"), details=_details, glance=_glance)
