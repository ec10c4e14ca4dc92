"""Exposed communication: collectives not overlapped with computation on the same device."""

from __future__ import annotations

from msgspec import Struct

from ...communication.devices import Communication
from ...core import units
from ...core.text import display
from ..rule import WAITING, Evidence, PartOfStep, Rule, Unchecked

_NAME = 24


class ExposedCommunication(Struct, frozen=True):
    """The devices that communicated, with times as means per step; ``part`` is the step."""

    devices: tuple[Communication, ...]
    part: PartOfStep
    steps: int = 1

    @property
    def most(self) -> Communication:
        """The device with most exposed communication."""
        return max(self.devices, key=lambda one: one.exposed_ns)


def _find(evidence: Evidence) -> ExposedCommunication | Unchecked | None:
    exposed = ExposedCommunication(
        tuple(one for one in evidence.communication if one.comm_ns), evidence.part, evidence.steps_each)
    if not evidence.communication and any(
        row.get("kind") == "collective" and (row.get("share") or 0.0) > WAITING for row in evidence.top
    ):
        return Unchecked("collectives are not recorded one by one")
    if not evidence.step_ns or not exposed.devices or exposed.most.exposed_ns <= WAITING * evidence.step_ns:
        return None
    if not evidence.times.get("Kernel"):
        return Unchecked("no compute kernels are recorded, only collectives")
    return exposed


def _sentence(exposed: ExposedCommunication) -> str:
    most, where = exposed.most, ""
    if len(exposed.devices) > 1:
        where = f" on {display(most.device or 'one device', _NAME)}, the most of {len(exposed.devices):,} devices"
    covered = most.comm_ns - most.exposed_ns
    overlapped = f"; another {units.duration(covered)} is overlapped with kernels" if covered else ""
    return f"Exposed communication takes {exposed.part.of(most.exposed_ns)}{where}{overlapped}."


RULE = Rule(
    "communication", "problem", _find, _sentence,
    rows=lambda exposed: tuple(
        {"device": one.device, "rank": one.rank, "comm_ns": one.comm_ns, "exposed_ns": one.exposed_ns}
        for one in exposed.devices
    ),
    cost_ns=lambda exposed: float(exposed.most.exposed_ns) * exposed.steps, view="kernels",
    change=lambda _: "collective:=0",
)
