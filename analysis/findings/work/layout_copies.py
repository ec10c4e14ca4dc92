"""Copies that only change the layout of a tensor."""

from __future__ import annotations

from ..evidence.below_peak import Below
from .below import rule, time_of, win


def _sentence(one: Below, word: str) -> str:
    return f"Copies that keep type and shape take {time_of(one)}: removing them {win(one, word)}."


RULE = rule("layout copies", "layout", _sentence, "op~copy")
