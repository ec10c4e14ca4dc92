"""Communication of a device that none of its computation covers."""

from __future__ import annotations

from msgspec import Struct

from ...communication.devices import Communication
from ...core import units
from ...core.text import display
from ..rule import WAITING, Evidence, PartOfStep, Rule, Unchecked

_NAME = 24


class BareCommunication(Struct, frozen=True):
    """The devices that communicated, means per step; ``part`` is the step."""

    devices: tuple[Communication, ...]
    part: PartOfStep
    steps: int = 1

    @property
    def most(self) -> Communication:
        """The device with most exposed communication."""
        return max(self.devices, key=lambda one: one.exposed_ns)


def _find(evidence: Evidence) -> BareCommunication | Unchecked | None:
    found = BareCommunication(tuple(one for one in evidence.communication if one.comm_ns), evidence.part,
                              evidence.steps_each)
    if not evidence.communication and any(
        row.get("kind") == "collective" and (row.get("share") or 0.0) > WAITING for row in evidence.top
    ):
        return Unchecked("collectives are not recorded one by one")
    if not evidence.step_ns or not found.devices or found.most.exposed_ns <= WAITING * evidence.step_ns:
        return None
    if not evidence.times.get("Kernel"):
        return Unchecked("no kernels that compute are recorded beside collectives")
    return found


def _sentence(found: BareCommunication) -> str:
    most = found.most
    where = ""
    if len(found.devices) > 1:
        all_of_them = units.count(len(found.devices))
        where = f" on {display(most.device or 'one device', _NAME)}, the most of {all_of_them} devices"
    covered = most.comm_ns - most.exposed_ns
    hidden = f"; another {units.duration(covered)} is hidden behind kernels" if covered else ""
    return f"Communication that no kernel covers takes {found.part.of(most.exposed_ns)}{where}{hidden}."


RULE = Rule(
    "communication", "problem", _find, _sentence,
    rows=lambda found: tuple(
        {"device": one.device, "rank": one.rank, "comm_ns": one.comm_ns, "exposed_ns": one.exposed_ns}
        for one in found.devices
    ),
    time_to_win_ns=lambda found: float(found.most.exposed_ns) * found.steps, view="kernels",
)
