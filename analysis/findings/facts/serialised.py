"""Launches were replayed one by one, so totals are not wall time."""

from __future__ import annotations

from ..rule import Rule

RULE = Rule(
    "serialised", "fact", lambda evidence: True if evidence.serialised else None,
    lambda _: "Launches were replayed one by one: these are sums of kernel time, not wall time.", view="launches",
)
