"""Copies and sets that no kernel hides: they could run beside one, or there are too few kernels to run beside."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.names.short_name import fit_name
from ...core.text import display
from ..evidence.copies import Copies
from ..rule import WAITING, Evidence, PartOfStep, Rule, Unchecked

_NAME = 40


class BareCopies(Struct, frozen=True):
    """Time in which a copy ran and no kernel, ns; ``copies`` where they are known one by one, else of a step."""

    copying_ns: float
    part: PartOfStep
    steps: int = 1
    copies: Copies | None = None


def _find(evidence: Evidence) -> BareCopies | Unchecked | None:
    copies = evidence.measured.copies
    if copies is not None:
        bare = copies.other.exposed_ns
        return BareCopies(bare, evidence.part, 1, copies) if bare > WAITING * copies.window_ns else None
    copying = evidence.times.get("Memcpy")
    if copying is None or not evidence.step_ns:
        return Unchecked("no copies with times are recorded")
    worth_it = copying > WAITING * evidence.step_ns
    return BareCopies(copying, evidence.part, max(evidence.steps, 1)) if worth_it else None


def _sentence(found: BareCopies) -> str:
    if found.copies is None:
        return f"Copies that no kernel hides take {found.part.of(found.copying_ns)}."
    some, device = found.copies.other, display(found.copies.device or "the device", 24)
    way = "they could overlap on another stream"
    if found.copies.work_ns < found.copying_ns:
        way = (f"kernels run {units.duration(found.copies.work_ns)} in all, too little to hide them; only copying less "
               "would help")
    return (f"Copies and sets run with no kernel beside them {units.duration(found.copying_ns)} of "
            f"{units.duration(found.copies.window_ns)} on {device}, most {fit_name(some.name or '', _NAME)}: {way}.")


RULE = Rule(
    "copies", "problem", _find, _sentence, time_to_win_ns=lambda found: found.copying_ns * found.steps,
    rows=lambda found: () if found.copies is None else (
        {"name": found.copies.other.name, "count": found.copies.other.count,
         "total_ns": found.copies.other.total_ns, "exposed_ns": found.copies.other.exposed_ns},),
    view="kernels", filter="kind~mem",
)
