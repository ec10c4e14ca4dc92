"""Devices are idle, and nothing in the recording explains it."""

from __future__ import annotations

from msgspec import Struct

from ..rule import BLAME, IDLE, Evidence, Rule


class Unexplained(Struct, frozen=True):
    """How long devices are idle, in words, and why the cause is unknown."""

    idle: str
    why: str


def _find(evidence: Evidence) -> Unexplained | None:
    waits = evidence.measured.waits
    if waits is not None:
        why = waits.doubt if waits.share(waits.idle_ns) > IDLE and not evidence.clocks_disagree else None
        return None if why is None else Unexplained(f"{waits.who} is idle {waits.of(waits.idle_ns)}", why)
    idle, other = evidence.idle_ns, evidence.times.get("Other", 0.0)
    if not evidence.devices or idle <= IDLE * evidence.step_ns or other <= BLAME * idle:
        return None
    seen = any(name in evidence.times for name in ("Runtime", "CPU Exec"))
    return Unexplained(f"Devices are idle {evidence.part.of(other)}",
                       "no recorded operator or call shows why" if seen else "calls of the host are not recorded")


RULE = Rule("unexplained", "fact", _find, lambda one: f"{one.idle}; {one.why}.", view="launches")
