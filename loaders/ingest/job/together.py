"""The recordings of a folder as one run: windows of a process joined, ranks merged, what drives them left out.

Whose rank each is says the recording, else its name. Where several are of one rank they are windows of its process, one
after the other: they are joined first, if all know when they were recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ... import registry
from ...errors import Unreadable
from ...trace import Trace
from .. import discovery, ranks

DRIVER = re.compile(
    r"async_?llm|scheduler|tokenizer|front_?end|api_?server|engine_?core|router|controller", re.IGNORECASE,
)
"""Names of the processes of a serving engine that drive ranks and are none."""


def job_of(display_name: str, singles: Sequence[Trace]) -> Trace:
    """All recordings as one run. Raises Unreadable where they are neither one job's ranks nor one process's windows."""
    runs, drivers = _without_drivers(singles)
    label = Path(os.path.abspath(display_name)).name or display_name
    job = _joined(display_name, label, runs) if len(runs) > 1 else runs[0]
    return job.warn(*(
        f"{Path(trace.info.source).name} is of a process that drives the ranks, with nothing on a device: it was left "
        "out; open it alone to see it" for trace in drivers
    )) if drivers else job


def ranks_together(runs: Sequence[Trace]) -> Trace | None:
    """Recordings that say they are of different ranks, as one run; None where any does not say, or two say the same."""
    recorded = [run.info.ranks for run in runs]
    distinct = {numbers for numbers in recorded if len(numbers) == 1}
    if len(runs) < 2 or len(distinct) < len(runs):
        return None
    if len({run.info.format for run in runs}) > 1:
        return None
    label = f"{runs[0].info.label} and {len(runs) - 1} more rank{'s' if len(runs) > 2 else ''}"
    return ranks.merge(runs[0].info.source, label, runs, [rank for (rank,) in recorded])


def _without_drivers(singles: Sequence[Trace]) -> tuple[list[Trace], list[Trace]]:
    """The recordings of ranks, and those of a serving engine's other processes; without any rank all are taken."""
    drivers = [
        trace for trace in singles
        if not trace.info.ranks and DRIVER.search(Path(trace.info.source).name) and not trace.has("kernels")
    ]
    others = [trace for trace in singles if not any(trace is driver for driver in drivers)]
    return (others, drivers) if others else (list(singles), [])


def _joined(display_name: str, label: str, singles: Sequence[Trace]) -> Trace:
    files = [Path(file) for file in dict.fromkeys(trace.info.source for trace in singles)]
    formats = {trace.info.format for trace in singles}
    if len(singles) == len(files) and len(formats) == 1:
        numbers = ranks.ranks_of(files, [trace.info.ranks for trace in singles])
        if numbers is None and _one_run(formats):
            numbers = list(range(len(files)))
        if numbers is not None:
            return ranks.merge(display_name, label, singles, numbers)
        if (run := _windowed(display_name, label, files, singles)) is not None:
            return run
    reason = f"holds {len(files)} recordings that are not the ranks of one job{_twice(files, singles)}"
    raise Unreadable(display_name, reason, discovery.runs_under(Path(display_name), files))


def _twice(files: Sequence[Path], singles: Sequence[Trace]) -> str:
    """Which rank two of the files say they are of, as the end of a sentence; nothing where none is said twice."""
    sources: dict[tuple[int, ...], str] = {}
    for file, trace in zip(files, singles, strict=False):
        ranks = trace.info.ranks
        if ranks and ranks in sources:
            which = f"rank {ranks[0]}" if len(ranks) == 1 else "the same ranks"
            return f": {sources[ranks]} and {file.name} both say that they are of {which}"
        sources[ranks] = file.name
    if len({bool(ranks) for ranks in sources}) > 1:
        return f": {sources[()]} does not say whose it is, and the names of all do not fit what the others say"
    return ""


def _windowed(display_name: str, label: str, files: list[Path], singles: Sequence[Trace]) -> Trace | None:
    """The windows of each process joined, and the processes merged; None where that makes no job of them."""
    of_file = dict(zip(files, singles, strict=True))
    groups = [[of_file[file] for file in group] for group in ranks.recordings(files)]
    if len(groups) == len(files) or not all(map(_of_one_process, groups)):
        return None
    if len(groups) == 1:
        return ranks.joined(display_name, label, groups[0])
    processes = [
        group[0] if len(group) == 1 else ranks.joined(group[0].info.source, group[0].info.label, group)
        for group in groups
    ]
    sources = [Path(run.info.source) for run in processes]
    numbers = ranks.ranks_of(sources, [run.info.ranks for run in processes])
    return None if numbers is None else ranks.merge(display_name, label, processes, numbers)


def _of_one_process(group: Sequence[Trace]) -> bool:
    """Whether recordings with names of one process are of one rank, and each knows when it was made."""
    if len(group) == 1:
        return True
    return len({trace.info.ranks for trace in group}) == 1 and all(trace.info.epoch_ns is not None for trace in group)


def _one_run(formats: set[str]) -> bool:
    """Whether files of the format that lie together are always one run's, whatever they are called."""
    return all(loader.folder_is_one_run for loader in registry.loaders() if loader.name in formats)
