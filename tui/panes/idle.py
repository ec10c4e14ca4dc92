"""Idle: of each device the causes it waited for as bars, most time first, then every gap."""

from __future__ import annotations

from textual.content import Content

from ...analysis.core import units
from ..widgets.drawing import QUIET, gauge, joined
from .table import TablePane

_LEAST = 0.005
"""Causes below this share of the idle time are one, ``other``."""
_MOST = 6


class IdlePane(TablePane):
    """The idle view with its causes."""

    def picture(self, width: int) -> Content:
        """What is said of the run, and under it the causes of each device where there is room for them."""
        said = super().picture(width)
        if self.shown is None or self.message:
            return said
        lines = [said] if said.plain else []
        room = self.size.height // 2 - len(said.plain.splitlines())
        devices = self.shown.base.facts.get("devices", [])
        for place, device in enumerate(devices):
            drawn = _causes(device, min(width - 2, 100))
            if len(drawn) > room:
                lines.append(Content.styled(f" no room for {units.counted(len(devices) - place, 'device', 'devices')}",
                                            QUIET))
                break
            room -= len(drawn)
            lines += drawn
        return joined(lines)


def _causes(device: dict[str, object], width: int) -> list[Content]:
    idle, causes = device["idle_ns"], device["causes"]
    assert isinstance(idle, int) and isinstance(causes, dict)
    shown: list[tuple[object, int]] = [(cause, ns) for cause, ns in causes.items() if ns >= _LEAST * idle][:_MOST]
    if (rest := idle - sum(ns for _, ns in shown)) >= _LEAST * idle:
        shown.append(("other", rest))
    return [
        Content.assemble(gauge(f"{device['device'] or '':<7}{cause}", ns / idle, width - 12),
                         f"  {units.duration(ns)}") for cause, ns in shown
    ]
