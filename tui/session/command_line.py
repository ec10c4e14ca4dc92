"""The ``warplens report`` command that prints the view on screen: for a ticket, a script or a colleague."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from .session import Session, ViewState

if TYPE_CHECKING:
    from ...analysis.table.table import Table


def command_line(session: Session, view: str, state: ViewState, table: Table | None, subject: str) -> str:
    """``warplens report`` with the runs, the view, its filter, sort and scope; state without an option is left out."""
    paths = [os.path.abspath(run.path) if run.path != "-" else "-" for run in session.inputs]
    if len(paths) > 1 and subject in ("A", "B"):
        paths = [paths["AB".index(subject)]]
    if view == "history" and table is not None:
        return shlex.join(["warplens", "history", *(run["source"] for run in table.facts["runs"])])
    words = ["warplens", "report", *paths, "--view", view]
    arrangement = state.arrangement
    if arrangement.filter and (not arrangement.invert or " " not in arrangement.filter):
        words += ["--filter", f"{'!' if arrangement.invert else ''}{arrangement.filter}"]
    if table is not None and table.sorted_by is not None:
        words += ["--sort", table.sorted_by, *([] if table.descending else ["--ascending"])]
    cycle = session.cycle_b if subject == "B" else session.cycle
    options = session.options.swapped() if subject == "B" else session.options
    a, b = options.scope("a"), options.scope("b" if len(paths) > 1 else "a")
    pid = a.pid if a.pid == b.pid else f"{a.pid}:{b.pid}"
    words += [part for word, value in (
        ("--cycle", cycle), ("--rank", a.rank), ("--device", a.device), ("--pid", pid),
        ("--cycle-anchor", options.cycle_anchor)) if value is not None for part in (word, str(value))]
    words += [] if options.warm_up else ["--no-warm-up"]
    for word, first, second in (("--from", a.from_ns, b.from_ns), ("--to", a.to_ns, b.to_ns)):
        if first is not None and view != "timeline":
            words += [word, f"{first}:{second}" if first != second else str(first)]
    words += ["--per", "recording"] if table is not None and table.per == "recording" and len(paths) > 1 else []
    return shlex.join(words)
