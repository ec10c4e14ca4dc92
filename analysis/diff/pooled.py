"""Repeated runs, ``--baseline A1 A2 A3 --candidate B1 B2``: changes are tested against run-to-run noise.

Cycles within one run are alike; from run to run clocks, placement and neighbours change, and no number of cycles shows
that. So each run is one sample: the mean of its cycles. A row is flagged only if its change exceeds the run-to-run
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
from ..core.names.display_names import short_names_of
from ..table.rows import Rows
from ..table.table import Table, sources
from .columns import COLUMNS, arrows
from .cycle_time import compare_lengths, known_lengths
from .function_change import REGRESSIONS, FunctionChange, category, frame_of, in_order
from .headline import NOTHING_SHOWN, prepared_pair
from .judge import CYCLE_FLOOR, Floats, form, q_values, word
from .prepare.idle_time import with_idle_time
from .prepare.samples import HOST, RunSamples, match, work_of
from .rows import MATERIAL, call_of
from .sentences import cycle_sentence, line
from .verdict import Comparability, Verdict

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
    ready = prepared_pair((baseline[0], candidate[0]), chosen)
    same = NOTHING_SHOWN if ready is None else ready.same
    keys = dict.fromkeys(key for side in sides for _, functions in side for key in functions)
    rows = [_row(key, sides) for key in keys]
    for row, q in zip(rows, q_values([row.p for row in rows]), strict=True):
        row.q = q
        row.verdict = call_of(
            (row.a_ms or 0.0, row.b_ms or 0.0), (row.launches_a, row.launches_b),
            (row.delta_ms or 0.0, row.ci_low_ms, row.ci_high_ms), q, same.proved, least_ms=MATERIAL * cycle.a)
    frame = in_order(frame_of(rows))
    regressions = frame["verdict"].is_in(list(REGRESSIONS)).sum()
    low, high = cycle.delta - cycle.margin, cycle.delta + cycle.margin
    call = word(cycle.a, cycle.delta, low, high, CYCLE_FLOOR) if same.proved else "not judged"
    time = replace(
        compare_lengths(lengths[0], lengths[1]), verdict=call, compared_a_ms=cycle.a, compared_b_ms=cycle.b,
        mean_delta_ms=cycle.delta, mean_low_ms=low, mean_high_ms=high, outliers=())
    lines = (
        line("Cycle", f"{cycle_sentence(time, same)}, over {len(baseline)} and {len(candidate)} runs"),
        line("Rows", f"{regressions} of {frame.height} functions slower beyond run-to-run noise"),
        line("Data", same.sentence),
    )
    verdict = Verdict(
        Comparability(same.proved, same.flops_ratio), same, f"{call.capitalize()}, measured against run-to-run noise.",
        "runs", time, runs_a=len(baseline), runs_b=len(candidate),
    )
    return Table(
        view="diff", columns=COLUMNS, rows=Rows(arrows(frame).select(COLUMN_NAMES)), total_rows=frame.height,
        facts=verdict.facts(), summary=lines, notes=("Each run is one sample: the mean of its cycles.",),
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
        times = known_lengths(side)[1]
        lengths.append(float(np.delete(times, list(form(times).out)).mean()))
        for row, key in enumerate(one.functions.rows()):
            seen = side.seen[row]
            if seen.any():
                values = float(side.launches[row, seen].mean()), float(side.ms[row, seen].mean())
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
