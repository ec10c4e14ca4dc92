"""The changes tried on every run: for each kind whatever takes the most time, removed (factor 0)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.changes import FAMILY, GRAPH, Change, exactly
from ..core.batches import batches
from ..core.call_tree import Ints
from ..core.callers import operators_of_launches
from ..kernels.family import TITLES, family
from .apply import CAUSES, causes_of_calls, launched_under
from .host_time import HostTime
from .model import Model
from .recording import EDGE
from .replayed import Replayed

MOST = {"kernel": 12, "collective": 4, "copy": 3, "op": 6, "host": 4}
"""How many of each kind are tried."""
WHOLE_CAUSES = ("op", "python", "untraced", "unknown", "profiler", "dispatch")
"""Causes of idle time that stand for host code or latency as a whole: no single change removes them."""
MOSTLY = 0.95
"""An entry with this share of a total is taken for the total."""
ALL = {"kernel": "all kernels", "collective": "all collectives", "host": "all host code"}


class Candidate(Struct, frozen=True):
    """A change, the name it is listed under, and the device time (ns) and count per cycle of what it changes.

    ``device_ns`` is None for changes other than of device time; ``several``: it changes activities of several names.
    """

    change: Change
    name: str
    device_ns: float | None
    count: float
    several: bool = False

    @property
    def kind(self) -> str:
        """The kind it is listed under."""
        return f"{self.change.kind}s" if self.several else self.change.kind


def candidates(run: Trace, replayed: Replayed) -> list[Candidate]:
    """The candidates, by kind; of two with the same effect the first is listed. Needs a ``replayed.model``."""
    model = replayed.model
    assert model is not None
    graph = f"one graph launch per {'cycle' if model.cycles else 'recording'}"
    return [
        *_activities(model), *_operators(run, model, replayed), *_idle(model, replayed),
        *_host(run, model, replayed.host), *_calls(model),
        Candidate(Change(GRAPH), graph, None, _per(model, _launches(model))),
    ]


def _inside(model: Model) -> Ints:
    """The activities that count: those in cycles, or all if there are no cycles."""
    cycle = model.recording.activities.cycle
    return np.flatnonzero(cycle >= 0) if model.cycles else np.arange(len(cycle))


def _per(model: Model, total: float) -> float:
    return total / max(model.recording.cycles.height, 1) if model.cycles else total


def _launches(model: Model) -> int:
    return int(model.recording.activities.first[_inside(model)].sum())


def _activities(model: Model) -> list[Candidate]:
    a, some = model.recording.activities, _inside(model)
    dur = a.dur[some]
    changes = []
    for kind in ("kernel", "collective", "copy"):
        of_kind = a.kind.where((lambda text: text in ("memcpy", "memset")) if kind == "copy" else kind.__eq__)[some]
        if not of_kind.any():
            continue
        names = a.name.number[some][of_kind].astype(np.int64)
        total = np.bincount(names, weights=dur[of_kind], minlength=len(a.name.texts))
        count = np.bincount(names, minlength=len(a.name.texts))
        most = [int(one) for one in np.argsort(-total, kind="stable")[: MOST[kind]] if count[one]]
        if kind == "kernel":
            changes += _families(model, a.name.texts, total, count)
        if kind in ALL and len(np.flatnonzero(count)) > 1:
            changes.append(Candidate(
                Change(kind), ALL[kind], _per(model, float(total.sum())), _per(model, float(count.sum())),
                several=True))
        changes += [
            Candidate(Change(kind, exactly(name)), name, _per(model, float(total[at])), _per(model, float(count[at])))
            for at in most if (name := a.name.texts[at] or "")
        ]
    return changes


def _families(
    model: Model, names: Sequence[str | None], total: npt.NDArray[Any], count: Ints
) -> list[Candidate]:
    """The kernel families, without ``other``, those that are mostly one kernel and one that is nearly all kernels."""
    members: dict[str, list[int]] = {}
    for at in np.flatnonzero(count).tolist():
        members.setdefault(family(names[at], "kernel"), []).append(at)
    whole = total.sum()
    return [
        Candidate(Change("kernel", f"{FAMILY}{one}"), f"{TITLES[one]} kernels", _per(model, float(total[rows].sum())),
                  _per(model, float(count[rows].sum())), several=True)
        for one, rows in sorted(members.items())
        if one != "other" and total[rows].max() < MOSTLY * total[rows].sum() and total[rows].sum() < MOSTLY * whole
    ]


def _operators(run: Trace, model: Model, replayed: Replayed) -> list[Candidate]:
    operators = operators_of_launches(run)
    if operators is None:
        return []
    a, some = model.recording.activities, _inside(model)
    some = some[~a.kind.where("collective".__eq__)[some]]  # collectives have rows of their own
    frame = pl.DataFrame({"op": operators.gather(pl.Series(a.row[some])), "ns": a.dur[some]})
    sums = frame.drop_nulls("op").group_by("op").agg(pl.col("ns").sum()).with_columns(pl.col("op").cast(pl.String))
    most = sums.sort("ns", "op", descending=[True, False])
    changes = []
    for name in most["op"].head(MOST["op"]):
        own = launched_under(model, replayed.host, re.compile(exactly(name)))[1][some]
        changes.append(Candidate(Change("op", exactly(name)), name, _per(model, float(a.dur[some][own].sum())),
                                 _per(model, float(own.sum()))))
    return [one for one in changes if one.count]


def _host(run: Trace, model: Model, host: HostTime) -> list[Candidate]:
    """All host code, and the names with the largest self time on launching threads."""
    slices, c = model.recording.slices, model.recording.calls
    launching = np.zeros(int(slices.thread.max(initial=0)) + 1, dtype=bool)
    launching[c.thread[c.row >= 0]] = True
    total, count = np.zeros(len(slices.name.texts)), np.zeros(len(slices.name.texts), dtype=np.int64)
    begin = 0
    for batch in batches(run.host.select(pl.col("self_ns").fill_null(0))):
        rows = slice(begin, begin := begin + batch.height)
        some = np.flatnonzero(host.code[rows] & launching[slices.thread[rows]])
        names = slices.name.number[rows][some]
        total += np.bincount(names, weights=batch.to_series().to_numpy()[some], minlength=len(total))
        count += np.bincount(names, minlength=len(count))
    marks = set(model.recording.cycles["label"])
    return [
        Candidate(Change("host"), ALL["host"], None, _per(model, float((model.gap > 0).sum()))),
        *(Candidate(Change("host", exactly(name)), name, None, _per(model, float(count[at])))
          for at in np.argsort(-total, kind="stable")[: MOST["host"]].tolist()
          if count[at] and (name := slices.name.texts[at]) and name not in marks),
    ]


def _idle(model: Model, replayed: Replayed) -> list[Candidate]:
    """Causes that take part of the host time before calls, or that lie in calls, launch latency and queue gaps."""
    a, c, by_cause = model.recording.activities, model.recording.calls, replayed.host.by_cause
    launched = int(a.first.sum())
    called = Counter(causes_of_calls(c.names)[c.name[~model.launches]].tolist())
    whole = sum(int(spans.sum()) for spans in by_cause.values())
    counts = {
        cause: int((spans > 0).sum()) for cause, spans in by_cause.items()
        if cause == "input" or spans.sum() < MOSTLY * whole  # otherwise the row "all host code" covers it
    } | {
        "launch": launched, "dispatch": launched, "graph": int(((a.call >= 0) & ~a.first).sum()),
        "unknown": int((a.call < 0).sum()),
    }
    counts |= {cause: counts.get(cause, 0) + called[cause] for cause in ("copy", "allocation", "runtime")}
    return [
        Candidate(Change("idle", exactly(cause)), cause, None, _per(model, float(counts[cause])))
        for cause in CAUSES if counts.get(cause)
    ]


def _calls(model: Model) -> list[Candidate]:
    c, waits = model.recording.calls, np.diff(model.order.waits.to) > 0
    counts = np.bincount(c.name[waits], minlength=len(c.names))
    return [
        Candidate(Change("sync", exactly(c.names[one])), c.names[one], None, _per(model, float(counts[one])))
        for one in np.flatnonzero(counts).tolist() if c.names[one] != EDGE
    ]


_FULL = "fewer, larger kernels or CUDA graphs: the launch queue was full"
_SYNC = "no .item(), .cpu() or print of a tensor in the loop; read results a cycle later"
_FEWER = "CUDA graphs or fewer, larger kernels"
_HOW = {
    "kernel": "a faster or fused kernel, a lower precision, or fewer launches of it",
    "op": "another implementation, fusing it (torch.compile), or skipping it",
    "collective": "overlap it with computation, fewer bytes, larger buckets, or a faster link",
    "copy": "pinned memory and non_blocking=True, keeping data on the device, or fewer, larger copies",
    "host": "fewer operators (torch.compile, fused optimisers), less Python, or CUDA graphs",
    "sync": _SYNC, GRAPH: "CUDA graphs: torch.cuda.graph, or torch.compile(mode='reduce-overhead')",
}
_HOW_IDLE = {
    "input": "more DataLoader workers, pin_memory=True, prefetch_factor, or preprocessing on the device",
    "launch": _FEWER, "dispatch": _FEWER, "graph": "fewer nodes in the graph", "sync": _SYNC, "copy": _HOW["copy"],
    "allocation": "the caching allocator, expandable segments", "profiler": "recording less",
    "python": "less Python between launches, or CUDA graphs",
    "op": "fewer or fused operators: torch.compile, foreach and fused optimisers",
}
_HOW_FAMILY = {
    "gemm": "a lower precision, tensor cores, larger or batched GEMMs", "conv": "channels_last, cudnn.benchmark",
    "attention": "fused attention (scaled_dot_product_attention, FlashAttention)",
    "elementwise": "fusing them: torch.compile, fused optimisers", "norm": "fused norms: torch.compile, Apex",
    "reduce": "fusing them with what comes before: torch.compile", "move": "fewer layout changes and casts",
}
_DEVICE_COPY = re.compile("DtoD|DeviceToDevice|Device -> Device|Memset", re.IGNORECASE)
_LAUNCHES = re.compile("Launch")


def how(change: Change, name: str) -> str:
    """Advice on how to make the change."""
    if change.kind == "idle":
        return _HOW_IDLE.get(name, "")
    if change.kind == "sync" and _LAUNCHES.search(name):
        return _FULL
    if change.kind == "copy" and "pinned" in name.lower():
        return _HOW["copy"].removeprefix("pinned memory and ")
    if change.kind == "copy" and _DEVICE_COPY.search(name):
        return "fewer copies: in-place operators, views, contiguous layouts"
    if change.pattern.startswith(FAMILY):
        return _HOW_FAMILY.get(change.pattern.removeprefix(FAMILY), _HOW["kernel"])
    if change.kind in ("kernel", "op") and change.pattern and family(name, "kernel") == "attention":
        return _HOW_FAMILY["attention"]
    return _HOW.get(change.kind, "")
