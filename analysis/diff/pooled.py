"""Repeated runs, ``--baseline A1 A2 A3 --candidate B1 B2``: changes are tested against run-to-run noise.

Cycles within one run are alike; from run to run clocks, placement and neighbours change, and no number of cycles shows
that. So each run is one sample: the centre of its cycles. A row is flagged only if its change exceeds the run-to-run
noise within a side, which needs at least two runs per side, and three on one side to be worth much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.view import CannotAnswer
from ..core import units
from ..core.names.display_names import short_names_of
from ..table.rows import Rows
from ..table.table import Table, sources
from .prepare.idle_time import with_idle_time
from .prepare.samples import HOST, RunSamples, match, work_of
from .present.columns import COLUMNS, arrows
from .present.sentences import line
from .stats.permutation import q_values
from .stats.robust_location import Floats, centre
from .verdict.comparability import Comparability
from .verdict.cycle_time import CycleCall, compare_lengths
from .verdict.function_change import REGRESSIONS, Call, FunctionChange, category, frame_of, in_order
from .verdict.suspects import LEVEL, MATERIAL
from .verdict.verdict import Verdict

LEAST_RUNS = 2
COLUMN_NAMES = [column.name for column in COLUMNS]
Function = tuple[str, str | None, str | None]  # Name, device ('Host' or 'GPU') and kind.
Run = tuple[float, dict[Function, tuple[float, float]]]
"""The cycle time in ms, and per function its launches and ms per cycle."""


def pooled(baseline: Sequence[Trace], candidate: Sequence[Trace], options: Options | None = None) -> Table:
    """The diff of repeated runs, in the columns of the view. Raises CannotAnswer for fewer than two runs per side."""
    chosen = options or Options()
    if min(len(baseline), len(candidate)) < LEAST_RUNS:
        raise CannotAnswer("Pooling needs at least two runs of the baseline and two of the candidate.")
    sides = [[_run(run, chosen) for run in side] for side in (baseline, candidate)]
    lengths = [np.array([length for length, _ in side]) for side in sides]
    cycle = _compared(lengths[0], lengths[1])
    keys = dict.fromkeys(key for side in sides for _, functions in side for key in functions)
    rows = [_row(key, sides) for key in keys]
    for row, q in zip(rows, q_values([row.p for row in rows]), strict=True):
        row.q = q
        _call(row, float(np.median(lengths[0])))
    frame = in_order(frame_of(rows))
    regressions = frame["verdict"].is_in(list(REGRESSIONS)).sum()
    call: CycleCall = "unchanged" if cycle.p > LEVEL else "slower" if cycle.delta > 0 else "faster"
    lines = (
        line("Cycle", f"{call}: {units.amount(cycle.a, cycle.b)} over {len(baseline)} and "
             f"{len(candidate)} runs, {units.figure(cycle.delta, signed=True)} ± {units.figure(cycle.margin)}"),
        line("Rows", f"{regressions} of {frame.height} functions slower beyond run-to-run noise"),
    )
    verdict = Verdict(
        Comparability(), f"{call.capitalize()}, measured against run-to-run noise.", "runs",
        replace(compare_lengths(lengths[0], lengths[1]), verdict=call, shift_ms=cycle.delta, outliers=(),
                ci_low_ms=cycle.delta - cycle.margin, ci_high_ms=cycle.delta + cycle.margin),
        runs_a=len(baseline), runs_b=len(candidate),
    )
    return Table(
        view="diff", columns=COLUMNS, rows=Rows(arrows(frame).select(COLUMN_NAMES)), total_rows=frame.height,
        facts=verdict.facts(), summary=lines, notes=("Each run is one sample: the centre of its cycles.",),
        sources=sources((*baseline, *candidate)), names=(short_names_of((*baseline, *candidate)),),
    )


def _run(run: Trace, options: Options) -> Run:
    """The run's cycle time in ms and, per function, its launches and ms per cycle; all are means over its processes."""
    work = work_of(run, options)
    if work.rows.is_empty():
        raise CannotAnswer(f"{run.info.label} has no cycles; repeated runs are compared cycle by cycle.")
    collected: dict[Function, list[tuple[float, float]]] = {}
    lengths = []
    for one in with_idle_time(match(work, work, options), (work, work), {}, options):
        if one.pair.a != one.pair.b:
            continue
        side: RunSamples = one.a
        lengths.append(float(np.median(side.cycle_ms)))
        for row, key in enumerate(one.functions.rows()):
            seen = side.seen[row]
            if seen.any():
                values = float(centre(side.launches[row, seen])), float(centre(side.ms[row, seen]))
                function = key[0], key[1] if key[1] == HOST else ("GPU" if key[1] else None), key[2]
                collected.setdefault(function, []).append(values)
    means = {key: (float(np.mean([n for n, _ in values])), float(np.mean([t for _, t in values])))
             for key, values in collected.items()}
    return float(np.mean(lengths)), means


def _row(key: Function, sides: list[list[Run]]) -> FunctionChange:
    times = [np.array([functions.get(key, (0.0, 0.0))[1] for _, functions in side]) for side in sides]
    calls = [np.array([functions.get(key, (0.0, 0.0))[0] for _, functions in side]) for side in sides]
    moved = _compared(times[0], times[1])
    us_a, us_b = (
        1e3 * float(t.mean()) / float(n.mean()) if n.mean() > 0 else None for t, n in zip(times, calls, strict=True)
    )
    return FunctionChange(
        key[0], key[1], key[2], category(key[2], key[1]), launches_a=float(calls[0].mean()),
        launches_b=float(calls[1].mean()), launch_us_a=us_a, launch_us_b=us_b,
        ratio=us_b / us_a if us_a and us_b else None, a_ms=moved.a, b_ms=moved.b, delta_ms=moved.delta,
        ci_low_ms=moved.delta - moved.margin, ci_high_ms=moved.delta + moved.margin, p=moved.p, noise_ms=moved.noise,
        sure_ms=max(0.0, abs(moved.delta) - moved.margin), cycles_a=len(times[0]), cycles_b=len(times[1]),
    )


class _Difference(Struct, frozen=True):
    """Both means, the change, half the width of its 95% CI, p, and the run-to-run noise within a side."""

    a: float
    b: float
    delta: float
    margin: float
    p: float
    noise: float


def _compared(a: Floats, b: Floats) -> _Difference:
    """Student's t-test with runs as samples; 0.3% of the larger mean is added to their spread (as a variance)."""
    from scipy.special import stdtr, stdtrit

    freedom, mean_a, mean_b = len(a) + len(b) - 2, float(a.mean()), float(b.mean())
    floor = (0.003 * max(mean_a, mean_b)) ** 2
    variance = (float(a.var()) * len(a) + float(b.var()) * len(b)) / freedom + floor
    error, delta = np.sqrt(variance * (1 / len(a) + 1 / len(b))), mean_b - mean_a
    p = float(2 * stdtr(freedom, -abs(delta) / error)) if error > 0 else 1.0
    return _Difference(mean_a, mean_b, delta, float(stdtrit(freedom, 0.975) * error), p, float(np.sqrt(variance)))


def _call(row: FunctionChange, cycle_ms: float) -> None:
    """Set the verdict by q, if the row takes enough of the cycle to be flagged."""
    a, b = row.a_ms or 0.0, row.b_ms or 0.0
    if max(a, b) >= MATERIAL * cycle_ms and row.q is not None and row.q <= LEVEL:
        moved: Call = "slower" if b > a else "faster"
        row.verdict = "new" if not row.launches_a and row.launches_b else "gone" if not row.launches_b else moved
