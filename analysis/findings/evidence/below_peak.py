"""Operators far below the peak of their device, by pattern, and how much an alternative would save at most.

Work and peaks come from the roofline. A pattern selects activities and gives the least time of each with the better
alternative; the replay of the run predicts how much shorter a cycle would then be. If the replay predicts nothing, the
win is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ....loaders.schema import is_work
from ....loaders.trace import Trace
from ...contract.options import Options
from ...cycles.whole import Steps, in_steps
from ...replay.replayed import MOST_REPLAYED, replay_of
from ...work.arguments import call_of
from ...work.attribution import Signature
from ...work.peaks import DevicePeak
from ...work.roofline import PerCycle, Roofline, per_cycle, shaped_roofline

LEAST = 0.03
"""Share of the device time below which a pattern is not mentioned."""
WORTH = 0.01
"""Share of the cycle that a pattern must save to be a finding."""
LOW = 0.25
"""Share of the peak from which GEMMs are not called too small."""
_TILE = 128
"""Rows and columns of the output tile that one SM computes at a time in common GEMM kernels."""
_ADAM_BYTES, _ADAM_MOVES = 4, 7
"""A fused Adam reads parameter, gradient and two moments and writes three of them."""
_BATCHED = ("aten::bmm", "aten::baddbmm")
_MOVES = ("aten::copy_", "aten::clone", "aten::contiguous")

Floats = npt.NDArray[np.float64]


class Below(Struct, frozen=True):
    """One pattern: device time of its activities in the steps and its share of all device time there; ``op``, the
    operator with most of it, and its share ``of_peak`` of ``peak``; ``lost_ns``, the total time above the least; the
    cycle and the win per cycle (over the whole recording if ``replayed_cycles`` is 0)."""

    device_ns: int
    share: float
    op: str
    of_peak: float | None
    peak: str
    lost_ns: int
    cycle_ns: float | None
    win_ns: float | None
    replayed_cycles: int

    @property
    def cost_ns(self) -> float:
        """The rank of the finding: the total win if a replay predicts it, else the time lost."""
        return self.lost_ns if self.win_ns is None else self.win_ns * max(1, self.replayed_cycles)

    def worth_saying(self, steps_ns: float) -> bool:
        """Whether the win is large enough, given the total time of the steps. Work off the critical path wins nothing,
        however long it runs; without a replay the time lost is taken as the most that can be won."""
        if self.win_ns is None or not self.cycle_ns:
            return self.lost_ns >= WORTH * steps_ns
        return self.win_ns >= WORTH * self.cycle_ns


class Utilisation(Struct, frozen=True):
    """FLOPs per whole cycle, MFU (0-1), whether recomputation is counted in them, and the share of device time whose
    work is known."""

    flops: float
    mfu: float
    recomputes: bool
    covered: float


def utilisation_of(run: Trace, options: Options) -> Utilisation | None:
    """The utilisation in the whole cycles of a run; None if work or peak is unknown."""
    roofline = shaped_roofline(run)
    cycle = per_cycle(run, options) if roofline is not None else PerCycle()
    if roofline is None or cycle.flops is None or cycle.mfu is None or roofline.covered is None:
        return None
    return Utilisation(cycle.flops, cycle.mfu, roofline.recomputes, roofline.covered)


def below_peak_of(run: Trace, piece: Trace, options: Options, steps: Steps | None) -> dict[str, Below] | None:
    """The patterns in the run's steps by name; None without shapes or a known peak."""
    roofline = shaped_roofline(run)
    if roofline is None or not piece.has("kernels"):
        return None
    inside = in_steps(piece, steps).kernels.select("index").collect(engine="streaming")["index"]
    rows = roofline.activities.with_columns(here=pl.col("index").is_in(inside.implode()), row=pl.int_range(pl.len()))
    total = int(rows.filter("here", is_work())["dur_ns"].sum())
    result = {}
    for name, pattern in PATTERNS.items():
        least = pattern(roofline)
        among = pl.Series(list(least), dtype=pl.Int64).implode()
        matching = rows.filter("here", pl.col("kind") == "kernel", pl.col("signature").is_in(among))
        took = int(matching["dur_ns"].sum())
        if total and took >= LEAST * total:
            result[name] = _below(run, options, roofline, rows, matching, least, total)
    return result


