"""HLO ops and modules on the host: the slices in which the runtime launches them, and which calls belong to which.

A launch call says the op it is of but lies on a line of its own, so it is tied to the slice of that name that was open
when it began. Where the runtime recorded no such slice, a call has no operator.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..kineto.columns import NULL, Strings
from ..protobuf.tokens import Ints, map_distinct
from .events import XPlaneEvents

_MODULE = ":XLA GPU module"
Mask = npt.NDArray[np.bool_]


class Operators:
    """``meet`` the ops devices ran, ``learn`` where the host launched them, then ask ``of`` the host's events."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._ops: set[int] = set()
        self._seen: list[tuple[Ints, Ints, Ints, Ints]] = []
        self._sorted: tuple[Ints, Ints, Ints, Ints] | None = None

    def meet(self, ops: Ints) -> None:
        """Codes of the names of HLO ops."""
        self._ops |= set(np.unique(ops).tolist()) - {-1}

    def _is_operator(self, names: Ints) -> Mask:
        texts = self._strings.texts
        return map_distinct(names, lambda code: code in self._ops or texts[code].endswith(_MODULE), bool)

    def learn(self, events: XPlaneEvents) -> None:
        """Take in the slices that are operators; their ids are their places in the file."""
        self.meet(events.statistics.texts("hlo_op"))
        at = np.flatnonzero(self._is_operator(events.name) & (events.start != NULL) & (events.dur >= 0))
        if len(at):
            ends = events.start[at] + events.dur[at]
            self._seen.append((events.name[at], events.start[at], ends, events.offset[at]))

    def of(self, events: XPlaneEvents) -> tuple[Ints, Mask]:
        """External ids (NULL for none) and which of the events are operators themselves."""
        external, is_operator = np.full(events.rows, NULL, np.int64), self._is_operator(events.name)
        external[is_operator] = events.offset[is_operator]
        op = events.statistics.texts("hlo_op")
        calls = np.flatnonzero((op >= 0) & ~is_operator & (events.start != NULL))
        if len(calls) and self._seen:
            external[calls] = self._around(op[calls], events.start[calls])
        return external, is_operator

    def _around(self, op: Ints, start: Ints) -> Ints:
        """The id of the latest slice of each op's name to begin by a time, where it had not ended by then."""
        if self._sorted is None:
            columns = [np.concatenate(column) for column in zip(*self._seen, strict=True)]
            order = np.lexsort((columns[1], columns[0]))
            self._sorted = columns[0][order], columns[1][order], columns[2][order], columns[3][order]
        names, starts, ends, ids = self._sorted
        out = np.full(len(op), NULL, np.int64)
        for name in np.unique(op).tolist():
            low, high = np.searchsorted(names, [name, name + 1])
            rows = np.flatnonzero(op == name)
            at = np.searchsorted(starts[low:high], start[rows], side="right") - 1 + low
            inside = (at >= low) & (ends[np.maximum(at, 0)] >= start[rows]) if high > low else np.zeros(len(rows), bool)
            out[rows[inside]] = ids[at[inside]]
        return out
