"""Unfused normalisation: element-wise operators, each a pass over memory."""

from __future__ import annotations

from ..evidence.below_peak import Below
from .below import rule, time_of, win


def _sentence(one: Below, word: str) -> str:
    return f"Unfused normalisation: pow, mean and rsqrt take {time_of(one)}; a fused RMSNorm {win(one, word)}."


RULE = rule("unfused normalisation", "normalisation", _sentence, "op~rsqrt")
