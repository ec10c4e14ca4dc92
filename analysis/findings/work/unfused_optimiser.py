"""Unfused Adam: several passes over its parameters."""

from __future__ import annotations

from ..evidence.below_peak import Below
from .below import rule, time_of, win


def _sentence(one: Below, word: str) -> str:
    return f"Unfused optimiser: _foreach_ operators take {time_of(one)}; fused=True {win(one, word)}."


RULE = rule("unfused optimiser", "optimiser", _sentence, "op~_foreach_")
