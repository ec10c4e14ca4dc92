"""Two runs of different work: what can be set side by side all the same, as figures without a verdict.

Per step or recording, per FLOP, per family of kernels, per module or operator that launched in both. Of kernels that do
different work per launch the time per FLOP: 8 times the work in 6 times the time is not slower. Work follows from the
recorded shapes; rows with the same work per launch have no time per FLOP.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
import polars as pl
from msgspec import Struct, to_builtins

from ...loaders.trace import Trace
from ..contract.options import SIDES, Options
from ..core import units
from ..core.call_tree import nearest, slices_of
from ..core.callers import callers_of, operator_rows
from ..core.text import display
from ..cycles.whole import shared_kinds
from ..kernels.family import TITLES, family
from .change import attention_kernels
from .same_work import outermost_operators, rows_of
from .sequence import WorkUnit, unit_of

OTHER = 0.01
"""FLOPs per launch that differ by at most this share are the same work."""
KNOWN = 0.9
"""Share of a kernel's time (launches without a launch record aside) that must have known FLOPs."""
MOST = 200_000
"""A run with more activities gets no time per FLOP here; its work is left to the roofline."""


class BothRuns(Struct, frozen=True):
    """Device time of both runs under one name, ms; None where a run has nothing of that name."""

    name: str
    a_ms: float | None
    b_ms: float | None


