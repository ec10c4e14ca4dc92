"""Copies from or to pageable memory: they are staged, block the host, and overlap with nothing."""

from __future__ import annotations

from ...core import units
from ..evidence.copies import Copies
from ..rule import NO_CAUSES, Evidence, Rule, Unchecked

LEAST = 0.01  # Share of the device's window below which this is not mentioned.


def _find(evidence: Evidence) -> Copies | Unchecked | None:
    copies = evidence.measured.copies
    if copies is None:
        return Unchecked(NO_CAUSES) if evidence.measured.waits is None else None
    if not copies.placed:
        return Unchecked("the recording does not say which memory copies use")
    return copies if copies.pageable.exposed_ns > LEAST * copies.window_ns else None


def _sentence(copies: Copies) -> str:
    pageable = copies.pageable
    size = f", {units.size(pageable.bytes)}" if pageable.bytes else ""
    return (f"Pageable memory: {units.counted(pageable.count, 'copy', 'copies')}{size}, "
            f"{units.part_of(pageable.exposed_ns, copies.window_ns)} on {copies.who} not overlapped with kernels; "
            "pinned memory would allow it.")


RULE = Rule(
    "pageable", "hint", _find, _sentence, rows=lambda copies: copies.pageable.rows,
    cost_ns=lambda copies: copies.pageable.exposed_ns, view="kernels", filter="name~Pageable",
    change=lambda _: "copy:Pageable=0",
)
