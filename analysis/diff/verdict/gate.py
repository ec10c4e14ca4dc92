"""The rule of ``--fail-on regression[:PCT]``: when a pipeline should stop.

The cycle time of the headline decides: it stops where the cycle got slower by more than PCT percent (the near end of
its interval counts). Only where the cycle gives no answer (none were found, or too few or too uneven ones) do the
functions decide: it stops where the near ends of their intervals lose more than PCT percent of a cycle on balance, on
the device, on the host or in communication; new functions count as lost and gone ones as won. What is hidden behind the
host stops nothing; neither does what too few cycles leave open, and that is said.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ...core import units
from ...core.names.short_name import fit_name
from ...table.table import Table
from ..present.sentences import cycle_sentence
from .function_change import REGRESSIONS
from .gate_rule import DEFAULT_PERCENT
from .verdict import Verdict, verdict_of


class Gate(NamedTuple):
    """Whether the gate lets the run pass, and why in one sentence."""

    passed: bool
    sentence: str


class _Loss(NamedTuple):
    """What the functions of one category lose on balance, ms per cycle, over how many, and the foremost of them."""

    ms: float
    functions: int
    first: str


def gate(table: Table, percent: float = DEFAULT_PERCENT) -> Gate:
    """Apply the rule to the answer of the view ``diff``."""
    verdict = verdict_of({name: value for name, value in table.facts.items() if name != "histogram"})
    if not verdict.comparability.comparable:
        return Gate(False, f"Fails: the runs cannot be compared: {'; '.join(verdict.comparability.reasons)}.")
    cycles = verdict.cycle_time
    if cycles is not None and cycles.verdict != "cannot tell":
        sure = cycles.ci_low_ms if cycles.ci_low_ms is not None else cycles.shift_ms
        share = 100 * sure / cycles.median_a_ms if cycles.median_a_ms else 0.0
        if cycles.verdict != "slower" or share <= percent:
            return Gate(True, f"Passes: the cycle is not shown to be slower by more than {percent:g}%{_open(table)}")
        lost = _largest_loss(table)
        first = f", first {fit_name(lost.first, 60)}" if lost.functions else ""
        return Gate(False, f"Fails: the cycle takes at least {units.amount(sure)} more ({share:+.1f}%){first}.")
    lost = _largest_loss(table)
    share = 100 * lost.ms / _reference(table, verdict) if lost.functions else 0.0
    if share > percent:
        what = f"{lost.functions} function{'' if lost.functions == 1 else 's'}"
        loss = f"{'loses' if lost.functions == 1 else 'lose'} at least {units.amount(lost.ms)} per cycle"
        return Gate(False, f"Fails: {what} {loss} ({share:.1f}%), first {fit_name(lost.first, 60)}.")
    told = f"; cycle {cycle_sentence(cycles)}" if cycles is not None else ""
    return Gate(True, f"Passes: nothing is shown to be slower by more than {percent:g}% of a cycle{told}{_open(table)}")


def _reference(table: Table, verdict: Verdict) -> float:
    """What percents are of: the cycle of A, else all its functions took."""
    if verdict.cycle_time is not None and verdict.cycle_time.median_a_ms:
        return verdict.cycle_time.median_a_ms
    return float(table.frame["a_ms"].sum()) or 1.0


def _largest_loss(table: Table) -> _Loss:
    """Of device, host and communication the one that loses most: what runs beside each other is not added up."""
    called = table.frame.filter(pl.col("verdict").is_in(["slower", "new", "faster", "gone"]))
    rows = called.select("category", "verdict", "function", "path", "sure_ms", "lost_here_ms", "delta_ms").rows()
    losses: dict[str, _Loss] = {}
    for category, verdict, function, path, sure_ms, here_ms, delta_ms in rows:
        if path == "hidden":
            continue
        amount = min(sure_ms or abs(delta_ms or 0.0), here_ms if here_ms is not None else float("inf"))
        before = losses.get(category, _Loss(0.0, 0, ""))
        if verdict in REGRESSIONS:
            losses[category] = _Loss(before.ms + amount, before.functions + 1, before.first or function)
        else:
            losses[category] = before._replace(ms=before.ms - amount)
    return max(losses.values(), default=_Loss(0.0, 0, ""))


def _open(table: Table) -> str:
    rows = int((table.frame["verdict"] == "too few cycles").sum())
    return f"; {rows} rows have too few cycles to tell." if rows else "."
