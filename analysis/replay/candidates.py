"""The changes that are tried on every run: what takes most of each kind, each gone."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.changes import GRAPH, Change
from ..core.call_tree import Ints
from ..core.callers import callers_of
from .apply import CAUSES, launched_under
from .host_time import CODE
from .model import Model
from .recording import EDGE
from .replayed import Replayed

MOST = {"kernel": 12, "collective": 4, "copy": 3, "op": 6, "host": 4}
"""How many of each kind are tried."""
ALL = {"kernel": "all kernels", "collective": "all collectives", "host": "all host code"}


class Candidate(Struct, frozen=True):
    """A change with the name it is listed under, and what it is of per cycle: device time (ns) and how many.

    ``device_ns`` is None where it is no time of a device.
    """

    change: Change
    name: str
    device_ns: float | None
    count: float


def candidates(run: Trace, replayed: Replayed) -> list[Candidate]:
    """What is tried, by kind. The run must be replayed."""
    model = replayed.model
    assert model is not None
    return [
        *_activities(model), *_operators(run, model, replayed), *_host(run, model), *_idle(model, replayed),
        *_calls(model), Candidate(Change(GRAPH), "one graph launch per cycle", None, _per(model, _launches(model))),
    ]


def _exactly(name: str) -> str:
    return f"^{re.escape(name)}$"


def _inside(model: Model) -> Ints:
    """The activities that count: those in cycles, all where there are none."""
    cycle = model.recording.activities.cycle
    return np.flatnonzero(cycle >= 0) if model.cycles else np.arange(len(cycle))


def _per(model: Model, total: float) -> float:
    return total / max(model.recording.cycles.height, 1) if model.cycles else total


def _launches(model: Model) -> int:
    return int(model.recording.activities.first[_inside(model)].sum())


def _activities(model: Model) -> list[Candidate]:
    a, some = model.recording.activities, _inside(model)
    dur = a.dur[some]
    found = []
    for kind in ("kernel", "collective", "copy"):
        of_kind = a.kind.where((lambda text: text in ("memcpy", "memset")) if kind == "copy" else kind.__eq__)[some]
        if not of_kind.any():
            continue
        names = a.name.number[some][of_kind].astype(np.int64)
        total = np.bincount(names, weights=dur[of_kind], minlength=len(a.name.texts))
        count = np.bincount(names, minlength=len(a.name.texts))
        most = [int(one) for one in np.argsort(-total, kind="stable")[: MOST[kind]] if count[one]]
        if kind in ALL and len(np.flatnonzero(count)) > 1:
            found.append(Candidate(
                Change(kind), ALL[kind], _per(model, float(total.sum())), _per(model, float(count.sum()))))
        found += [
            Candidate(Change(kind, _exactly(name)), name, _per(model, float(total[at])), _per(model, float(count[at])))
            for at in most if (name := a.name.texts[at] or "")
        ]
    return found


def _operators(run: Trace, model: Model, replayed: Replayed) -> list[Candidate]:
    callers = callers_of(run)
    if callers is None:
        return []
    a, some = model.recording.activities, _inside(model)
    frame = pl.DataFrame({"op": callers.frame["op"].gather(pl.Series(a.row[some])).cast(pl.String), "ns": a.dur[some]})
    most = frame.drop_nulls("op").group_by("op").agg(pl.col("ns").sum()).sort("ns", "op", descending=[True, False])
    found = []
    for name in most["op"].head(MOST["op"]):
        mine = launched_under(model, replayed.host, re.compile(_exactly(name)))[1][some]
        found.append(Candidate(Change("op", _exactly(name)), name, _per(model, float(a.dur[some][mine].sum())),
                               _per(model, float(mine.sum()))))
    return [one for one in found if one.count]


def _host(run: Trace, model: Model) -> list[Candidate]:
    own = run.host.filter(pl.col("kind").is_in(CODE)).group_by("name").agg(
        pl.col("self_ns").sum(), pl.len()
    ).sort("self_ns", descending=True).head(MOST["host"]).collect(engine="streaming")
    return [
        Candidate(Change("host"), ALL["host"], None, _per(model, float((model.gap > 0).sum()))),
        *(Candidate(Change("host", _exactly(name)), name, None, _per(model, float(count)))
          for name, _, count in own.iter_rows() if name),
    ]


def _idle(model: Model, replayed: Replayed) -> list[Candidate]:
    """Causes that took any of the host time before calls, or that lie in the calls, launches and queues themselves."""
    a, by_cause = model.recording.activities, replayed.host.by_cause
    launched = int(a.first.sum())
    counts = {cause: int((spans > 0).sum()) for cause, spans in by_cause.items()} | {
        "launch": launched, "dispatch": launched, "graph": int(((a.call >= 0) & ~a.first).sum()),
        "unknown": int((a.call < 0).sum()),
    }
    return [
        Candidate(Change("idle", _exactly(cause)), cause, None, _per(model, float(counts[cause])))
        for cause in CAUSES if counts.get(cause)
    ]


def _calls(model: Model) -> list[Candidate]:
    c, waits = model.recording.calls, np.diff(model.order.waits.to) > 0
    counts = np.bincount(c.name[waits], minlength=len(c.names))
    return [
        Candidate(Change("sync", _exactly(c.names[one])), c.names[one], None, _per(model, float(counts[one])))
        for one in np.flatnonzero(counts).tolist() if c.names[one] != EDGE
    ]


_HOW = {
    "kernel": "a faster or fused kernel, a lower precision, or fewer launches of it",
    "op": "another implementation, fusing it (torch.compile), or skipping it",
    "collective": "overlap it with computation, fewer bytes, larger buckets, or a faster link",
    "copy": "pinned memory and non_blocking=True, keeping data on the device, or fewer, larger copies",
    "host": "fewer operators (torch.compile, fused optimisers), less Python, or CUDA graphs",
    "sync": "no .item(), .cpu() or print of a tensor in the loop; read results a cycle later",
    GRAPH: "CUDA graphs: torch.cuda.graph, or torch.compile(mode='reduce-overhead')",
}
_HOW_IDLE = {
    "input": "more DataLoader workers, pin_memory=True, prefetch_factor, or preprocessing on the device",
    "launch": "CUDA graphs or fewer, larger kernels", "graph": "fewer nodes in the graph",
    "dispatch": "CUDA graphs or fewer, larger kernels", "allocation": "the caching allocator, expandable segments",
    "sync": _HOW["sync"], "copy": _HOW["copy"], "python": "less Python between launches, or CUDA graphs",
    "op": "fewer or fused operators: torch.compile, foreach and fused optimisers", "profiler": "recording less",
}
_ATTENTION = re.compile("flash|fmha|attention|softmax|bmm", re.IGNORECASE)


def how(change: Change, name: str) -> str:
    """How such a change is made."""
    if change.kind == "idle":
        return _HOW_IDLE.get(name, "")
    if change.kind in ("kernel", "op") and _ATTENTION.search(name):
        return "fused attention (scaled_dot_product_attention, FlashAttention)"
    return _HOW.get(change.kind, "")
