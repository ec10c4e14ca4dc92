"""Device activities that begin before the call that launched them: the clocks of host and device do not agree."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ..rule import Evidence, Rule


class EarlyActivities(Struct, frozen=True):
    """How many of the activities with a recorded launch began before it."""

    early: int
    launched: int


def _find(evidence: Evidence) -> EarlyActivities | None:
    if not evidence.clocks_disagree:
        return None
    return EarlyActivities(evidence.early, evidence.launched)


def _sentence(found: EarlyActivities) -> str:
    part = f"{units.count(found.early)} of {units.count(found.launched)} device activities"
    return (f"The clocks of host and device disagree: {part} begin before the call that launched them, so "
            "waiting cannot be attributed.")


RULE = Rule("clocks", "problem", _find, _sentence, view="launches")
