"""The host waits for input data."""

from __future__ import annotations

from msgspec import Struct

from .rule import WAITING, Evidence, PartOfStep, Rule


class InputWait(Struct, frozen=True):
    """Time of a step in which nothing ran but the DataLoader, ns."""

    waited_ns: float
    part: PartOfStep
    devices: bool


def _find(evidence: Evidence) -> InputWait | None:
    waited = evidence.times.get("DataLoader", 0.0)
    if not evidence.step_ns or waited <= WAITING * evidence.step_ns:
        return None
    return InputWait(waited, evidence.part, bool(evidence.devices))


def _sentence(found: InputWait) -> str:
    idle = ", with devices idle" if found.devices else ""
    return f"Bound by input data: the host waits for the DataLoader {found.part.of(found.waited_ns)}{idle}."


RULE = Rule("input", "problem", _find, _sentence, time_to_win_ns=lambda found: found.waited_ns, view="cycles")