class SideBySide(Struct, frozen=True):
    """Two runs that are not shown to do the same work, ``per`` middle step or recording: device time (``a_ms``,
    ``b_ms``), FLOPs and µs per 10⁹ of them (None where shapes do not tell), ``families`` of kernels, and ``modules``
    (else operators) that launched in both; ``lacking`` says what cannot be compared and why."""

    per: Literal["step", "recording"]
    a_ms: float
    b_ms: float
    flops_a: float | None
    flops_b: float | None
    us_per_gflop_a: float | None
    us_per_gflop_b: float | None
    families: tuple[BothRuns, ...]
    modules: tuple[BothRuns, ...]
    lacking: tuple[str, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The comparison as plain values."""
        values: dict[str, Any] = to_builtins(self)
        return values

    @property
    def sentence(self) -> str:
        """What can be compared, the largest first, and what cannot."""
        parts = [f"device time {units.amount(self.a_ms, self.b_ms)}"]
        if self.us_per_gflop_a is not None and self.us_per_gflop_b is not None:
            a, b = (units.duration(round(1e3 * one)) for one in (self.us_per_gflop_a, self.us_per_gflop_b))
            parts.append(f"per GFLOP {a} → {b}")
        parts += [f"{TITLES.get(one.name, one.name)} {_amounts(one)}" for one in self.families[:3]]
        parts += [f"under {display(one.name, 32)} {_amounts(one)}" for one in self.modules[:2]]
        lacking = f". Not compared: {'; '.join(self.lacking)}" if self.lacking else ""
        unit = "one step of each" if self.per == "step" else "the recordings"
        return f"{unit}, no verdict: {', '.join(parts)}{lacking}."


def _amounts(part: BothRuns) -> str:
    if part.a_ms is not None and part.b_ms is not None:
        return units.amount(part.a_ms, part.b_ms)
    only, ms = ("A", part.a_ms) if part.a_ms is not None else ("B", part.b_ms)
    return f"{units.amount(ms or 0.0)} in {only} only"


_MODULE = "nn.Module: "


def side_by_side(
    runs: tuple[Trace, Trace], options: Options, flops: tuple[float | None, float | None]
) -> SideBySide | None:
    """What two runs have in common to be compared by; None where some launch has no time. ``flops``: those by
    which the same work was asked for, None where they are not known."""
    kinds = shared_kinds(runs, options)
    found = [unit_of(run, options, side, kinds[0] if kinds else None) for run, side in zip(runs, SIDES, strict=True)]
    if found[0] is None or found[1] is None or not all(unit.launches.height for unit in found if unit is not None):
        return None
    both = (found[0], found[1])
    times = [_times(run, unit) for run, unit in zip(runs, both, strict=True)]
    if any(np.isnan(one).any() or not one.any() for one in times):
        return None  # a sum without some launch is no figure
    a_ms, b_ms = (float(one.sum()) for one in times)
    families = _parts([_families(run, unit) for run, unit in zip(runs, both, strict=True)], times)
    names = [_modules(run, unit) for run, unit in zip(runs, both, strict=True)]
    if any(one is None for one in names):
        names = [_operators(run, unit) for run, unit in zip(runs, both, strict=True)]
    modules = [one for one in _parts([one or [] for one in names], times) if one.a_ms and one.b_ms]
    rates = [1e3 * ms / (one / 1e9) if one else None for ms, one in zip((a_ms, b_ms), flops, strict=True)]
    unknown = " and ".join(side for side, one in zip("AB", flops, strict=True) if not one)
    lacking = [*([f"FLOPs, not known in {unknown}"] if unknown else ()),
               *(["modules and operators, none launched in both"] if not modules else ()),
               *(["steps, not marked in both"] if not all(unit.cycle for unit in both) else ())]
    return SideBySide("step" if all(unit.cycle for unit in both) else "recording", a_ms, b_ms, flops[0], flops[1],
                      rates[0], rates[1], tuple(families), tuple(modules), tuple(lacking))


def _times(run: Trace, unit: WorkUnit) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The ms of each launch of the unit, NaN where it was not recorded."""
    spans = run.kernels.select("dur_ns").collect(engine="streaming")["dur_ns"].gather(rows_of(run, unit))
    return spans.cast(pl.Float64).to_numpy() / 1e6


def _families(run: Trace, unit: WorkUnit) -> list[str | None]:
    attention = attention_kernels(run, unit)
    rows = unit.launches.select(pl.col("name", "kind").cast(pl.String)).rows()
    return ["attention" if name in attention else family(name, kind) for name, kind in rows]


def _modules(run: Trace, unit: WorkUnit) -> list[str | None] | None:
    """The innermost module of each launch, without its number; None where no modules were recorded."""
    if not run.has("host") or run.captures is not None:
        return None
    slices = slices_of(run)
    is_module = slices.named(lambda text: text.startswith(_MODULE), slices.of_kind("python"))
    if not is_module.any():
        return None
    operators = operator_rows(run, replays=False)[rows_of(run, unit)]
    return _names(run, nearest(slices.parent, operators, is_module), lambda name: re.sub(
        r"_\d+$", "", name.removeprefix(_MODULE)))


def _operators(run: Trace, unit: WorkUnit) -> list[str | None]:
    top = outermost_operators(run, unit)
    return [] if top is None else _names(run, top, str)


def _names(run: Trace, rows: Any, clean: Any) -> list[str | None]:
    names = run.host.select(pl.col("name").cast(pl.String)).collect(engine="streaming")["name"]
    unique = {int(row): clean(names[int(row)] or "") for row in np.unique(rows) if row >= 0}
    return [unique.get(int(row)) for row in rows]


def _parts(names: list[list[str | None]], times: list[Any]) -> list[BothRuns]:
    """The time of each name in both runs, the largest first."""
    sums: list[dict[str, float]] = [{}, {}]
    for total, own, spent in zip(sums, names, times, strict=True):
        for name, ms in zip(own, spent.tolist(), strict=False):
            if name is not None:
                total[name] = total.get(name, 0.0) + ms
    parts = [BothRuns(name, sums[0].get(name), sums[1].get(name)) for name in dict.fromkeys([*sums[0], *sums[1]])]
    return sorted(parts, key=lambda one: (-max(one.a_ms or 0.0, one.b_ms or 0.0), one.name))


def with_time_per_flop(table: pl.DataFrame, runs: tuple[Trace, Trace]) -> pl.DataFrame:
    """The table with ``us_per_gflop_a`` and ``us_per_gflop_b``, null where work per launch is the same or unknown."""
    a, b = (_work(run) for run in runs)
    if a is None or b is None:
        return table
    own = table.select(
        a=pl.col("function").cast(pl.String), b=pl.coalesce(pl.col("function_b", "function").cast(pl.String)),
        kernel=pl.col("kind").cast(pl.String) == "kernel")
    both = own.join(a, left_on="a", right_on="name", how="left", maintain_order="left").join(
        b, left_on="b", right_on="name", how="left", maintain_order="left", suffix="_b")
    differs = pl.col("kernel") & ((pl.col("flops_b") / pl.col("flops") - 1).abs() > OTHER)
    return table.with_columns(both.select(
        pl.when(differs).then("us_per_gflop").alias("us_per_gflop_a"), pl.when(differs).then("us_per_gflop_b")))


def _work(run: Trace) -> pl.DataFrame | None:
    """``name flops us_per_gflop`` of a run's kernels with known work: FLOPs per launch, and µs per 10⁹ FLOPs."""
    from ..work.peaks import BadPeaks  # only pairs of different operators need work
    from ..work.roofline import divided_work_of

    if not (run.has("host.shapes") or run.captures is not None) or not run.has("kernels"):
        return None
    kernels = run.kernels.select(pl.col("name").cast(pl.String), "dur_ns", "kind").collect(engine="streaming")
    try:
        divided = divided_work_of(run) if kernels.height <= MOST else None
    except BadPeaks:
        return None
    callers = callers_of(run)
    if divided is None or callers is None:
        return None
    launched = pl.Series((callers.call >= 0) | (callers.operator >= 0))
    took = pl.col("dur_ns").sum()
    counted = pl.col("flops").is_not_null()
    flops, spent = pl.col("flops").sum(), pl.col("dur_ns").filter(counted).sum()
    whole = divided.work["flops"].gather(divided.number)
    computed = kernels.with_columns(whole=whole, owner=pl.Series(divided.attribution.owner)).filter(
        launched & (kernels["kind"] == "kernel"))  # copies and sets of a call compute nothing
    share = pl.when(took.over("owner") > 0).then(pl.col("dur_ns") / took.over("owner"))
    return computed.with_columns(flops=pl.col("whole") * share).group_by("name").agg(
        (flops / counted.sum()).alias("flops"), (spent / 1e3 / (flops / 1e9)).alias("us_per_gflop"), known=spent / took,
    ).filter(pl.col("known") >= KNOWN, pl.col("flops") > 0).select("name", "flops", "us_per_gflop")
