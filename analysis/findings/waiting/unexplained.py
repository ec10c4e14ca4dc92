"""Devices are idle, and nothing that was recorded says why."""

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
    return Unexplained(other, evidence.part, any(name in evidence.times for name in ("Runtime", "CPU Exec")))


def _sentence(idle: Unexplained) -> str:
    why = "no recorded operator or call shows why" if idle.host_seen else "the host was not recorded"
    return f"Devices are idle {idle.part.of(idle.idle_ns)}; {why}."


RULE = Rule("unexplained", "fact", _find, _sentence, view="launches")
