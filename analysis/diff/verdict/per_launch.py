"""Where cycles do different work: how much longer one launch of a function takes that both runs have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from ..prepare.samples import IDLE
from .function_change import FunctionChange
from .suspects import BETWEEN_RUNS

CHANGED = 0.1
"""Launches that take less than this share longer or shorter are not mentioned."""
LEAST_FUNCTIONS = 3
"""Of fewer functions in both runs nothing general is said."""


class LaunchChange(Struct, frozen=True):
    """The typical ratio (B over A) of the time per launch of the functions in both runs, and how many these are."""

    category: Literal["device", "host"]
    functions: int
    ratio: float


def judge_by_launch(rows: Sequence[FunctionChange]) -> None:
    """Leave a function slower or faster only where a launch of it is: cycles of other work hold more or fewer."""
    for row in rows:
        if row.kind == IDLE:
            row.verdict = "~"  # what other work leaves over is no more or less of anything
        towards = (row.ratio or 1.0) - 1.0 if row.verdict == "slower" else 1.0 - (row.ratio or 1.0)
        if row.verdict in ("slower", "faster") and towards < BETWEEN_RUNS:
            row.verdict = "~"


def per_launch(rows: Sequence[FunctionChange]) -> tuple[LaunchChange, ...]:
    """Device and host, each with the median ratio by time of the functions both have; those that changed."""
    made = []
    categories: tuple[Literal["device", "host"], ...] = ("device", "host")
    for category in categories:
        both = [
            (row.launch_us_b / row.launch_us_a, row.launch_us_a * min(row.launches_a, row.launches_b)) for row in rows
            if row.category == category and row.launch_us_a and row.launch_us_b and row.launches_a and row.launches_b
        ]
        if len(both) < LEAST_FUNCTIONS:
            continue
        ratio, weight = np.array(sorted(both)).T
        middle = float(ratio[np.searchsorted(np.cumsum(weight), weight.sum() / 2)])
        if abs(middle - 1) > CHANGED:
            made.append(LaunchChange(category, len(both), middle))
    return tuple(made)
