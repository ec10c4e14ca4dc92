"""The effect of a changed resource alone: run A replayed with B's time per launch for the functions that ran under it.

*Explains* means: with only that changed, the cycle would take this long. Nothing is predicted if the replay of A is not
reliable or the same functions ran on other devices too.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.changes import Change, exactly
from ..contract.options import Options
from ..replay.replayed import replay_of
from .function_change import FunctionChange
from .resources import ChangedResource

_KINDS = {"kernel": "kernel", "collective": "collective", "memcpy": "copy", "memset": "copy"}
_SAME = 0.02
"""Functions that changed by at most this share count as unchanged."""


class Alone(Struct, frozen=True):
    """A cycle of A, ns: as replayed, and predicted with B's time per launch for ``functions`` of its functions;
    ``error`` is that of the replay."""

    cycle_ns: int
    predicted_ns: int
    functions: int
    error: float


def predicted_alone(
    run: Trace, resource: ChangedResource | None, rows: Sequence[FunctionChange], options: Options
) -> Alone | None:
    """The cycle of ``run`` with only that resource changed; None if it cannot be predicted."""
    if resource is None or resource.device == "Host":
        return None
    changed = [
        row for row in rows
        if row.device == resource.device and row.metric == resource.metric and row.kind in _KINDS and row.ratio
        and abs(row.ratio - 1) > _SAME and row.part_of is None
    ]
    names = {row.function for row in changed}
    elsewhere = any(row.function in names and row.device != resource.device for row in rows)
    if not changed or elsewhere or not run.has("host"):
        return None
    replayed = replay_of(run, options)
    if replayed.model is None or not replayed.predicts or replayed.accuracy.error is None:
        return None
    changes = [Change(_KINDS[str(row.kind)], exactly(row.function), row.ratio) for row in changed]
    outcome, _ = replayed.with_changes(changes)
    return Alone(
        round(replayed.cycle_ns), round(replayed.model.cycle_ns(outcome)), len(changed), replayed.accuracy.error)
