"""Why the device with most idle time waited, in the steps: its idle time in parts that do not overlap."""

from __future__ import annotations

import polars as pl
from msgspec import Struct

from ....loaders.trace import Trace
from ...core import units
from ...core.batches import CALLS
from ...core.run_labels import device_labels
from ...core.text import display
from ...cycles.whole import Steps
from ...idle.attribution import DeviceIdle, Idle, idle_of
from ...idle.causes import cause_of_call
from ...idle.scope import Part

DOUBT = 0.5  # If more than this share of idle time ends without a recorded launch, causes are not reported.


class Waits(Struct, frozen=True):
    """The device with most idle time of ``devices``: its window and idle time in ns, idle time by cause, and the parts.
    ``in_steps``: these cover the ``steps``, each a ``word``, not the whole recording. ``doubt``: why causes are
    unknown; None if they are known. ``emptied`` is the part of ``behind`` after a wait that had emptied the queue, by
    that wait. ``allocations`` are the allocating calls with most host time, and their counts."""

    device: str | None
    devices: int
    window_ns: int
    idle_ns: int
    causes: dict[str, int]
    input: Part = Part()
    allocation: Part = Part()
    drained: Part = Part()
    behind: Part = Part()
    emptied: Part = Part()
    queued: Part = Part()
    doubt: str | None = None
    allocations: tuple[tuple[str, int], ...] = ()
    in_steps: bool = False
    steps: int = 1
    word: str = "step"

    def share(self, ns: float) -> float:
        """A time as a share of the device's window."""
        return ns / self.window_ns if self.window_ns else 0.0

    @property
    def who(self) -> str:
        """The device's name for sentences."""
        return display(self.device or "the device", 24)

    def of(self, ns: float) -> str:
        """A time as a part of the mean step, '58.7 of 177.6 ms a step', or of the device's window, '6.7 of 14.5 s'."""
        if not self.in_steps:
            return units.part_of(ns, self.window_ns)
        if self.devices > 1:  # whose steps are not as long as those of the others
            return f"{units.duration(ns / self.steps)} of its {units.duration(self.window_ns / self.steps)} {self.word}"
        return f"{units.part_of(ns / self.steps, self.window_ns / self.steps)} {units.each(self.word)}"


def waits_of(run: Trace, piece: Trace, steps: Steps | None, within: Trace) -> Waits | None:
    """The waits between the activities of a piece of a run; None if no device activity has a timestamp. ``within`` is
    the part of the piece that begins in the steps."""
    idle = idle_of(run, piece, steps) if piece.has("kernels") else None
    if idle is None or not idle.scope:
        return None
    most = max(idle.scope, key=lambda device: device.sums.idle_ns)
    labels = device_labels([(one.sums.rank, one.sums.device) for one in idle.scope])
    return Waits(
        labels[most.sums.rank, most.sums.device], len(idle.scope), most.sums.window_ns, most.sums.idle_ns,
        most.sums.causes,
        **most.parts, doubt=_doubt(idle, most.sums), allocations=_allocations(within), in_steps=steps is not None,
        steps=1 if steps is None else steps.counts().get((most.sums.rank, most.sums.device), 1),
        word="" if steps is None else steps.cycles.noun,
    )


def _doubt(idle: Idle, device: DeviceIdle) -> str | None:
    if device.causes.get("unknown", 0) > DOUBT * device.idle_ns:
        return "what launched the device's activities is not recorded"
    if any("graph launches have no kernels" in note for note in idle.notes):
        return "graphs were launched whose kernels are not recorded"
    return None


def _allocations(piece: Trace) -> tuple[tuple[str, int], ...]:
    """The two allocating, freeing or loading calls with most host time, and their counts."""
    sums = piece.host.filter(pl.col("kind").is_in(CALLS)).group_by(pl.col("name").cast(pl.String)).agg(
        count=pl.len(), total_ns=pl.col("dur_ns").sum(),
    ).sort("total_ns", "name", descending=[True, False]).collect(engine="streaming")
    allocations = [(name, count) for name, count, _ in sums.iter_rows() if name and cause_of_call(name) == "allocation"]
    return tuple(allocations[:2])
