"""A tree as a flame graph: nested frames, as wide as their device time, idle time or CPU samples.

Frames are the rows of a view's tree, so their sums equal the view's, to the nanosecond. With two runs, a frame's width
is that of run B, and it also holds its width in run A.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ..core import units
from .table import Table

Weight = Literal["device", "idle", "samples"]
WEIGHTS: dict[Weight, str] = {
    "device": "device time", "idle": "idle time before launches", "samples": "CPU samples"}
COLUMN: dict[Weight, str] = {"device": "device_total_ns", "idle": "idle_total_ns", "samples": "samples"}
OUTER, CALLS = ("module", "thread"), ("operator", "function")  # Frame kinds that are not device activities.


class Frame(Struct, frozen=True):
    """A frame: its number, its parent's (``above``, -1 at the root), depth, start and width (ns, or samples), and with
    two runs its width in run A (``before``, else None). ``kind`` is thread, module, operator, function or the kind of
    activity."""

    at: int
    above: int
    name: str
    kind: str
    depth: int
    start: int
    value: int
    before: int | None = None


class Flame(Struct, frozen=True):
    """Frames, each after its parent. ``lost`` is the total of frames only run A has; ``per``: the basis on which two
    runs are compared, cycle or recording."""

    frames: tuple[Frame, ...]
    total: int
    weight: Weight
    before: int | None = None
    lost: int = 0
    per: str = "recording"

    def amount(self, value: int) -> str:
        """A width as text."""
        return units.counted(value, "sample", "samples") if self.weight == "samples" else units.duration(value)

    def below(self, at: int) -> list[Frame]:
        """The direct children of a frame, or the outermost frames for -1."""
        return [frame for frame in self.frames if frame.above == at]

    def own(self) -> list[int]:
        """Self value of each frame; sums per cycle are rounded and may be off by one nanosecond."""
        result = [frame.value for frame in self.frames]
        for frame in self.frames:
            if frame.above >= 0:
                result[frame.above] -= frame.value
        return [max(0, one) for one in result]

    def stack(self, at: int) -> list[Frame]:
        """A frame and its ancestors, outermost first."""
        result: list[Frame] = []
        while at >= 0:
            result.append(self.frames[at])
            at = result[-1].above
        return result[::-1]


def weights_of(table: Table) -> tuple[Weight, ...]:
    """The weights that a tree has, in any row order; with two runs it must have sums that can be compared."""
    if not table.columns or table.columns[0].role != "tree":
        return ()
    return tuple(one for one, name in COLUMN.items() if {name, f"{name}_delta"} & {*table.rows.schema})


def flame_of(table: Table, weight: Weight | None = None, side: Literal["a", "b"] | None = None) -> Flame:
    """The frames of a tree as built, of both runs or of one ``side``; without ``weight``, by the tree's first one."""
    weight = weight or table.facts.get("flame_by") or weights_of(table)[0]
    column, frame = COLUMN[weight], table.frame
    pair = f"{column}_b" in frame.columns
    of = column.replace("_ns", "_per_cycle_ns") if pair and table.per == "cycle" else column
    wanted = (of, None) if not pair else (f"{of}_{side}", None) if side else (f"{of}_b", f"{of}_a")
    values = [int(one or 0) for one in frame[wanted[0]].to_list()]
    before = [None] * len(values) if wanted[1] is None else [int(one or 0) for one in frame[wanted[1]].to_list()]
    frames, lost, number = list[Frame](), 0, dict[int, int]()
    stack: list[int] = []  # rows around the current one
    ends: list[int] = [0]  # start of the next frame, per depth
    rows = zip(frame["name"].to_list(), frame["kind"].to_list(), frame["depth"].to_list(), strict=True)
    for row, (name, kind, depth) in enumerate(rows):
        del stack[depth:]
        above = number.get(stack[-1], -1) if stack else -1
        stack.append(row)
        if values[row] <= 0 or (stack[:-1] and above < 0):
            lost += before[row] or 0 if (above >= 0 or depth == 0) else 0
            continue
        del ends[depth + 1 :]
        start = ends[depth]
        number[row] = len(frames)
        frames.append(Frame(len(frames), above, str(name), str(kind), depth, start, values[row], before[row]))
        ends[depth] = start + values[row]
        ends.append(start)
    total = sum(one.value for one in frames if one.depth == 0)
    was = None if wanted[1] is None else sum(
        one or 0 for one, depth in zip(before, frame["depth"].to_list(), strict=True) if depth == 0)
    return Flame(tuple(frames), total, weight, was, lost, table.per or "recording")


def flames_of(table: Table) -> Sequence[tuple[str, Flame]]:
    """Every flame graph of the tree with its name: one per weight and run."""
    result = []
    for weight in weights_of(table):
        title, pair = WEIGHTS[weight], f"{COLUMN[weight]}_b" in table.rows.schema
        for side in ("a", "b") if pair else (None,):
            one = flame_of(table, weight, side)
            if one.frames:
                result.append((f"{side.upper()} {title}" if side else title, one))
    return result