def _below(
    run: Trace, options: Options, roofline: Roofline, rows: pl.DataFrame, own: pl.DataFrame,
    least: Mapping[int, float], total: int,
) -> Below:
    """The figures of one pattern."""
    took = int(own["dur_ns"].sum())
    top = own.group_by("signature").agg(
        pl.col("dur_ns", "compute_ns", "memory_ns").sum()).sort("dur_ns", "signature", descending=[True, False])
    name = [roofline.attribution.signatures[at].name for at in top["signature"]]
    matrix = [at for at, one in enumerate(top["signature"]) if (work := roofline.attribution.signatures[one].work)
              and work.matrix]
    first = matrix[0] if matrix else 0
    same = [at for at, one in enumerate(name) if one == name[first]]
    spent = sum(top["dur_ns"][at] for at in same)
    compute, memory = (sum(top[column][at] or 0.0 for at in same) for column in ("compute_ns", "memory_ns"))
    signature = roofline.attribution.signatures[top["signature"][first]]
    peak = f"{signature.dtype} peak" if compute >= memory else "peak memory bandwidth"
    lost = own.select((pl.col("dur_ns") * (1 - _parts(least))).clip(0).sum()).item()
    cycle, win, replayed_cycles = _win(run, options, rows, least)
    return Below(took, took / total, name[first], max(compute, memory) / spent if spent else None, peak, round(lost),
                 cycle, win, replayed_cycles)


def _parts(least: Mapping[int, float]) -> pl.Expr:
    return pl.col("signature").replace_strict(list(least), list(least.values()), default=1.0, return_dtype=pl.Float64)


def _win(
    run: Trace, options: Options, rows: pl.DataFrame, least: Mapping[int, float]
) -> tuple[float | None, float | None, int]:
    """The cycle time and how much the replay says it would shrink, ns (None if it predicts nothing); and the number of
    replayed cycles."""
    if rows.height > MOST_REPLAYED:
        return None, None, 0
    replayed = replay_of(run, options)
    if replayed.model is None or not replayed.predicts:
        return None, None, 0
    part = rows.select(pl.when(pl.col("kind") == "kernel").then(pl.min_horizontal(1.0, _parts(least))).otherwise(1.0))
    parts: Floats = part.to_series().gather(replayed.model.recording.activities.row).to_numpy()
    recorded = replayed.model.recorded
    saved = replayed.saved_with(replace(recorded, dur=np.round(recorded.dur * parts).astype(np.int64)))
    return replayed.cycle_ns, max(0.0, saved), replayed.accuracy.cycles


Pattern = Callable[[Roofline], dict[int, float]]


def _times(roofline: Roofline) -> dict[int, tuple[float, float, float, float]]:
    """Per signature, ns: recorded time of its activities, and their time at peak by FLOPs, by bytes, and the larger."""
    sums = roofline.activities.filter(pl.col("least_ns").is_not_null()).group_by("signature").agg(
        pl.col("dur_ns", "compute_ns", "memory_ns", "least_ns").sum())
    return {at: (float(took), compute, memory, least) for at, took, compute, memory, least in sums.rows() if took}


def _terms(one: Signature) -> dict[str, int]:
    return dict(one.work.terms) if one.work is not None else {}


def attention(roofline: Roofline) -> dict[int, float]:
    """Batched GEMMs with a softmax on the scores: if fused, the softmax and the GEMMs' memory traffic are gone."""
    times, named = _times(roofline), list(enumerate(roofline.attribution.signatures))
    scores = {_terms(one)["n"] for _, one in named if one.name in ("aten::_softmax", "aten::softmax") and _terms(one)}
    result = {}
    for at, one in named:
        terms = _terms(one)
        if one.name in _BATCHED and at in times:
            batch, m, n, k = (terms.get(letter, 1) for letter in "BMNK")
            if batch * m * n in scores or batch * m * k in scores:
                result[at] = times[at][1] / times[at][0]
    products = bool(result)
    for at, one in named:
        if products and one.name in ("aten::_softmax", "aten::softmax") and at in times:
            result[at] = 0.0
    return result


