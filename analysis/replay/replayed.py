"""A run with its model and its unchanged replay, from which every what-if question starts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..contract.changes import Change
from ..contract.options import Options
from ..core.call_tree import Ints
from ..work.roofline import least_of
from .accuracy import Accuracy, accuracy_of
from .apply import NO_LEAST, apply
from .host_time import HostTime
from .model import Knobs, Model, Outcome
from .recording import recording_of
from .together import links_of

MOST_REPLAYED = 1_000_000
"""Largest number of activities that other views replay, in no more time than the rest of their page takes."""


class Replayed:
    """The unchanged replay of a run and its accuracy. ``model`` is None where the run cannot be replayed at all."""

    def __init__(self, run: Trace, options: Options) -> None:
        recording = recording_of(run, options)
        self.model = None if isinstance(recording, str) else Model(recording, links_of(run, recording))
        if isinstance(recording, str) or self.model is None:
            self.accuracy = Accuracy(reason=str(recording))
            return
        self.unchanged = self.model.replay()
        self.cycle_ns = self.model.cycle_ns(self.unchanged)
        self.accuracy = accuracy_of(self.model, self.unchanged)
        self._run = run

    @property
    def predicts(self) -> bool:
        """Whether the replay is accurate enough to predict changes."""
        return self.accuracy.reason is None

    @cached_property
    def host(self) -> HostTime:
        """The host time before each call."""
        assert self.model is not None
        return HostTime(self._run, self.model.recording, self.model.gap, self.model.anchor)

    @cached_property
    def least(self) -> Ints:
        """The least time of each activity at the peak of its device, ns; ``NO_LEAST`` where unknown."""
        assert self.model is not None
        rows = self.model.recording.activities.row
        least = least_of(self._run)
        return np.full(len(rows), NO_LEAST) if least is None else least.cast(
            pl.Int64, strict=False).fill_null(NO_LEAST).gather(rows).to_numpy()

    def knobs(self, *changes: Change) -> tuple[Knobs, tuple[str, ...]]:
        """The knobs with the changes applied, and the changes that match nothing."""
        assert self.model is not None
        return apply(self.model, self.host, changes, lambda: self.least)

    def with_changes(self, changes: Sequence[Change]) -> tuple[Outcome, tuple[str, ...]]:
        """The replay with the changes applied, and the changes that match nothing."""
        assert self.model is not None
        knobs, unmatched = self.knobs(*changes)
        return self.model.replay(knobs), unmatched

    def saved_with(self, knobs: Knobs) -> float:
        """How much shorter a cycle is with these knobs, ns."""
        assert self.model is not None
        return self.cycle_ns - self.model.cycles_with(knobs)[0]

    def saved_ns(self, *changes: Change) -> float:
        """How much shorter a cycle is with the changes, ns; negative where it is longer."""
        return self.saved_with(self.knobs(*changes)[0])


def replay_of(run: Trace, options: Options) -> Replayed:
    """The replay of a run, cached."""
    return run.remember("replay", (options.cycle_anchor,), lambda: Replayed(run, options))
