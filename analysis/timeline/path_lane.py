"""The critical path of a cycle as a lane: the sequence of kernels, calls and host code that sets the cycle time."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.view import CannotAnswer
from ..kernels.family import family
from ..replay.critical_path import CALL, HOST, LAUNCH, QUEUE, RETURN, START
from ..replay.path_rows import path_of
from ..replay.replayed import MOST_REPLAYED, replay_of
from .classes import CODES
from .lanes import Timeline, lane_of
from .slices import Slices

TITLE = "critical path"
_CLASSES = {HOST: "python", CALL: "launch", LAUNCH: "launch", RETURN: "sync", QUEUE: "other", START: "other"}


def with_path(timeline: Timeline, run: Trace, options: Options) -> Timeline:
    """The timeline with the path as its first lane. Raises CannotAnswer where the run cannot be replayed."""
    launches = int(sum(len(lane.slices) for lane in timeline.drawn if lane.tid is None))
    if launches > MOST_REPLAYED:
        raise CannotAnswer(f"No critical path: {launches:,} activities are too many; the what-if view replays them.")
    path = path_of(run, options)
    if path is None:
        raise CannotAnswer(f"No critical path: {replay_of(run, options).accuracy.reason}.")
    steps = [step for step in path.steps if step.ns > 0]
    names = _codes(timeline, [step.name for step in steps])
    starts = np.array([step.start for step in steps], dtype=np.int64)
    slices = Slices(
        starts, starts + np.array([step.ns for step in steps], dtype=np.int64),
        np.array([names[step.name] for step in steps], dtype=np.uint32),
        np.array([_class(step.kind, step.name) for step in steps], dtype=np.uint8),
        np.zeros(len(steps), dtype=np.uint32),
    ).in_order()
    lane = lane_of(slices, title=TITLE)
    return replace(timeline, names={**timeline.names, **{code: text for text, code in names.items()}}, path=lane)


def _codes(timeline: Timeline, names: list[str]) -> dict[str, int]:
    """A code per name: the recording's if it has the name, else a new one."""
    result, free = dict[str, int](), 2**32 - 2
    for name in dict.fromkeys(names):
        code = timeline.codes.get(name)
        if code is None:
            while free in timeline.names:
                free -= 1
            code, free = free, free - 1
        result[name] = code
    return result


def _class(kind: str, name: str) -> int:
    if kind in _CLASSES:
        return CODES[_CLASSES[kind]]
    return CODES[family(name, kind)]
