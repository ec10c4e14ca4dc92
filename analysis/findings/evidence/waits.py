"""Why the device with most idle time waited, in the steps: its idle time in parts that do not overlap."""

from __future__ import annotations

import polars as pl
from msgspec import Struct

from ....loaders.schema import is_work
from ....loaders.trace import Trace
from ...core import units
from ...core.batches import CALLS
from ...core.intervals import union
from ...core.run_labels import device_labels
from ...core.text import display
from ...cycles.launch_runs import graph_capture
from ...cycles.whole import Steps
from ...idle.attribution import DeviceIdle, DeviceScope, Idle, idle_of
from ...idle.causes import cause_of_call
from ...idle.scope import Part

DOUBT = 0.5  # If more than this share of idle time ends without a recorded launch, causes are not reported.


NEAR = 0.05  # The first wait may be this share shorter than the time before the first activity: calls take the rest.
CAPTURED = "most of the idle time is a graph capture, in which launched kernels do not run"


class Waits(Struct, frozen=True):
    """The device with most idle time of ``devices``: its window and idle time in ns, idle time by cause, and the parts.
    ``in_steps``: these cover the ``steps``, each a ``word``, not the whole recording. ``doubt``: why causes are
    unknown; None if they are known. ``emptied`` is the part of ``behind`` after a wait that had emptied the queue, by
    that wait. ``allocations`` are the allocating calls with most host time, and their counts. ``capture``: what is
    captured, if most of the idle time is the capture of a graph. ``begins_amid``: most of ``queued`` is the wait before
    the device's first recorded activity."""

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
    capture: str | None = None
    begins_amid: bool = False

    def share(self, ns: float) -> float:
        """A time as a share of the device's window."""
        return ns / self.window_ns if self.window_ns else 0.0

    @property
    def own_ns(self) -> float | None:
        """The device's mean step, where it is one of several and its step not the mean of all; else None."""
        return self.window_ns / self.steps if self.in_steps and self.devices > 1 else None

    @property
    def who(self) -> str:
        """The device's name for sentences."""
        return display(self.device or "the device", 24)

    def of(self, ns: float) -> str:
        """A time as a part of the mean step, '58.7 of 177.6 ms a step', or of the device's window, '6.7 of 14.5 s'."""
        if not self.in_steps:
            return units.part_of(ns, self.window_ns)
        if self.own_ns is not None:
            return f"{units.duration(ns / self.steps)} of its {units.duration(self.own_ns)} {self.word}"
        return f"{units.part_of(ns / self.steps, self.window_ns / self.steps)} {units.each(self.word)}"


def waits_of(run: Trace, piece: Trace, steps: Steps | None, within: Trace) -> Waits | None:
    """The waits between the activities of a piece of a run; None if no device activity has a timestamp. ``within`` is
    the part of the piece that begins in the steps."""
    idle = idle_of(run, piece, steps) if piece.has("kernels") else None
    if idle is None or not idle.scope:
        return None
    most = max(idle.scope, key=lambda device: device.sums.idle_ns)
    doubt, capture = _doubt(idle, most.sums), captured(piece, idle, most.sums, steps)
    labels = device_labels([(one.sums.rank, one.sums.device) for one in idle.scope])
    return Waits(
        labels[most.sums.rank, most.sums.device], len(idle.scope), most.sums.window_ns, most.sums.idle_ns,
        most.sums.causes,
        **most.parts, doubt=CAPTURED if capture else doubt, allocations=_allocations(within),
        in_steps=steps is not None,
        steps=1 if steps is None else steps.counts().get((most.sums.rank, most.sums.device), 1),
        word="" if steps is None else steps.cycles.noun, capture=capture,
        begins_amid=_is_first(piece, most, steps),
    )


def _is_first(run: Trace, device: DeviceScope, steps: Steps | None) -> bool:
    """Whether the most queued time is one wait, that of the first step before the device's first activity."""
    queued = device.parts.get("queued", Part())
    if steps is None or 2 * queued.idle_ns <= device.sums.idle_ns or queued.sites[0].gaps != 1:
        return False
    window = steps.of(device.sums.rank, device.sums.device)
    first = run.kernels.filter(
        is_work(), pl.col("device").cast(pl.String).eq_missing(pl.lit(device.sums.device)),
        pl.col("rank").eq_missing(pl.lit(device.sums.rank, pl.Int64)),
    ).select(pl.col("start_ns").min()).collect(engine="streaming").item()
    return first is not None and queued.sites[0].idle_ns >= (1 - NEAR) * (first - int(window.starts[0])) > 0


def captured(run: Trace, idle: Idle, device: DeviceIdle, steps: Steps | None) -> str | None:
    """What is captured, where the capture of a graph takes most of a device's idle time; None elsewhere. ``device`` has
    the sums over the steps, or over the time from its first to its last activity."""
    capture = graph_capture(run) if device.idle_ns else None
    if capture is None:
        return None
    if steps is not None:
        window = steps.of(device.rank, device.device)
    else:
        end = pl.col("start_ns") + pl.col("dur_ns")
        hull = idle.gaps.filter(pl.col("device").cast(pl.String).eq_missing(pl.lit(device.device))).select(
            pl.col("start_ns").min(), end=end.max()).drop_nulls().collect(engine="streaming")
        window = union(*hull.to_numpy().T)
    return capture.sentence if (window & capture.during).length > DOUBT * device.idle_ns else None


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
