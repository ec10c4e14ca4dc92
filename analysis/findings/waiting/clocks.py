"""Device activities that begin before the call that launched them: the clocks of host and device do not agree."""

from __future__ import annotations

from ...core import units
from ..rule import Evidence, Rule


def _sentence(evidence: Evidence) -> str:
    return (f"The clocks of host and device disagree: {units.count(evidence.early)} of "
            f"{units.count(evidence.launched)} device activities begin before the call that launched them, so the "
            "causes of idle time are unknown.")


RULE = Rule(
    "clocks", "problem", lambda evidence: evidence if evidence.clocks_disagree else None, _sentence, view="launches")
