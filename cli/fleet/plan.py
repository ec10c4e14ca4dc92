"""The plan of a reduction: the recordings in the given folders, and which of them are already reduced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from ...loaders.dataset.layout import DESCRIPTION, Part
from ...loaders.errors import Unreadable
from .recording import Recording, stamps


class Plan(NamedTuple):
    """The recordings to reduce, largest first; the parts already up to date; messages on unreadable files."""

    work: list[Recording]
    current: list[Part]
    unread: list[str]


def plan(paths: Sequence[str], dataset: Path, known: Sequence[Part], reduced: int) -> Plan:
    """The work that brings the dataset up to date with the paths. Raises Unreadable if they hold no recordings."""
    from ...loaders.ingest import rank_names
    from ...loaders.ingest.job.files import listed

    files: dict[Path, None] = {}
    unread: list[str] = []
    failed: Unreadable | None = None
    for path in paths:
        try:
            recordings, lacking = listed(path)
        except Unreadable as error:
            failed, recordings, lacking = error, [], [str(error)]
        files |= dict.fromkeys(file for file in recordings if file.name != DESCRIPTION)
        unread += lacking
    if not files:
        raise failed or Unreadable(paths[0], "holds no trace")
    groups = rank_names.recordings(list(files))
    named = rank_names.ranks_of([group[0] for group in groups], [()] * len(groups))
    ranks: Sequence[int | None] = named.ranks if named else [None] * len(groups)
    session = uuid4().hex[:12]
    done = {part.stamps: part for part in known if part.reduced == reduced}
    work, current = [], []
    for group, rank in zip(groups, ranks, strict=True):
        names = tuple(str(file.absolute()) for file in group)
        states = stamps(names)
        if states in done:
            current.append(done[states])
        else:
            work.append(Recording(names, rank, str(dataset.absolute()), session, states))
    return Plan(sorted(work, key=_size, reverse=True), current, unread)


def _size(one: Recording) -> int:
    return sum(size for _, size, _ in one.stamps)
