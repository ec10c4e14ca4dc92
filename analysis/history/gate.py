"""``--fail-on step:PCT``: a nightly gate that fails while a step is three to five runs old."""

from __future__ import annotations

from typing import Any, Literal

from ..core import units
from .noise import FEWEST_RUNS
from .steps import FEWEST_AFTER, SMALLEST

MOST_AFTER = 5
"""Runs at the new level after which a step no longer fails the gate: it fails from the third run to the fifth."""
Result = Literal["PASS", "FAIL", "NOT JUDGED"]
METAVAR = "step:PCT"
HELP = (
    f"exit 1 if a series became slower by PCT percent or more {FEWEST_AFTER} to {MOST_AFTER} runs ago, 4 if it cannot "
    f"be judged (fewer than {FEWEST_RUNS} comparable runs, or the last one is set apart); "
    f"PCT is {100 * SMALLEST:g} or more"
)


def percent_of(text: str) -> float:
    """Parse the percent in ``step:5``. Raises ValueError with a sentence for the user."""
    name, colon, number = text.partition(":")
    try:
        percent = float(number)
    except ValueError:
        percent = -1.0
    if name != "step" or not colon or not percent >= 0 or percent == float("inf"):
        raise ValueError(f"--fail-on {text}: give {METAVAR}, as step:5")
    if percent < 100 * SMALLEST:
        raise ValueError(
            f"--fail-on {text}: steps below {100 * SMALLEST:g}% are not told apart from noise; give {METAVAR} with PCT "
            f"from {100 * SMALLEST:g}")
    return percent


def gate(facts: dict[str, Any], percent: float) -> tuple[Result, str]:
    """The result of a history's gate from its facts, and why in one line. Runs count from 1."""
    tested, last = facts["tested"], facts["runs"][-1]
    slower = [step for step in facts["steps"] if step["change"] >= percent / 100]
    new = [step for step in slower if step["runs_after"] <= MOST_AFTER]
    if new:
        first = new[0]
        more = f", and {len(new) - 1} more" if len(new) > 1 else ""
        size = units.percent(100 * first["change"], signed=True)
        since = f"since run {first['index'] + 1} ({first['run']})"
        return "FAIL", f"FAIL: {first['kind']} {first['name']} {size} {since}{more}"
    rising = [drift for drift in facts.get("drifts") or () if drift["change"] >= percent / 100]
    if rising:
        first = rising[0]
        per_run, change = (units.percent(100 * first[key], signed=True) for key in ("per_run", "change"))
        what = f"{first['kind']} {first['name']} drifts {per_run} a run, {change} over {tested['runs']} runs"
        return "FAIL", f"FAIL: {what}{f', and {len(rising) - 1} more' if rising[1:] else ''}"
    if last["not_tested"]:
        return "NOT JUDGED", f"NOT JUDGED: the last run ({last['run']}) is set apart: {last['not_tested']}"
    if not tested["series"] or tested["runs"] < FEWEST_RUNS:
        runs = units.counted(tested["runs"], "comparable run", "comparable runs")
        return "NOT JUDGED", f"NOT JUDGED: {runs} so far; finding a step takes {FEWEST_RUNS}"
    older = f"; {units.counted(len(slower), 'older step', 'older steps')}" if slower else ""
    waiting = facts["unconfirmed"]
    odd = f"; {units.counted(len(waiting), 'series', 'series')} off in the last run, not confirmed" if waiting else ""
    none = f"no step of {percent:g}% or more in the last {MOST_AFTER} of {tested['runs']} runs"
    return "PASS", f"PASS: {none}{older}{odd}"
