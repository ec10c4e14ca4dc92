"""A measured value with its unit, for display: 13.72 GHz, 345.1 GB/s, 6.75 µs, 13,485 cycle."""

from __future__ import annotations

from ..core import units

_SCALED = ("B", "Hz", "FLOP")
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def measure(value: float | None, unit: str | None, text: str | None = None) -> str | None:
    """The value as text; ``text`` if there is no number; None if there is neither."""
    if value is None:
        return text
    if unit == "%":
        return f"{units.number(value)}%"
    if unit == "ns":
        return units.duration(value)
    if unit and unit.partition("/")[0] in _SCALED:
        size, letter = next((step for step in _STEPS if abs(value) >= step[0]), (1.0, ""))
        return f"{units.number(value / size)} {letter}{unit}"
    return f"{units.number(value)} {unit}" if unit else units.number(value)


def measured_change(
    a: float | None, b: float | None, unit: str | None, texts: tuple[str | None, str | None]
) -> str | None:
    """The values of both runs, a shared unit only once: '6.75 → 5.2 µs'; None if neither has a value."""
    first, second = measure(a, unit, texts[0]), measure(b, unit, texts[1])
    if first is None and second is None:
        return None
    shared = f" {second.rpartition(' ')[2]}" if second and " " in second else ""
    first = first.removesuffix(shared) if first else None
    return f"{units.MISSING if first is None else first} → {units.MISSING if second is None else second}"
