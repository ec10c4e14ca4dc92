"""Idle: what each device waited for as one bar a device, the longest waiting first, then every gap."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.core.text import display
from ...analysis.idle.cause_meanings import LABELS, ROLES
from ..list import cells
from ..list.frame import Frame, Pieces, dim, pieces_of
from ..widgets.drawing import QUIET, stacked
from .table import TablePane

LEAST = 0.005
"""Causes below this share of the idle time are one, ``other``."""
_OTHER = "other"


class IdlePane(TablePane):
    """The idle view with its causes."""

    def _devices(self) -> list[tuple[str, dict[str, Any]]]:
        """Label and figures of each device that waited, of one run or of both."""
        facts = self.shown.base.facts if self.shown is not None else {}
        sides = [("", facts)] if "devices" in facts else [("A ", facts.get("a") or {}), ("B ", facts.get("b") or {})]
        found = [(side + _name(one), one) for side, known in sides for one in known.get("devices", ())
                 if one["idle_ns"]]
        return found if len(sides) > 1 else sorted(found, key=lambda one: -one[1]["idle_ns"])

    def evidence(self, width: int) -> list[Content]:
        """A bar a device, as many as there is room for."""
        devices, room = self._devices(), max(1, self.size.height // 3 - 3)
        label = max((len(name) for name, _ in devices), default=0) + 1
        made = []
        for name, one in devices[:room]:
            share = f" {units.percent(100 * one['idle_ns'] / max(1, one['window_ns']), places=0):>4} idle"
            parts = [(LABELS.get(cause, cause), ROLES.get(cause, "device"), float(ns)) for cause, ns in _parts(one)]
            made.append(Content.assemble(
                (cells.fit(name, label), QUIET), stacked(parts, width - label - len(share)), (share, "bold")))
        if len(devices) > room:
            made.append(Content.styled(f"{units.counted(len(devices) - room, 'more device', 'more devices')}", QUIET))
        return made

    def answer_frame(self) -> Frame:
        """The causes with their sums, each in its colour."""
        devices = self._devices()
        order = list(dict.fromkeys(cause for _, one in devices for cause, _ in _parts(one)))
        legend: tuple[Pieces, ...] = tuple(
            (("■ ", ROLES.get(cause, "device")), (cause, "dim"), (_sum(devices, cause), "dim")) for cause in order)
        return Frame("Idle", dim("causes of the time without activity"), legend=pieces_of(legend))


def _name(device: dict[str, Any]) -> str:
    rank = "" if device["rank"] is None else f" rank {device['rank']}"
    return f"{display(device['device'] or 'device', 12)}{rank}"


def _sum(devices: list[tuple[str, dict[str, Any]]], cause: str) -> str:
    return f" {units.duration(dict(_parts(devices[0][1])).get(cause, 0))}" if len(devices) == 1 else ""


def _parts(device: dict[str, Any]) -> list[tuple[str, int]]:
    """The causes of one device, the small ones as one."""
    idle = device["idle_ns"]
    shown = [(cause, ns) for cause, ns in device["causes"].items() if ns >= LEAST * idle]
    rest = idle - sum(ns for _, ns in shown)
    return [*shown, (_OTHER, rest)] if rest > 0 else shown
