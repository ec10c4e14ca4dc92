"""How the app begins: what the command line asked for beside the runs."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from ...analysis.contract.column import Per
from ...analysis.views import VIEWS


class Start(Struct, frozen=True):
    """How the app begins: view, scope, whether to go on where it was left, and what every question is asked with.

    ``options`` are fields of ``analysis.options.Options``.
    """

    view: str = ""
    resume: bool = False
    watch: str | None = None
    cycle: int | None = None
    per: Per = "cycle"
    options: Mapping[str, Any] = field(default_factory=dict)


def first_view(wanted: str, inputs: int) -> str:
    """The view to begin with: the one wanted, else what most people open the app for; one that exists."""
    names = [entry.name for entry in VIEWS]
    preferred = [wanted, "diff" if inputs > 1 else "overview", "overview", "kernels"]
    return next((name for name in preferred if name in names), names[0])


def warm_up() -> None:
    """Import what the first question needs while the input is being read."""
    from ...analysis.query import ask

    assert ask


OFTEN = 5_000
"""New objects between two looks for dead ones: with 100,000, as starting has it, one key in some hundred took 50 ms."""


def collect_again(value: object) -> None:
    """Look for garbage from now on, where starting went without; never among what was imported, which stays."""
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(OFTEN)
        gc.enable()
