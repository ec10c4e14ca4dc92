"""Unfused attention: batched GEMMs and a softmax, whose scores go through memory."""

from __future__ import annotations

from ..evidence.below_peak import Below
from .below import at_peak, rule, time_of, win


def _sentence(one: Below, word: str) -> str:
    return f"Eager attention: {one.op}{at_peak(one)} for {time_of(one)}, softmax included; fused it {win(one, word)}."


RULE = rule("eager attention", "attention", _sentence, "op~bmm")
