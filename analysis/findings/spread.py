"""One figure of several devices in one phrase, so that eight devices do not take eight lines."""

from __future__ import annotations

from msgspec import Struct

from ..core import units
from ..core.text import display

_NAME = 24


class Spread(Struct, frozen=True):
    """One share (0-1) per device, as (device name, share); devices without a name are "the device"."""

    shares: tuple[tuple[str, float], ...]

    @property
    def lowest(self) -> tuple[str, float]:
        """The device with the smallest share."""
        return min(self.shares, key=lambda one: one[1])

    @property
    def highest(self) -> tuple[str, float]:
        """The device with the largest share."""
        return max(self.shares, key=lambda one: one[1])

    @property
    def text(self) -> str:
        """'39%', or '33% (GPU 5) to 63% (GPU 2)' if devices differ."""
        (low_name, low), (high_name, high) = self.lowest, self.highest
        first, last = share_text(low), share_text(high)
        if first == last:
            return first
        return f"{first} ({display(low_name, _NAME)}) to {last} ({display(high_name, _NAME)})"

    @property
    def range(self) -> str:
        """'39%', or '33–63%' if devices differ."""
        first, last = share_text(self.lowest[1]), share_text(self.highest[1])
        return first if first == last else f"{first.removesuffix('%')}–{last}"

    @property
    def who(self) -> str:
        """'GPU 0', or '8 devices'."""
        devices = len(self.shares)
        return display(self.shares[0][0], _NAME) if devices == 1 else f"{units.count(devices)} devices"


def share_text(share: float) -> str:
    """A share as percent: 39%, 4.2%, 99.8%."""
    return units.percent(100 * share, places=1 if share < 0.0995 or 0.995 <= share < 1 else 0)


def spread(devices: list[dict[str, object]], gauge: str) -> Spread | None:
    """The gauge of every device that has it; None if none has."""
    known = []
    for device in devices:
        value = device.get(gauge)
        if isinstance(value, float | int):
            known.append((str(device.get("device") or "the device"), float(value)))
    return Spread(tuple(known)) if known else None
