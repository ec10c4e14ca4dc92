"""Two runs under one title cannot be told apart: where labels are equal, the folder that differs goes before them."""

from __future__ import annotations

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
