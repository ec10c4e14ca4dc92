"""Devices do nothing, and nothing that was recorded says why."""

from __future__ import annotations

from msgspec import Struct

from ..rule import BLAME, IDLE, Evidence, PartOfStep, Rule


class Unexplained(Struct, frozen=True):
    """Time of a step in which nothing recorded ran, ns; ``host_seen`` is whether the host was recorded at all."""

    idle_ns: float
    part: PartOfStep
    host_seen: bool


def _find(evidence: Evidence) -> Unexplained | None:
    idle, other = evidence.idle_ns, evidence.times.get("Other", 0.0)
    if not evidence.devices or idle <= IDLE * evidence.step_ns or other <= BLAME * idle:
        return None
    if evidence.measured.waits is not None:
        return None
    seen = any(name in evidence.times for name in ("Runtime", "CPU Exec"))
    return Unexplained(other, evidence.part, seen)


def _sentence(found: Unexplained) -> str:
    seen = "Devices wait for something no recorded operator or call shows"
    return f"{seen if found.host_seen else 'Devices do nothing'}, {found.part.of(found.idle_ns)}."


RULE = Rule("unexplained", "fact", _find, _sentence, view="launches")
