"""What each device did per cycle, and whether anybody waited for it.

A device that works longer in a cycle that takes no longer is hidden behind the host; one that works longer while the
cycle grows by as much is on the path. In between nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr, replace
from numpy.typing import NDArray

from ..prepare.samples import Matched, Side
from ..stats.robust_location import Floats, centre, location_shift
from .cycle_time import CycleTime

CHANGED = 0.03
"""Work per cycle or per launch that changed by less than this share is called unchanged."""
Path = Literal["exposed", "hidden"]
Flags = NDArray[np.bool_]


class DeviceWork(Struct, frozen=True):
    """One device for one pair of processes: computing time per cycle (collectives apart), launches, idle share.

    ``path`` says whether the cycle waits for what it does more; ``others_waited_for`` that its idle time may be waiting
    for other ranks.
    """

    device: str | None
    pid_a: int | None
    pid_b: int | None
    busy_a_ms: float
    busy_b_ms: float
    ci_low_ms: float | None = None
    ci_high_ms: float | None = None
    launches_a: float | None = None
    launches_b: float | None = None
    communication_a_ms: float = 0.0
    communication_b_ms: float = 0.0
    idle_a: float | None = None
    idle_b: float | None = None
    path: Path | None = None
    others_waited_for: bool = False
    ratio: float | None = None
    per_launch_ratio: float | None = None
    delta_ms: float = 0.0
    rank: int | None = None

    def __post_init__(self) -> None:
        busy = self.busy_b_ms / self.busy_a_ms if self.busy_a_ms else None
        each = busy * self.launches_a / self.launches_b if busy and self.launches_a and self.launches_b else None
        for name, value in (
            ("ratio", busy), ("per_launch_ratio", each), ("delta_ms", self.busy_b_ms - self.busy_a_ms)
        ):
            force_setattr(self, name, value)

    @property
    def slower(self) -> bool:
        """Whether its launches take longer; where they were not counted, whether it works longer."""
        return self._grown is not None and self._grown > 1 + CHANGED

    @property
    def faster(self) -> bool:
        """Whether its launches take less time; where they were not counted, whether it works less."""
        return self._grown is not None and self._grown < 1 - CHANGED

    @property
    def _grown(self) -> float | None:
        return self.per_launch_ratio if self.per_launch_ratio is not None else self.ratio


def device_work(matched: list[Matched], cycles: CycleTime, others_waited_for: bool) -> list[DeviceWork]:
    """The work of every device of every pair of processes."""
    found = []
    for one in matched:
        names = one.functions["device"]
        for device in names.filter(one.on_device).unique(maintain_order=True):
            rows: Flags = np.array([name == device for name in names], dtype=bool) & one.on_device
            work = _of_device(one, device, rows)
            if work is not None:
                found.append(replace(work, path=_path(work, cycles), others_waited_for=others_waited_for))
    return found


def _of_device(one: Matched, device: str | None, rows: Flags) -> DeviceWork | None:
    collective: Flags = np.array([kind == "collective" for kind in one.functions["kind"]], dtype=bool)
    computing, communicating = rows & ~collective, rows & collective
    a, b = (_busy(side, computing) for side in (one.a, one.b))
    if not len(a) or not len(b):
        return None
    busy_a, busy_b = float(centre(a)), float(centre(b))
    low = high = None
    if min(len(a), len(b)) > 1 and min(a.min(), b.min()) > 0:
        moved = location_shift(np.log(a)[None, :], np.log(b)[None, :], float(np.log(a).var()))
        margin = 2.2 * float(moved.error[0])
        low, high = (busy_a * float(np.expm1(moved.delta[0] + way * margin)) for way in (-1, 1))
    launches = [float(centre(side.launches[computing].sum(axis=0)[_known(side, computing)])) for side in (one.a, one.b)]
    together = [float(centre(_busy(side, rows))) for side in (one.a, one.b)]
    cycle = [float(np.median(side.cycle_ms)) for side in (one.a, one.b)]
    idle = [1 - busy / length if busy <= length else None for busy, length in zip(together, cycle, strict=True)]
    communication = [
        float(centre(_busy(side, communicating))) if communicating.any() else 0.0 for side in (one.a, one.b)
    ]
    return DeviceWork(
        device, one.pair.a, one.pair.b, busy_a, busy_b, low, high, launches[0], launches[1], communication[0],
        communication[1], idle[0], idle[1], rank=one.pair.rank,
    )


def _known(side: Side, rows: Flags) -> Flags:
    found: Flags = np.asarray(~np.isnan(side.ms[rows]).any(axis=0), dtype=np.bool_)
    return found


def _busy(side: Side, rows: Flags) -> Floats:
    known: Floats = side.ms[rows].sum(axis=0)[_known(side, rows)]
    return known


def _path(work: DeviceWork, cycles: CycleTime) -> Path | None:
    """'exposed', 'hidden', or None where it cannot be known from cycle and device times."""
    low, high = work.ci_low_ms, work.ci_high_ms
    shift_low, shift_high = cycles.ci_low_ms, cycles.ci_high_ms
    if low is None or high is None or shift_low is None or shift_high is None or low <= 0:
        return None
    if max(0.0, shift_high) < 0.5 * low and work.idle_b is not None and work.idle_b > 0.05:
        return "hidden"
    if shift_low >= 0.5 * high:
        return "exposed" if shift_high <= 2 * high else None
    return None


def agreed(work: DeviceWork, paths: Iterable[str | None]) -> DeviceWork:
    """The device with the path its slower functions have, where that is known of all of them and the same.

    A screen whose rows all say "hidden" must not say above them that nobody can tell.
    """
    known = set(paths)
    if known == {"hidden"}:
        return replace(work, path="hidden")
    if known == {"exposed"}:
        return replace(work, path="exposed")
    return work if not known or known == {None} or work.path in known else replace(work, path=None)
