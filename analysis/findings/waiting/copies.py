"""Copies and memsets not overlapped with kernels, and whether kernels run long enough to hide them."""

from __future__ import annotations

from msgspec import Struct

from ...contract.changes import Change, exactly
from ...core import units
from ...core.names.short_name import fit_name
from ..evidence.copies import Copies
from ..rule import WAITING, Evidence, PartOfStep, Rule, Unchecked

_NAME = 40


class ExposedCopies(Struct, frozen=True):
    """Time in which a copy ran and no kernel, ns: in all if single ``copies`` are known, else per step."""

    copying_ns: float
    part: PartOfStep
    steps: int = 1
    copies: Copies | None = None


def _find(evidence: Evidence) -> ExposedCopies | Unchecked | None:
    copies = evidence.measured.copies
    if copies is not None:
        exposed = copies.other.exposed_ns
        return ExposedCopies(exposed, evidence.part, 1, copies) if exposed > WAITING * copies.window_ns else None
    copying = evidence.times.get("Memcpy")
    if copying is None or not evidence.step_ns:
        return Unchecked("no copies with times are recorded")
    worth_it = copying > WAITING * evidence.step_ns
    return ExposedCopies(copying, evidence.part, max(evidence.steps, 1)) if worth_it else None


def _sentence(exposed: ExposedCopies) -> str:
    copies = exposed.copies
    if copies is None:
        return f"Copies that no kernel overlaps take {exposed.part.of(exposed.copying_ns)}."
    way = "copying on another stream would allow it"
    if copies.work_ns < exposed.copying_ns:
        way = f"kernels run only {units.duration(copies.work_ns)}, too short to hide them: copy less"
    return (f"Copies and sets, most {fit_name(copies.other.name or '', _NAME)}, take "
            f"{units.part_of(exposed.copying_ns, copies.window_ns)} on {copies.who}, not overlapped with kernels; "
            f"{way}.")


def _change(exposed: ExposedCopies) -> str:
    """Removing these copies: not those within the device or from pageable memory, which the finding is not about."""
    names = () if exposed.copies is None else exposed.copies.other.names
    return Change("copy", "|".join(map(exactly, names))).text


RULE = Rule(
    "copies", "problem", _find, _sentence, cost_ns=lambda exposed: exposed.copying_ns * exposed.steps,
    rows=lambda exposed: () if exposed.copies is None else exposed.copies.other.rows, view="kernels",
    filter="kind~mem",
    change=_change,
)
