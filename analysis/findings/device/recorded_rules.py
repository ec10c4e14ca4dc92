"""Findings of the profiler's own rules, in their words and with their estimates."""

from __future__ import annotations

from msgspec import to_builtins

from ...core import units
from ...measured.rules import RuleFinding
from ...measured.sentences import rule_sentence
from ..rule import Evidence, Rule

_MOST = 12


def _find(evidence: Evidence) -> tuple[RuleFinding, ...] | None:
    recorded = evidence.measured.recorded
    return tuple(one for one in recorded.found if one.severity != "INF") or None if recorded else None


def _sentence(rules: tuple[RuleFinding, ...]) -> str:
    more = units.counted(len(rules) - 1, "more rule has", "more rules have")
    return rule_sentence(rules[0]) + (f" {more} something to say." if len(rules) > 1 else "")


RULE = Rule(
    "recorded rules", "hint", _find, _sentence, rows=lambda found: tuple(to_builtins(one) for one in found[:_MOST]),
    cost_ns=lambda found: (found[0].speedup or 0.0) * found[0].kernel_ns, view="sections", filter="what=rule",
)
