"""The panes: each shows one view.

A view not listed here gets the plain table pane, so that a new table view needs no change. A view with a picture of its
own lists its pane here: one file each, imported when the view is first opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .table import TablePane

SPECIAL: dict[str, str] = {
    "ops": "tree.TreePane",
    "overview": "overview.OverviewPane",
    "collectives": "collectives.CollectivesPane",
    "cycles": "cycles.CyclesPane",
    "diff": "diff.DiffPane",
    "history": "history.HistoryPane",
    "idle": "idle.IdlePane",
    "kernels": "kernels.KernelsPane",
    "memory": "memory.MemoryPane",
    "metrics": "metrics.pane.MetricsPane",
    "ranks": "ranks.RanksPane",
    "roofline": "roofline.RooflinePane",
    "stacks": "tree.TreePane",
    "sql": "sql.SqlPane",
    "triage": "triage.TriagePane",
    "whatif": "whatif.WhatIfPane",
    "timeline": "timeline.pane.TimelinePane",
}
"""View name → module and class of its pane."""


def pane_class(view: str) -> type[TablePane]:
    """The pane class of a view."""
    module, _, name = SPECIAL.get(view, "table.TablePane").rpartition(".")
    result: type[TablePane] = getattr(import_module(f".{module}", __package__), name)
    return result
