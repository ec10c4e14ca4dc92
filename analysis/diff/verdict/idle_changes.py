"""Which causes of idle time changed, and whether one of them is what the cycle gained or lost.

Idle time is the part of a cycle in which a device ran nothing, so a millisecond more of it is one of the cycle. A
cause explains the cycle where it moved beyond chance, the same way as the cycle, and makes up most of that.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..prepare.idle_time import UNKNOWN, idle_name
from ..prepare.samples import IDLE
from .cycle_time import LEAST_SHIFT, CycleTime
from .function_change import FunctionChange

MOST = 0.5
"""Share of the cycle's shift that a cause must make up to explain it."""


class IdleChange(Struct, frozen=True):
    """Idle time of one device by one cause, ms per cycle; ``function`` is the row's name.

    ``share`` is how much of the cycle's shift it makes up (1: all); None where the cycle kept its length, and for idle
    time of which no cause was recorded.
    """

    function: str
    device: str | None
    rank: int | None
    a_ms: float
    b_ms: float
    delta_ms: float
    ci_low_ms: float | None
    ci_high_ms: float | None
    q: float | None
    share: float | None

    @property
    def explains_cycle(self) -> bool:
        """Whether it is most of what the cycle gained or lost."""
        return self.share is not None and self.share >= MOST

    @property
    def label(self) -> str:
        """The cause in words: 'DataLoader (input)'."""
        return self.function.removeprefix("idle: ")


def idle_changes(rows: Sequence[FunctionChange], cycles: CycleTime) -> list[IdleChange]:
    """The causes that changed beyond chance, those that explain the cycle first, then by size."""
    moved = abs(cycles.shift_ms) >= LEAST_SHIFT * cycles.median_a_ms and cycles.verdict != "unchanged"
    found = []
    for row in rows:
        if row.kind == IDLE and row.verdict in ("slower", "faster") and row.a_ms is not None and row.b_ms is not None:
            delta = row.b_ms - row.a_ms
            told = row.function != idle_name(UNKNOWN)
            share = delta / cycles.shift_ms if moved and told and cycles.shift_ms else None
            found.append(IdleChange(
                row.function, row.device, row.rank, row.a_ms, row.b_ms, delta, row.ci_low_ms, row.ci_high_ms, row.q,
                share,
            ))
    return sorted(found, key=lambda one: (not one.explains_cycle, -abs(one.delta_ms)))
