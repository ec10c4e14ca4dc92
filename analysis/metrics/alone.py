"""Whether a run is nothing but samples of counters, so that what is asked first is what they read."""

from __future__ import annotations

from collections.abc import Sequence

from ...loaders.trace import TABLE_NAMES, Trace

_SAMPLES = frozenset(("metrics", "allocations"))


def only_counters(runs: Sequence[Trace]) -> bool:
    """Whether every one of these runs has samples and no other table."""
    return bool(runs) and all(
        run.has("metrics") and not any(run.has(name) for name in TABLE_NAMES if name not in _SAMPLES) for run in runs
    )
