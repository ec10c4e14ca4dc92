"""The profiler's own bottleneck verdict; if there is one, ours is not shown."""

from __future__ import annotations

from ...measured.sentences import verdict_sentence
from ..rule import Evidence, Rule


def _find(evidence: Evidence) -> dict[str, float] | None:
    recorded = evidence.measured.recorded
    return recorded.verdicts or None if recorded else None


RULE = Rule(
    "recorded verdict", "fact", _find, verdict_sentence,
    rows=lambda verdicts: tuple({"verdict": name, "share": share} for name, share in verdicts.items()),
    view="sections", filter="what=rule",
)
