"""Labels of what a reader must tell apart: two runs under one title, two devices of one number on several ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import PurePath

from msgspec.structs import replace

from ...loaders.trace import Trace


def distinct_labels(runs: tuple[Trace, ...]) -> tuple[Trace, ...]:
    """The runs, relabelled ``folder/label`` where two have the same label and lie in different places.

    The folder is the nearest one above the files whose name differs. Runs of one file, and runs whose labels differ,
    are returned as they are.
    """
    if len(runs) != 2 or runs[0].info.label != runs[1].info.label:
        return runs
    folders = [PurePath(run.info.source).parts[:-1][::-1] for run in runs]
    depth = next((at for at, (a, b) in enumerate(zip(*folders, strict=False)) if a != b), None)
    if depth is None:
        return runs
    return tuple(
        replace(run, info=replace(run.info, label=f"{parents[depth]}/{run.info.label}"))
        for run, parents in zip(runs, folders, strict=True)
    )


Place = tuple[int | None, str | None]
"""A rank and its device."""


def device_labels(places: Collection[Place]) -> dict[Place, str | None]:
    """What each device of each rank is called: 'GPU 0', or 'GPU 0 of rank 3' where several have that name."""
    ranks = Counter(device for _, device in set(places))
    return {
        (rank, device): f"{device or 'the device'} of rank {rank}" if ranks[device] > 1 and rank is not None else device
        for rank, device in places
    }
