"""Copies from or to pageable memory: they are staged, block the host, and overlap with nothing."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.text import display
from ..evidence.copies import Copies
from ..rule import NO_CAUSES, Evidence, Rule, Unchecked

LEAST = 0.01
"""Share of the device's window below which this is not mentioned."""


class Pageable(Struct, frozen=True):
    """The copies of the device with most of them."""

    copies: Copies


def _find(evidence: Evidence) -> Pageable | Unchecked | None:
    copies = evidence.measured.copies
    if copies is None:
        return Unchecked(NO_CAUSES) if evidence.measured.waits is None else None
    if not copies.placed:
        return Unchecked("the recording does not say which memory copies use")
    return Pageable(copies) if copies.pageable.exposed_ns > LEAST * copies.window_ns else None


def _sentence(found: Pageable) -> str:
    some = found.copies.pageable
    size = f", {units.size(some.bytes)}" if some.bytes else ""
    return (f"Copies from or to pageable memory: {units.counted(some.count, 'copy', 'copies')}{size}, "
            f"{units.duration(some.exposed_ns)} of {units.duration(found.copies.window_ns)} on "
            f"{display(found.copies.device or 'the device', 24)} with no kernel beside them; pinned memory would "
            "overlap.")


RULE = Rule(
    "pageable", "hint", _find, _sentence,
    rows=lambda found: ({"name": found.copies.pageable.name, "count": found.copies.pageable.count,
                         "total_ns": found.copies.pageable.total_ns, "exposed_ns": found.copies.pageable.exposed_ns},),
    time_to_win_ns=lambda found: found.copies.pageable.exposed_ns, view="kernels", filter="name~Pageable",
)
