"""A tree as a flame graph: frames one under the other, each as wide as its device or idle time, or its CPU samples.

The frames are the rows of the tree of a view, so that their sums are its sums, to the nanosecond. Of two runs a
frame is as wide as it is in the second one and knows how wide it was in the first.
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
OUTER, CALLS = ("module", "thread"), ("operator", "function")  # Kinds of frames that are no activity of a device.


class Frame(Struct, frozen=True):
    """A frame: its number, that of the one around it (-1 at the root), how deep it is, where it begins and how wide it
    is (ns, or samples), and how wide it was in run A of two (None of one). ``kind`` is thread, module, operator,
    function or an activity's."""

    at: int
    above: int
    name: str
    kind: str
    depth: int
    start: int
    value: int
    before: int | None = None


class Flame(Struct, frozen=True):
    """Frames, each after the one around it. ``lost`` is what only run A had; ``per`` what two runs are compared
    per."""

    frames: tuple[Frame, ...]
    total: int
    weight: Weight
    before: int | None = None
    lost: int = 0
    per: str = "recording"

    def amount(self, value: int) -> str:
        """A width in words."""
        return units.counted(value, "sample", "samples") if self.weight == "samples" else units.duration(value)

    def below(self, at: int) -> list[Frame]:
        """The frames directly below one of them, or the outermost for -1."""
        return [frame for frame in self.frames if frame.above == at]

    def own(self) -> list[int]:
        """Of each frame what none below it has; sums per cycle are rounded and may be one nanosecond apart."""
        made = [frame.value for frame in self.frames]
        for frame in self.frames:
            if frame.above >= 0:
                made[frame.above] -= frame.value
        return [max(0, one) for one in made]

    def stack(self, at: int) -> list[Frame]:
        """A frame and those around it, the outermost first."""
        made: list[Frame] = []
        while at >= 0:
            made.append(self.frames[at])
            at = made[-1].above
        return made[::-1]


def weights_of(table: Table) -> tuple[Weight, ...]:
    """What a tree, in whatever order, can be a flame graph of; of two runs that takes sums that are compared."""
    if not table.columns or table.columns[0].role != "tree":
        return ()
    return tuple(one for one, name in COLUMN.items() if {name, f"{name}_delta"} & {*table.rows.schema})


def flame_of(table: Table, weight: Weight | None = None, side: Literal["a", "b"] | None = None) -> Flame:
    """The frames of a tree as it was built, of both runs or of one ``side``, by the first that it has where no
    ``weight`` is named."""
    weight = weight or table.facts.get("flame_by") or weights_of(table)[0]
    column, frame = COLUMN[weight], table.frame
    pair = f"{column}_b" in frame.columns
    of = column.replace("_ns", "_per_cycle_ns") if pair and table.per == "cycle" else column
    wanted = (of, None) if not pair else (f"{of}_{side}", None) if side else (f"{of}_b", f"{of}_a")
    values = [int(one or 0) for one in frame[wanted[0]].to_list()]
    before = [None] * len(values) if wanted[1] is None else [int(one or 0) for one in frame[wanted[1]].to_list()]
    frames, lost, number = list[Frame](), 0, dict[int, int]()
    stack: list[int] = []  # rows around this one
    ends: list[int] = [0]  # where the next frame begins, of each depth
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
    """Every flame of the tree, with its name: by all that it can be of, of each run."""
    made = []
    for weight in weights_of(table):
        title, pair = WEIGHTS[weight], f"{COLUMN[weight]}_b" in table.rows.schema
        for side in ("a", "b") if pair else (None,):
            one = flame_of(table, weight, side)
            if one.frames:
                made.append((f"{side.upper()} {title}" if side else title, one))
    return made
