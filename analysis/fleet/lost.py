"""What a reduced dataset says to questions it no longer holds the answer of."""

from __future__ import annotations

from ...loaders.trace import REDUCED, Trace
from ..contract.view import CannotAnswer, ScopeRefused

ANSWERED = frozenset({"overview", "cycles", "kernels", "collectives", "ranks", "idle", "diff", "triage"})
"""Views that answer from a dataset; where one of these cannot, its own reason is the one."""


def reason(view: str, runs: tuple[Trace, ...], said: CannotAnswer) -> CannotAnswer:
    """Why the view cannot answer: that what it needs was not reduced, where that is why, else what it said."""
    reduced = [run.info.label for run in runs if REDUCED in run.info.facts]
    if not reduced or view in ANSWERED or isinstance(said, ScopeRefused):
        return said
    are, they = ("are reduced datasets", "them") if len(reduced) > 1 else ("is a reduced dataset", "it")
    return CannotAnswer(
        f"{' and '.join(reduced)} {are}: what the {view} view needs stayed in the recordings, not in {they}. "
        "Open the recording of a rank for that; the ranks view says which is worth it."
    )
