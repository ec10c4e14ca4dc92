"""Device memory is nearly full."""

from __future__ import annotations

from ...core import units
from ...core.text import display
from ..evidence.samples import Memory
from ..rule import Evidence, Rule, Unchecked

FULL = 0.92  # From this share on an allocator starts to free and search.


def _find(evidence: Evidence) -> Memory | Unchecked | None:
    samples = evidence.measured.samples
    memory = samples.memory if samples is not None else None
    if memory is None:
        return Unchecked("memory in use or in the device is not recorded")
    return memory if memory.used >= FULL * memory.total else None


def _sentence(memory: Memory) -> str:
    share = units.percent(100 * memory.used / memory.total, places=0)
    sizes = "" if memory.unit == "%" else f" ({units.size(memory.used)} of {units.size(memory.total)})"
    return f"Memory of {display(memory.device or 'the device', 24)} is nearly full: {share}{sizes}."


RULE = Rule("memory", "hint", _find, _sentence, view="metrics", rows=lambda memory: (
    {"device": memory.device, "used": memory.used, "total": memory.total},))
