"""The diff of a comparison that another tool finished: its runs are gone, only its numbers are left.

Means and p-values per (function, metric, device) give one row per function and device; milliseconds come from the β
shares and the recorded cycle times. Shares were rounded when printed: equal shares count as no change, and a verdict of
slower or faster must agree with the sign of the recorded Z(β). No CI can be computed, and none is invented.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct, convert

from ...loaders.trace import Trace
from ..contract.view import Answer
from ..core import metrics as m
from ..core import units
from .cycle_time import CycleTime, compare_lengths
from .device_work import work_of_sums
from .function_change import REGRESSIONS, Call, FunctionChange, category, frame_of, in_order
from .judge import LEVEL, ROW_FLOOR, q_values
from .resources import (
    ChangedResource,
    Reading,
    log_change,
    own_use,
    ranked,
)
from .same_work import REPORT
from .sentences import cause_lines, cycle_line, device_lines, explanation, line
from .verdict import Comparability, Verdict, cause_of

_NOTE = "As recorded: verdicts rest on the comparison's own p-values, and intervals cannot be computed."


class _Triplet(Struct, frozen=True):
    """One recorded row: shares in % of the cycle, μ on the reference's scale."""

    function: str
    metric: str
    device: str
    suspicion: float | None = None
    beta_a: float | None = None
    beta_b: float | None = None
    z_beta: float | None = None
    p_beta: float | None = None
    u_beta: float | None = None
    mu_a: float | None = None
    mu_b: float | None = None
    p_mu: float | None = None
    u_mu: float | None = None
    pid_a: int | None = None
    pid_b: int | None = None

    @property
    def shares(self) -> tuple[float, float]:
        """β of both runs, 0 where missing."""
        return self.beta_a or 0.0, self.beta_b or 0.0


_Function = tuple[str, str, int | None, int | None]


def finished(runs: tuple[Trace, ...]) -> Answer:
    """The recorded comparison of run A, one row per function and device, judged by its own p-values."""
    table = runs[0].comparison.with_columns(pl.col("function", "metric", "device").cast(pl.String)).collect()
    ordered = table.sort("suspicion", descending=True, maintain_order=True, nulls_last=True)
    functions: dict[_Function, list[_Triplet]] = {}
    for triplet in convert(ordered.drop_nulls(["function", "metric", "device"]).to_dicts(), list[_Triplet]):
        functions.setdefault((triplet.function, triplet.device, triplet.pid_a, triplet.pid_b), []).append(triplet)
    cycles = recorded_cycles(runs)
    rows = _rows(functions, cycles)
    changed = _resources(functions, rows, cycles)
    for row, triplets in zip(rows, functions.values(), strict=True):
        by_name = {one.metric: one for one in triplets}
        read = (one.metric for one in changed if one.device == row.device and one.metric in by_name)
        name = next(read, triplets[0].metric)
        chosen = by_name[name]
        kind = m.metric(name, None, max(chosen.mu_a or 0.0, chosen.mu_b or 0.0))
        row.metric, row.unit = name, kind.unit
        row.mu_a = None if chosen.mu_a is None else chosen.mu_a / kind.divisor
        row.mu_b = None if chosen.mu_b is None else chosen.mu_b / kind.divisor
    slower = [row for row in rows if row.verdict in REGRESSIONS]
    work = work_of_sums(rows, cycles) if cycles else ()
    cause = cause_of(changed, cycles, work, ())
    verdict = Verdict(
        Comparability(), REPORT, explanation(cause, cycles, len(slower), REPORT, True), "a finished comparison",
        cycles, work, tuple(changed), cause=cause,
    )
    lost = sum(row.delta_ms or 0.0 for row in slower)
    worse = f", {units.amount(lost, signed=True)} per cycle" if slower and cycles else ""
    lines = [
        *([cycle_line(cycles, REPORT)] if cycles else []),
        *device_lines(work, [], {}, cycles.median_a_ms if cycles else 0.0),
        *cause_lines(cause, changed, cycles, REPORT),
        line("Rows", f"{len(slower)} of {len(rows)} functions have a significantly larger share of the cycle{worse}"),
        line("Data", "a finished comparison: its cycles and means were recorded, its samples were not"),
    ]
    return Answer(in_order(frame_of(rows)).lazy(), verdict.facts(), tuple(lines), (_NOTE,))


