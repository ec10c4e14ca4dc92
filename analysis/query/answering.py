"""The views that can answer for given runs, and the reason if one cannot."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ...loaders.trace import REDUCED, TABLE_NAMES, Trace
from ..contract.view import CannotAnswer, Runs, ScopeRefused
from ..views import OF_ONE_RUN, holds

_WITHOUT_DEVICE_WORK = frozenset(("metrics", "allocations", "host", "host_stats"))
"""Tables that a run without device work may have. With operators or steps it still has an overview."""
ANSWERED = frozenset({"overview", "cycles", "kernels", "collectives", "ranks", "idle", "diff", "triage", "whatif"})
"""Views that can answer from a reduced dataset; if one of these cannot, its own reason is shown."""


def reason(view: str, runs: Runs, why: CannotAnswer) -> CannotAnswer:
    """The reason why the view cannot answer: the data was left out of a reduced dataset, or the view's own reason."""
    if isinstance(why, ScopeRefused):
        return why
    if any(run.has("history") for run in runs):
        return CannotAnswer(f"The {view} view {OF_ONE_RUN}.")
    reduced = [run.info.label for run in runs if REDUCED in run.info.facts]
    if not reduced or view in ANSWERED:
        return CannotAnswer(f"{why}{_of_each(runs)}")
    are = "are reduced datasets" if len(reduced) > 1 else "is a reduced dataset"
    return CannotAnswer(
        f"{' and '.join(reduced)} {are} without the data of the {view} view. "
        "Open the recording of one rank instead; the ranks view shows which."
    )


def _of_each(runs: Runs) -> str:
    """The content of each of two runs and the view that shows it, if the views differ; else ''."""
    views = [next(iter(without_device_work((run,))), "overview") for run in runs]
    if len(set(views)) < 2:
        return ""
    a, b = (", ".join(holds(run)) or "sums" for run in runs)
    return (f" A holds {a}; B holds {b}: --run a --view {views[0]} and --run b --view {views[1]} show each alone, "
            "x in the app.")


def explained(runs: Sequence[Trace]) -> tuple[str, ...]:
    """The view that shows the profiler's own rule results, for serialised profiles, which have no timeline."""
    return ("sections",) if any(run.has("launch_rules") and run.info.serialised for run in runs) else ()


def without_device_work(runs: Sequence[Trace]) -> tuple[str, ...]:
    """The views that can answer for runs without any recorded device activity or operator (ranges, host calls, memory,
    counters) or for a history; empty if there is device work, or nothing at all."""
    filled = {name for name in TABLE_NAMES if any(run.has(name) for run in runs)}
    if "history" in filled:
        return ("history",)
    if filled == {"enqueued"}:
        return ("ranks",)
    if not filled <= _WITHOUT_DEVICE_WORK:
        return ()
    lists = host_lists(runs)
    if "ops" in lists:
        return ()
    return (*lists, *(name for name, table in (("memory", "allocations"), ("metrics", "metrics")) if table in filled))


def host_lists(runs: Sequence[Trace]) -> tuple[str, ...]:
    """The views that list host activity, of those for which these runs have data."""
    from ..views.calls import CALL_KINDS
    from ..views.ranges import RANGE_KINDS

    kinds: set[str] = set()
    for table in ("host", "host_stats"):
        for run in runs:
            if run.has(table):
                kinds.update(run.table(table).select(pl.col("kind").unique().cast(pl.String)).collect().to_series())
    lists = {"ops": ("op",), "ranges": RANGE_KINDS, "calls": CALL_KINDS}
    return tuple(name for name, some in lists.items() if kinds.intersection(some))
