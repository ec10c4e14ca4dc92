"""The picture of the overview: a bar of where a step's time goes, its parts, gauges of the devices, and findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.core.text import display
from ..list import cells
from ..widgets.drawing import QUIET, A, B, gauge, joined, side_by_side, wrapped

if TYPE_CHECKING:
    from ...analysis.table.table import Table

WIDE = 100
MOST_DEVICES = 2
_PAIR = 48
"""Cells that the parts of two runs and their difference take."""
_COLOURS = {
    "Kernel": "$primary", "Memcpy": "$secondary", "Memset": "$secondary dim", "Communication": "$accent",
    "Runtime": "$warning dim", "DataLoader": "$success", "CPU Exec": "$foreground", "Other": "dim",
}
_GAUGES = (
    ("busy", "GPU busy"), ("utilisation", "GPU utilisation"), ("sm_efficiency", "SM efficiency"),
    ("occupancy", "occupancy"), ("tensor_share", "tensor cores"),
)


def overview_picture(table: Table | None, failed: str, width: int, height: int) -> Content:
    """All of it in ``width`` cells; less of it where there are few lines."""
    if table is None:
        return joined(wrapped(failed, width - 2, " "))
    rows = [dict(zip((column.name for column in table.columns), values, strict=True))
            for values in table.window(0, len(table))]
    pair = any("time_ns_a" in row for row in rows)
    bars = _stacked(rows, pair, width - 2)
    half = width // 2 if width >= WIDE else width
    devices, findings = _devices(table.facts, pair, half - 2), _findings(table, half - 3)
    if width >= WIDE:
        right = [*devices, *([Content("")] if devices and findings else []), *findings]
        return joined([*bars, Content(""), *side_by_side(_parts(rows, pair, half - 2), right, half)])
    least = 0.0005 if height < 30 else -1.0
    seen = [row for row in rows if max(row.get(name) or 0.0 for name in ("share", "share_a", "share_b")) > least]
    if height < 30:
        return joined([*bars, *_parts(seen, pair, half - 2), *findings, *devices])
    return joined([*bars, Content(""), *_parts(seen, pair, half - 2), Content(""), *devices, Content(""), *findings])


def _stacked(rows: list[dict[str, Any]], pair: bool, width: int) -> list[Content]:
    """One bar a run, each category as wide as its share, named where its name fits."""
    made = []
    for side in ("a", "b") if pair else ("",):
        shares = [(str(row["category"]), row[f"share_{side}" if side else "share"] or 0.0) for row in rows]
        label = f" {side.upper()} " if pair else " "
        named = (label, f"bold {B if side == 'b' else A}")
        made.append(Content.assemble(named, *_segments(shares, width - len(label))))
    return made


def _segments(shares: list[tuple[str, float]], width: int) -> list[tuple[str, str]]:
    made, used, exact = [], 0, 0.0
    for name, share in shares:
        exact += share * width
        size = max(0, min(width, round(exact)) - used)
        used += size
        text = f" {name} {100 * share:.0f}%"
        text = text if len(text) < size else f" {name}" if len(name) + 1 < size else ""
        made.append((text.ljust(max(0, size - 1)), f"{_COLOURS.get(name, '')} reverse"))
        made.append((" " * min(1, size), ""))  # a gap, so that parts are told apart without colour
    return made


def _parts(rows: list[dict[str, Any]], pair: bool, width: int) -> list[Content]:
    """Category, time and share, with a bar; for two runs A, where there is room, B and the difference."""
    made = []
    if pair:
        both = width >= _PAIR
        head = f"{'A':>11}{'B':>11}" if both else f"{'B':>11}"
        made.append(Content.styled(f" {'mean per cycle':<15}{head}{'Δ':>12}", QUIET))
        for row in rows:
            a, b, name = row["time_ns_a"], row["time_ns_b"], str(row["category"])
            delta = None if a is None or b is None else b - a
            made.append(Content.assemble(
                (f" {name:<15}", _COLOURS.get(name, "")), f"{_time(a):>11}" if both else "", f"{_time(b):>11}",
                (f"{units.MISSING if delta is None else units.duration(delta, signed=True):>12}", "bold"),
            ))
        return made
    most = max((row["share"] or 0.0 for row in rows), default=0.0) or 1.0
    room = max(4, width - 37)
    for row in rows:
        name, share = str(row["category"]), row["share"] or 0.0
        made.append(Content.assemble(
            f" {name:<14}", f"{_time(row['time_ns']):>11}", (f"{units.percent(100 * share):>7} ", "bold"),
            (cells.bar(share / most, room), _COLOURS.get(name, "$primary")),
        ))
    return made


def _time(value: float | None) -> str:
    return units.MISSING if value is None else units.duration(value)


def _devices(facts: dict[str, Any], pair: bool, width: int) -> list[Content]:
    """Gauges of each device, as far as they were measured."""
    made: list[Content] = []
    sides = [("a", A), ("b", B)] if pair else [("", A)]
    found = {side: _gauged((facts.get(side) or {}) if side else facts) for side, _ in sides}
    names = list(dict.fromkeys(str(one.get("device") or "GPU") for devices in found.values() for one in devices))
    for name in names[: MOST_DEVICES * len(sides)]:
        lines = []
        for key, title in _GAUGES:
            heading = title
            for side, colour in sides:
                share = next((one.get(key) for one in found[side] if str(one.get("device") or "GPU") == name), None)
                if share is not None:
                    label = f"{heading:<16}{side.upper()}" if side else title
                    lines.append(gauge(label, share, min(width, 64), colour))
                    heading = ""
        if lines:
            made += [Content.styled(f" {display(name, 24)}", "bold"), *lines]
    if made and (more := len(names) - MOST_DEVICES * len(sides)) > 0:
        made.append(Content.styled(f" {units.counted(more, 'more device', 'more devices')} in 9, 8", QUIET))
    return made


def _gauged(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The devices, busy as sentences say it: in the steps. Another tool's utilisation is shown where none is known."""
    steps = {(one["device"], one["rank"]): one["busy"] for one in (facts.get("in_steps") or {}).get("devices", ())}
    alike = {device: busy for (device, _), busy in steps.items()}
    made = []
    for one in facts.get("devices") or []:
        busy = steps.get((one.get("device"), one.get("rank")), alike.get(one.get("device"), one.get("busy")))
        made.append(one | {"busy": busy, "utilisation": one.get("utilisation") if busy is None else None})
    return made


def _findings(table: Table, width: int) -> list[Content]:
    """What the overview says in words."""
    said = [display(str(_words(one))) for one in table.facts.get("findings") or []]
    sentences = dict.fromkeys([*map(display, table.summary), *said])
    lines = [line for text in sentences for line in wrapped(text, width, "• ")]
    return [Content.assemble(" ", line) for line in lines]


def _words(finding: Any) -> Any:
    return finding.get("text", finding) if isinstance(finding, dict) else finding
