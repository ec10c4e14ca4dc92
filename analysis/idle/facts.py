"""Busy and idle time of devices as facts: of the whole recording, and of its steps, which sentences use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..core import units
from ..cycles.whole import Steps
from .attribution import DeviceIdle, Idle
from .cause_meanings import LABELS


def busy_share(device: DeviceIdle) -> float | None:
    """1 − idle / (last − first activity); None for a device without any time."""
    return 1 - device.idle_ns / device.window_ns if device.window_ns else None


def facts_of(idle: Idle, steps: Steps | None) -> dict[str, Any]:
    """``devices`` of the whole recording, and ``in_steps`` (``from_ns to_ns devices``; None where it has no steps)."""
    return {"devices": _devices(idle.devices), "in_steps": in_steps_of(idle, steps)}


def in_steps_of(idle: Idle | None, steps: Steps | None) -> dict[str, Any] | None:
    """Begin and end of the steps (ns), and each device's sums over them."""
    if idle is None or steps is None:
        return None
    first, last = steps.bounds
    return {"from_ns": first, "to_ns": last, "devices": _devices(headline_devices(idle))}


def in_recording_of(idle: Idle | None, steps: Steps | None) -> dict[str, Any] | None:
    """The sums (``devices``) of the whole recording if it has no steps, else None."""
    return None if idle is None or steps is not None else {"devices": _devices(idle.devices)}


def headline_devices(idle: Idle) -> tuple[DeviceIdle, ...]:
    """The device sums that sentences use: in the steps where there are any."""
    return tuple(device.sums for device in idle.scope) or idle.devices


def ordered(device: DeviceIdle) -> list[tuple[str, int]]:
    """The causes of a device's idle time with their ns, longest first."""
    return sorted(device.causes.items(), key=lambda item: (-item[1], item[0]))


TOLD = 0.005  # Share of the idle time below which a cause would read 0%.


def cause_shares(device: DeviceIdle, most: int) -> list[str]:
    """'input 72%' and so on for the ``most`` largest causes of a device's idle time, and 'other 3%' for the rest."""
    main = [(cause, total) for cause, total in ordered(device)[:most] if total >= TOLD * device.idle_ns]
    rest = device.idle_ns - sum(total for _, total in main)
    if rest > 0 and rest >= TOLD * device.idle_ns:
        main.append(("other", rest))
    return [f"{cause} {units.percent(100 * total / device.idle_ns, places=0)}" for cause, total in main]


def cause_times(device: DeviceIdle, most: int, steps: int) -> list[str]:
    """'DataLoader (input) 58.7 ms' and so on for the ``most`` largest causes, each over ``steps``, and 'other 1.1 ms'
    for the rest."""
    main = [(LABELS[cause], total) for cause, total in ordered(device)[:most] if total >= TOLD * device.idle_ns]
    rest = device.idle_ns - sum(total for _, total in main)
    if rest > 0 and rest >= TOLD * device.idle_ns:
        main.append(("other", rest))
    return [f"{name} {units.duration(total / steps)}" for name, total in main]


def summed(devices: Sequence[DeviceIdle]) -> DeviceIdle:
    """The devices as one: times, causes and gaps summed."""
    causes: Counter[str] = Counter()
    for one in devices:
        causes.update(one.causes)
    window, busy, idle, gaps = (
        sum(getattr(one, name) for one in devices) for name in ("window_ns", "busy_ns", "idle_ns", "gaps"))
    return DeviceIdle(None, None, window, busy, idle, dict(causes), gaps)


def _devices(devices: Sequence[DeviceIdle]) -> list[dict[str, Any]]:
    """Window, busy and idle time (ns), busy share and idle time by cause of each."""
    return [
        {
            "device": device.device, "rank": device.rank, "window_ns": device.window_ns, "busy_ns": device.busy_ns,
            "idle_ns": device.idle_ns, "busy": busy_share(device), "causes": dict(ordered(device)),
            "gaps": device.gaps,
        }
        for device in devices
    ]
