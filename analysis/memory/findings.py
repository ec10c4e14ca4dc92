"""Memory findings: an allocation that failed and why, free memory that is fragmented, rounding."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ..core import units
from ..core.text import display
from .allocators import user_frame
from .peaks import Peak, Peaks

WASTED = 0.1  # Share of allocated memory lost to rounding from which on it is reported.
UNUSED = 0.3  # Share of reserved memory that is free from which on it is reported.


class MemoryFinding(Struct, frozen=True):
    """One device, bytes: ``requested`` in vain or for all blocks; ``free`` in ``segments`` out of ``of``, ``largest``
    in one piece; ``device_free`` outside the allocator; ``at_ns`` and ``allocator`` of a failed allocation."""

    rule: Literal["out of memory", "fragmentation", "rounding"]
    device: str
    requested: int
    free: int
    largest: int
    segments: int
    of: int
    device_free: int | None = None
    at_ns: int | None = None
    allocator: str | None = None
    times: int = 1

    @property
    def sentence(self) -> str:
        """The finding as a sentence: subject, verb, number, unit."""
        if self.rule == "rounding":
            lost = units.percent(100 * (1 - self.requested / self.of), places=0)
            return (f"{self.device}: {units.size(self.requested)} requested take {units.size(self.of)} on the device: "
                    f"{lost} is lost to rounding.")
        pieces = units.counted(self.segments, "segment", "segments")
        if self.rule == "fragmentation":
            return (f"{self.device}: {units.size(self.free)} of {units.size(self.of)} reserved is free at the end, in "
                    f"{pieces}, the largest block {units.size(self.largest)}.")
        when = "" if self.at_ns is None else f" at {units.duration(self.at_ns)}"
        who = display(self.allocator, 60) if self.allocator else "an allocation"
        outside = "" if self.device_free is None else f"{units.size(self.device_free)} free on the device, "
        again = "" if self.times == 1 else f" ({units.count(self.times)} times, this the last)"
        free = f"{units.size(self.free)} free in {pieces}, the largest block {units.size(self.largest)}"
        return (f"{self.device}: out of memory{when}{again}: {who} requested {units.size(self.requested)}; "
                f"{outside}{free}{self._verdict}.")

    @property
    def _verdict(self) -> str:
        if self.requested <= self.largest:
            return ": it fits now"
        if self.requested <= self.free:
            return ": fragmented; expandable_segments:True would join them"
        return ": less than requested"


def memory_findings(memory: Peaks) -> list[MemoryFinding]:
    """The findings of each device whose allocator state was recorded."""
    result = []
    for peak in memory.peaks:
        held = peak.held
        if not held.get("segments"):
            continue
        last = held["failures"][-1] if held.get("failures") else None
        if last and last["asked_bytes"]:
            result.append(_of(peak, "out of memory", last["asked_bytes"], held["reserved_bytes"], allocator=user_frame(
                last["stack"]) if last["stack"] else None, at_ns=last["at_ns"], times=held["out_of_memory"],
                device_free=last["device_free_bytes"]))
        elif held["reserved_bytes"] is not None and held["free_bytes"] > UNUSED * held["reserved_bytes"]:
            result.append(_of(peak, "fragmentation", 0, held["reserved_bytes"]))
        if held["requested_bytes"] < (1 - WASTED) * held["allocated_bytes"]:
            result.append(_of(peak, "rounding", held["requested_bytes"], held["allocated_bytes"]))
    return result


def _of(
    peak: Peak, rule: Literal["out of memory", "fragmentation", "rounding"], asked: int, of: int, *,
    allocator: str | None = None, at_ns: int | None = None, times: int = 1, device_free: int | None = None,
) -> MemoryFinding:
    held = peak.held
    return MemoryFinding(
        rule, peak.device or "device", asked, held["free_bytes"], held["largest_free_bytes"], held["segments"], of,
        device_free, at_ns, allocator, times)
