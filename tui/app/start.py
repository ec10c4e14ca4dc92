"""Startup of the app: the options of the command line, the first view, imports and garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from ...analysis.contract.column import Per
from ...analysis.views import VIEWS
from ..session.opening import Recorder


class Start(Struct, frozen=True):
    """Initial view and scope, whether to resume the last session, the options of every query, and what records again.

    ``options`` are fields of ``analysis.contract.options.Options``.
    """

    view: str = ""
    resume: bool = False
    watch: str | None = None
    cycle: int | None = None
    per: Per = "cycle"
    options: Mapping[str, Any] = field(default_factory=dict)
    recorder: Recorder | None = None


def first_view(wanted: str, inputs: int) -> str:
    """The view to open first: ``wanted`` if it exists, else diff for two inputs and overview for one."""
    names = [entry.name for entry in VIEWS]
    preferred = [wanted, "diff" if inputs > 1 else "overview", "overview", "kernels"]
    return next((name for name in preferred if name in names), names[0])


def warm_up() -> None:
    """Import what the first query needs, while the input is being read."""
    from ...analysis.query import ask

    assert ask


OFTEN = 5_000
"""Allocations between two garbage collections: at startup's 100,000, about one key press in a hundred took 50 ms."""


def collect_again(value: object) -> None:
    """Enable the garbage collection that startup disabled, excluding everything imported by then."""
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(OFTEN)
        gc.enable()
