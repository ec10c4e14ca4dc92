"""View ``diff``: what changed between two runs, with what confidence, at what cost, and which resource explains it.

Steps, each a file of ``diff``: comparability of the runs; time per function and cycle; test of the cycle time;
functions with a significant change; resources that changed; the changes these resources explain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ..contract.options import Options
from ..contract.sections import Section
from ..contract.view import Answer, Runs, View
from ..diff import by_cycle
from ..diff.headline import prepared_pair
from ..diff.present.columns import COLUMNS, arrows


def build(runs: Runs, options: Options) -> Answer:
    """Ranked functions and verdict for two runs. Raises CannotAnswer where they have nothing to compare."""
    answer = _compared(runs, options)
    table = answer.frame.collect()
    alike = answer.facts.get("comparability", {}).get("operator_likeness")
    if alike is not None and alike < 1:
        from ..diff.present.per_flop import with_time_per_flop  # only runs of different operators or shapes need it

        table = with_time_per_flop(table, (runs[0], runs[1]))
    return replace(answer, frame=arrows(table).lazy())


def _compared(runs: Runs, options: Options) -> Answer:
    run_a, run_b = runs
    if run_a.has("comparison"):
        from ..diff.finished import finished  # only recordings that hold a finished comparison

        return finished(runs)
    ready = prepared_pair((run_a, run_b), options)
    if ready is None:
        from ..diff import without_cycles

        return without_cycles.by_launch((run_a, run_b), options)
    return by_cycle.compare((run_a, run_b), ready, options)


def _details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    from ..details.suspects import suspect_sections  # needed only when a row is opened

    return suspect_sections(row, runs, options)


def _glance(runs: Runs, options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    from ..details.suspects import function_glance  # needed only in the app

    return function_glance(runs, options)


VIEW = View("diff", COLUMNS, build, alternates=("suspicion",), one_run=False,
            row_id=("function", "device", "kind", "pid_a", "pid_b", "rank"), details=_details, glance=_glance)
