"""The evidence the rules use besides the overview's own figures, from one run or a piece of it."""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec import Struct

from ....loaders.trace import Trace
from ...contract.options import Options
from ...cycles.detection import find_cycles
from ...cycles.whole import Steps, in_steps
from ...measured.rules import RecordedRules, recorded_of
from ...operators.tree import operators_of
from .below_peak import Below, Utilisation, below_peak_of, utilisation_of
from .copies import Blocking, Copies, blocking_of, copies_of
from .cycle_times import CycleTimes, cycle_times_of
from .kernel_times import KernelTimes, kernel_times_of
from .outside import Outside, outside_of
from .samples import Samples, error_events, samples_of
from .waits import Waits, waits_of


def step_trace_of(run: Trace) -> dict[str, Any] | None:
    """The first row of Ascend's ``step_trace_time.csv``: µs as text by column; ``steps`` is the number of rows."""
    rows = run.info.facts.get("step_trace_time")
    return {**rows[0], "steps": len(rows)} if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None


def top_operator_of(run: Trace) -> dict[str, Any] | None:
    """The operator with most host self time: ``name calls host_self_ns share`` (of the self time of all operators)."""
    operators = operators_of(run)
    rows = None if operators is None else operators.frame.sort("host_self_ns", descending=True)
    if rows is None or not (total := rows["host_self_ns"].sum()):
        return None
    first = rows.select(pl.col("name").cast(pl.String), "calls", "host_self_ns").row(0, named=True)
    return first | {"share": first["host_self_ns"] / total}


class Measured(Struct, frozen=True):
    """The evidence by subject; None where nothing was recorded."""

    waits: Waits | None = None
    copies: Copies | None = None
    kernels: KernelTimes | None = None
    cycles: CycleTimes | None = None
    samples: Samples | None = None
    outside: Outside | None = None
    below_peak: dict[str, Below] | None = None
    utilisation: Utilisation | None = None
    blocking: Blocking | None = None
    step_trace: dict[str, Any] | None = None
    recorded: RecordedRules | None = None
    operator: dict[str, Any] | None = None
    notices: tuple[dict[str, Any], ...] = ()


def notices_of(run: Trace) -> tuple[dict[str, Any], ...]:
    """What the recording itself says is wrong: ``rule sentence view``."""
    events = [{"rule": "device error", "sentence": one, "view": "metrics"} for one in error_events(run)]
    return (*(run.info.facts.get("notices") or ()), *events)


def measured(
    run: Trace, piece: Trace, options: Options, steps: Steps | None = None, cycle: int | None = None
) -> Measured:
    """The evidence in the steps of a piece of a run; with ``cycle``, without what needs the run's other cycles."""
    within = in_steps(piece, steps)
    below, use = (below_peak_of(run, piece, options, steps), utilisation_of(run, options)) if cycle is None else (
        None, None)
    operator = None if run.has("kernels") else top_operator_of(within)
    return Measured(
        waits_of(run, piece, steps, within), copies_of(within), kernel_times_of(within),
        cycle_times_of(run, options) if cycle is None else None, samples_of(run, within),
        outside_of(run, steps, find_cycles(run, options).frame["label"].cast(pl.String)) if cycle is None else None,
        below, use, blocking_of(run, within), step_trace_of(run), recorded_of(within), operator,
        notices_of(run),
    )