def recorded_cycles(runs: tuple[Trace, ...]) -> CycleTime | None:
    """The cycle times of the comparison, from its ranked lists; None where it has none."""
    lengths = [run.cycles.select(pl.col("dur_ns").drop_nulls() / 1e6).collect()["dur_ns"].to_numpy() for run in runs]
    return compare_lengths(lengths[0], lengths[1]) if len(lengths) > 1 and all(map(len, lengths)) else None


def _rows(functions: dict[_Function, list[_Triplet]], cycles: CycleTime | None) -> list[FunctionChange]:
    """One row per function, from its most suspicious triplet: the recorded row with the clearest share."""
    means = (cycles.mean_a_ms, cycles.mean_b_ms) if cycles else None
    rows = []
    for (function, device, pid_a, pid_b), triplets in functions.items():
        first = triplets[0]
        row = FunctionChange(function, device, None, category(None, device), pid_a, pid_b, suspicion=first.suspicion)
        if means:
            row.a_ms, row.b_ms = (share / 100 * mean for share, mean in zip(first.shares, means, strict=True))
            row.delta_ms = row.b_ms - row.a_ms
        p = [value for value in (first.p_beta, first.u_beta) if value is not None]
        row.p = max(p) if p else None
        rows.append(row)
    for row, q, triplets in zip(rows, q_values([row.p for row in rows]), functions.values(), strict=True):
        row.q = q
        row.verdict = _verdict(triplets, q)
        if row.verdict != "~":
            row.sure_ms = abs(row.delta_ms or 0.0)
    return rows


def _verdict(triplets: list[_Triplet], q: float | None) -> Call:
    """The verdict by q and by how far the share moved; never against the sign of the recorded Z(β)."""
    a, b = triplets[0].shares
    if a == b:
        return "~"
    for call, there, side in (("new", b, "a"), ("gone", a, "b")):
        # a share printed as 0.00 is small, not absent; an absent function has no reading either
        if there and not any(getattr(one, f"{kind}_{side}") for one in triplets for kind in ("beta", "mu")):
            return "new" if call == "new" else "gone"
    if q is None or q > LEVEL or abs(b - a) < ROW_FLOOR * max(a, b):
        return "~"
    up = b > a
    if any(one.z_beta is not None and (one.z_beta <= 0 if up else one.z_beta >= 0) for one in triplets):
        return "~"
    return "slower" if up else "faster"


def _resources(
    functions: dict[_Function, list[_Triplet]], rows: list[FunctionChange], cycles: CycleTime | None
) -> list[ChangedResource]:
    """Changed resources: μ per metric and device, averaged over the functions it was read under, weighted by share."""
    slower = {(row.function, row.device) for row in rows if row.verdict in REGRESSIONS}
    groups: dict[tuple[str, str], list[_Triplet]] = {}
    for triplets in functions.values():
        for one in triplets:
            if one.mu_a is not None and one.mu_b is not None:
                groups.setdefault((one.metric, one.device), []).append(one)
    means = {key: _mean(triplets) for key, triplets in groups.items()}
    result = []
    for (name, device), triplets in groups.items():
        kind = m.metric(name, None, max(means[name, device]))
        use = means.get((kind.own_use or "", device), (0.0, 0.0))
        own = own_use(kind, use, means[name, device][0], cycles.ratio if cycles else 1.0)
        values = tuple(mean / kind.divisor for mean in means[name, device])
        loads = [float(m.load(kind, np.array([x]), np.array([used]))[0]) for x, used in zip(values, own, strict=True)]
        largest = max(triplets, key=lambda one: sum(one.shares))
        p = [value for value in (largest.p_mu, largest.u_mu) if value is not None]
        under = {(one.function, one.device) for one in triplets}
        result.append(Reading(ChangedResource(
            name, device, values[0], values[1], kind.unit, log_change(*values), 1.0, len(under & slower), kind.role,
            len(under), largest.pid_a, largest.pid_b, loads[1] - loads[0],
        ), max(p) if p else 1.0))
    return ranked(result)


def _mean(triplets: list[_Triplet]) -> tuple[float, float]:
    weights = np.array([max(sum(one.shares), 1e-6) for one in triplets])
    a, b = (np.array([value or 0.0 for value in side]) for side in (
        [one.mu_a for one in triplets], [one.mu_b for one in triplets]
    ))
    return float(np.average(a, weights=weights)), float(np.average(b, weights=weights))