def normalisation(roofline: Roofline) -> dict[int, float]:
    """Unfused RMSNorm: if fused, pow, mean and rsqrt are gone and one scaling pass remains."""
    times, named = _times(roofline), list(enumerate(roofline.attribution.signatures))
    squared = {_terms(one).get("n") for _, one in named if one.name == "aten::pow"}
    averaged = {_terms(one).get("n") for _, one in named if one.name == "aten::mean"}
    both = squared & averaged - {None}
    if not both or not any(one.name == "aten::rsqrt" for _, one in named):
        return {}
    return {at: 0.0 for at, one in named if at in times and (
        (one.name in ("aten::pow", "aten::mean") and _terms(one).get("n") in both) or one.name == "aten::rsqrt")}


def optimiser(roofline: Roofline) -> dict[int, float]:
    """Adam in several passes over its lists, or with a launch per parameter: if fused, it is one pass."""
    times, named = _times(roofline), list(enumerate(roofline.attribution.signatures))
    peak = _peak(roofline)
    lists = [at for at, one in named if one.name.startswith("aten::_foreach_") and at in times]
    divided = [at for at in lists if "addcdiv" in named[at][1].name]
    if not divided or peak is None or not peak.bytes_per_s:
        return {}
    calls = roofline.rows.filter(pl.col("op").cast(pl.String).str.contains("_foreach_addcdiv", literal=True))
    counted = calls.select(pl.col("calls").sum()).item() or 0
    elements = sum(_terms(named[at][1])["n"] for at in divided) / len(divided) * counted
    fused = elements * _ADAM_BYTES * _ADAM_MOVES / peak.bytes_per_s * 1e9
    part = min(1.0, fused / sum(times[at][0] for at in lists))
    return dict.fromkeys(lists, part)


def small(roofline: Roofline) -> dict[int, float]:
    """GEMMs with fewer tiles than the device has SMs, far below its peak: larger batches reach the peak."""
    times, peak = _times(roofline), _peak(roofline)
    units = (peak.size.get("units", 0) * peak.scaled) if peak is not None else 0
    result = {}
    for at, one in enumerate(roofline.attribution.signatures):
        terms = _terms(one)
        if one.work is None or not one.work.matrix or at not in times or not {"M", "N"} <= set(terms):
            continue
        tiles = terms.get("B", 1) * -(-terms["M"] // _TILE) * -(-terms["N"] // _TILE)
        took, _, _, least = times[at]
        if tiles < units and least < LOW * took:
            result[at] = least / took
    return result


def layout(roofline: Roofline) -> dict[int, float]:
    """Copies of a tensor to another layout with the same type and shape: unnecessary with one layout throughout."""
    result = {}
    for at, one in enumerate(roofline.attribution.signatures):
        if one.name in _MOVES and one.work is not None and (types := (one.types or "").strip("[]").split(",")):
            kinds = {text.strip().strip('"') for text in types[:2]}
            if len(kinds) == 1 and _same_shapes(one):
                result[at] = 0.0
    return result


def _same_shapes(one: Signature) -> bool:
    call = call_of(one.name, one.shapes, one.types, one.inputs)
    return call is not None and len({tensor.shape for tensor in call.all()[:2]}) == 1


def full_precision(roofline: Roofline) -> dict[int, float]:
    """FP32 GEMMs on a device with a faster type: TF32 if it has that, else half precision."""
    peak, times, result = _peak(roofline), _times(roofline), {}
    rate = next((peak.flops[name] for name in ("tf32", "fp16", "bf16") if peak.flops.get(name)), None) if peak else None
    slow = peak.flops_per_s("fp32", True) if peak is not None else None
    if not rate or not slow or rate <= slow:
        return {}
    for at, one in enumerate(roofline.attribution.signatures):
        if one.work is not None and one.work.matrix and one.dtype == "fp32" and at in times:
            took, compute, memory, _ = times[at]
            result[at] = max(compute * slow / rate, memory) / took
    return result


def _peak(roofline: Roofline) -> DevicePeak | None:
    return next(iter(roofline.peaks.values()), None)


PATTERNS: dict[str, Pattern] = {
    "attention": attention, "normalisation": normalisation, "optimiser": optimiser, "small": small, "layout": layout,
    "fp32": full_precision,
}
