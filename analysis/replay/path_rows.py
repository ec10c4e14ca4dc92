"""The critical path for display: a strip with one line per host and stream, its shares by kind, its steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..contract.options import Options
from ..core import units
from ..ranks.job_replay import JobReplay, job_replay_of
from .critical_path import HOST_SIDE, MEANINGS, Path, Step, critical_path
from .replayed import Replayed, replay_of

WIDTH = 200
"""Columns of the strip in the facts; text shows every second one."""
_PARTS = 40
"""How many parts of the critical path are listed."""
_RANK = re.compile(r"rank (\d+)")
_LANES = 6
"""Lines of the strip, for the lanes with the largest shares of the path; all other lanes share one more line."""


def path_of(run: Trace, options: Options) -> Path | None:
    """The critical path of the unchanged run, cached; None where the replay predicts nothing."""
    replayed = replay_of(run, options)
    model = replayed.model
    if model is None or not replayed.predicts:
        return None
    return run.remember("critical path", (options.cycle_anchor,),
                        lambda: critical_path(model, replayed.host, replayed.unchanged))


def path_of_ranks(job: JobReplay) -> tuple[Path, list[str]]:
    """The critical path over all ranks, by devices alone, and the lane of each step: its rank."""
    steps = tuple(Step(one.kind, one.name, one.begin, one.end, one.start, -1, -1) for one in job.path)
    path = Path(job.path_cycle, steps[0].begin if steps else 0, steps[-1].end if steps else 0, steps)
    return path, [_lane(job.workers[one.worker].text, job.stages[one.worker]) for one in job.path]


def _lane(who: str, stage: int | None) -> str:
    return who if stage is None else f"{who} stage {stage}"


def lanes_of(run: Trace, replayed: Replayed, path: Path) -> list[str]:
    """The lane of each step: a host timeline or a stream of a device, with its rank where there are several."""
    assert replayed.model is not None
    a, c = replayed.model.recording.activities, replayed.model.recording.calls
    names = np.full(len(path.steps), "host", dtype=object)
    on_host = np.array([step.kind in HOST_SIDE or step.activity < 0 for step in path.steps], dtype=bool)
    rows = a.row[[step.activity for step in path.steps]][~on_host]
    where = run.kernels.select("device", "stream", "rank").collect()[rows].cast({"device": pl.String})
    several = run.kernels.select(pl.col("rank").n_unique()).collect().item() > 1
    names[~on_host] = [
        f"{'' if rank is None or not several else f'rank {rank} '}{device or 'device'}"
        f"{'' if stream is None else f' stream {stream}'}"
        for device, stream, rank in where.iter_rows()
    ]
    chains = c.chain[[step.call for step in path.steps]]
    if len(np.unique(c.chain)) > 1:
        labels = dict[int, str]()
        for chain in np.unique(chains[on_host]).tolist():
            first = c.row[(c.chain == chain) & (c.row >= 0)][0]
            pid, rank = run.host.select("pid", "rank").slice(int(first), 1).collect().row(0)
            labels[chain] = f"rank {rank} host" if rank is not None else f"host {pid}"
        names[on_host] = [labels[chain] for chain in chains[on_host].tolist()]
    return names.tolist()


def shares(path: Path) -> str:
    """The share of each kind on the path, in words."""
    length = max(path.end - path.begin, 1)
    parts = [(ns / length, MEANINGS[kind]) for kind, ns in path.by_kind().items()]
    return ", ".join(f"{units.percent(100 * share, places=0)} {name}" for share, name in parts if share >= 0.005)


MANY_LANES = 3
"""From more lanes on the sentence names the one with most of the path."""


def sentence(path: Path, lanes: Sequence[str]) -> str:
    """The shares, and the lanes the path is on most."""
    most = f" (most on {_most(path, lanes)[0]})" if len(set(lanes)) > MANY_LANES else ""
    return f"Critical path: {shares(path)}{most}."


def _most(path: Path, lanes: Sequence[str]) -> list[str]:
    sums = dict.fromkeys(lanes, 0)
    for step, lane in zip(path.steps, lanes, strict=True):
        sums[lane] += step.ns
    return sorted(sums, key=lambda lane: -sums[lane])


def facts(path: Path, lanes: Sequence[str]) -> dict[str, Any]:
    """The path as data: its shares by kind and by part, and the strip."""
    length = max(path.end - path.begin, 1)
    parts = path.parts()
    shown = _most(path, lanes)[:_LANES]
    few = [lane if lane in shown else "elsewhere" for lane in lanes]
    result: dict[str, Any] = {
        "cycle": path.cycle, "length_ns": path.end - path.begin,
        "kinds": {kind: ns / length for kind, ns in path.by_kind().items()},
        "parts": [{"kind": kind, "name": name, "ns": ns, "share": ns / length} for kind, name, ns in parts[:_PARTS]],
        "strip": path.strip(few, WIDTH), "legend": path.legend(), "ranks": ranks_of(path, lanes),
    }
    rest = sum(ns for _, _, ns in parts[_PARTS:])
    if rest:
        more = f"{len(parts) - _PARTS} more"
        result["parts"].append({"kind": "other", "name": more, "ns": rest, "share": rest / length})
    return result


def ranks_of(path: Path, lanes: Sequence[str]) -> list[dict[str, Any]]:
    """``rank ns share`` of the path on each rank, most first; empty for a single rank."""
    length, sums = max(path.end - path.begin, 1), dict[int, int]()
    for step, lane in zip(path.steps, lanes, strict=True):
        if (number := _RANK.match(lane)) is not None:
            sums[int(number[1])] = sums.get(int(number[1]), 0) + step.ns
    return [{"rank": rank, "ns": ns, "share": ns / length} for rank, ns in sorted(
        sums.items(), key=lambda one: (-one[1], one[0]))]


def picture(path: dict[str, Any]) -> tuple[str, ...]:
    """The strip as letters, with its scale and legend, from the facts."""
    strip = {lane: line[::2] for lane, line in path["strip"].items()}
    label, width = max(map(len, strip), default=0) + 1, WIDTH // 2
    middle, end = units.duration(path["length_ns"] / 2), units.duration(path["length_ns"])
    scale = ("0".ljust(width // 2) + middle).ljust(width - len(end)) + end
    legend = "  ".join(f"{letter} {meaning}" for letter, meaning in path["legend"].items())
    return (*(f"{lane:<{label}}{line}".rstrip() for lane, line in strip.items()), " " * label + scale, legend)


def rows(run: Trace, options: Options) -> list[dict[str, Any]]:
    """The steps of the path in order; empty where the run cannot be replayed."""
    path = path_of(run, options) if run.has("kernels") else None
    if path is not None:
        lanes = lanes_of(run, replay_of(run, options), path)
    elif isinstance(job := job_replay_of(run, options), JobReplay):
        path, lanes = path_of_ranks(job)
    else:
        return []
    length = max(path.end - path.begin, 1)
    return [
        {"at": at, "kind": MEANINGS[step.kind], "name": step.name, "lane": lane, "start_ns": step.start,
         "dur_ns": step.ns, "share": step.ns / length}
        for at, (step, lane) in enumerate(zip(path.steps, lanes, strict=True))
    ]
