"""The gate of ``--fail-on``: which conditions of ``gate_rule`` hold, and what got worse in spite of a pass.

``regression``: the cycle time of the headline decides, by the near end of its CI. Only if it gives no answer (no
cycles, or too few or too uneven ones) do the functions decide, by their net loss at the near ends of their CIs, in the
category (device, host, communication, idle) that loses most; new functions count as lost, gone ones as won. GPU work
hidden behind the host fails ``gpu`` and ``kernel``, never ``regression``, but a pass mentions it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from ...core import units
from ...core.names.display_names import shown_name
from ...table.table import Table
from ..present.sentences import resource_sentence
from .function_change import REGRESSIONS
from .gate_rule import Condition
from .resources import ChangedResource
from .verdict import Verdict, verdict_of

_ON_DEVICE = ("device", "communication")
_COPIES = ("memcpy", "memset")


class Gate(NamedTuple):
    """Whether the run passes the gate, or one of its conditions, and why in one line."""

    passed: bool
    sentence: str


class _Loss(NamedTuple):
    """Net loss of one category of functions, ms per cycle; the number of slower or new ones, and the first of them."""

    ms: float
    functions: int
    first: str


def gate(table: Table, conditions: Sequence[Condition] = (Condition("regression"),)) -> Gate:
    """Check the table of the view ``diff`` against the conditions."""
    if _incomparable(table) is not None:
        return Gate(False, f"FAIL: {judge(table, conditions[0]).sentence}")
    judged = [judge(table, one) for one in conditions]
    if failed := [one.sentence for one in judged if not one.passed]:
        return Gate(False, f"FAIL: {'; '.join(failed)}")
    named = {one.name for one in conditions}
    passed_over = _got_worse(table, _verdict(table), named)
    return Gate(True, f"PASS: {'; '.join([*(one.sentence for one in judged), *passed_over])}")


def judge(table: Table, condition: Condition) -> Gate:
    """Check one condition. Runs that cannot be compared fail every condition."""
    if (reason := _incomparable(table)) is not None:
        return Gate(False, f"the runs cannot be compared: {reason}")
    return _JUDGES[condition.name](table, _verdict(table), condition.percent)


def _incomparable(table: Table) -> str | None:
    """Why the runs cannot be compared, None if they can. A view that could not answer says so in its first note."""
    if "comparability" not in table.facts:
        return table.notes[0]
    comparability = _verdict(table).comparability
    return None if comparability.comparable else "; ".join(comparability.reasons)


def _verdict(table: Table) -> Verdict:
    return verdict_of({name: value for name, value in table.facts.items() if name != "histogram"})


def _regression(table: Table, verdict: Verdict, percent: float) -> Gate:
    cycles = verdict.cycle_time
    lost = _largest_loss(table)
    first = f", first {shown_name(lost.first, 60, *table.names)}" if lost.functions else ""
    if cycles is not None and cycles.verdict != "cannot tell":
        sure = cycles.ci_low_ms if cycles.ci_low_ms is not None else cycles.shift_ms
        share = 100 * sure / cycles.median_a_ms if cycles.median_a_ms else 0.0
        if cycles.verdict != "slower" or share <= percent:
            return Gate(True, f"no cycle-time regression above {percent:g}%")
        return Gate(False, f"cycle at least {units.amount(sure)} slower ({share:+.1f}%){first}")
    # percentages are of A's cycle, else of the total time of A's functions
    reference = (cycles.median_a_ms if cycles is not None else 0.0) or float(table.frame["a_ms"].sum()) or 1.0
    share = 100 * lost.ms / reference if lost.functions else 0.0
    if share > percent:
        what = units.counted(lost.functions, "function loses", "functions lose")
        return Gate(False, f"{what} at least {units.amount(lost.ms)} per cycle ({share:.1f}%){first}")
    unknown = "no cycles" if cycles is None else "cycle time cannot tell"
    return Gate(True, f"{unknown}, and no functions that lose more than {percent:g}% of a cycle")


def _gpu(table: Table, verdict: Verdict, percent: float) -> Gate:
    """Per device; if there are no totals per device, over all functions that ran on one."""
    work = [(one.device or "device", one.busy_a_ms, one.busy_b_ms, one.ci_low_ms) for one in verdict.work]
    if not work:
        rows = table.frame.filter(pl.col("category") == "device").select(
            pl.col("a_ms", "b_ms").sum(), pl.coalesce("ci_low_ms", "delta_ms").sum())
        work = [("devices", *rows.row(0))]
    failed = []
    for device, a_ms, b_ms, low_ms in work:
        near = b_ms - a_ms if low_ms is None else low_ms
        if near > percent / 100 * a_ms:
            least = f"at least {100 * near / a_ms:+.1f}%" if a_ms else "new"
            failed.append(f"GPU work of {device} {units.amount(a_ms, b_ms)} per cycle ({least})")
    return Gate(not failed, "; ".join(failed) or f"no GPU work per cycle above +{percent:g}%")


def _kernel(table: Table, verdict: Verdict, percent: float) -> Gate:
    slower = table.frame.filter(pl.col("category").is_in(_ON_DEVICE) & (pl.col("verdict") == "slower"))
    beyond = slower.filter(pl.col("sure_ms") > percent / 100 * pl.col("a_ms"))
    if beyond.is_empty():
        return Gate(True, f"no kernel slower by more than {percent:g}%")
    name, sure, a_ms = beyond.select("function", "sure_ms", "a_ms").row(0)
    share = f" at least {100 * sure / a_ms:+.1f}%" if a_ms else ""
    count = units.counted(beyond.height, "kernel", "kernels")
    return Gate(False, f"{count} slower by more than {percent:g}%, first {shown_name(name, 60, *table.names)}{share}")


def _outliers(table: Table, verdict: Verdict, percent: float) -> Gate:
    if verdict.cycle_time is None:
        return Gate(True, "outliers not checked: no cycles")
    a, b = _outlier_counts(verdict)
    more = f"{units.counted(b, 'outlier', 'outliers')} in B, {a} in A"
    return Gate(b <= a, more if b > a else f"no more outliers than in A ({b} of {a})")


def _cause(table: Table, verdict: Verdict, percent: float) -> Gate:
    if worse := _worse(verdict):
        return Gate(False, resource_sentence(worse))
    return Gate(True, "no changed resource that explains slower functions")


_JUDGES = {"regression": _regression, "gpu": _gpu, "kernel": _kernel, "outliers": _outliers, "cause": _cause}


def _got_worse(table: Table, verdict: Verdict, named: set[str]) -> list[str]:
    """Sentences on what got worse without failing a condition."""
    rows = table.frame.select("category", "kind", "verdict", "path")
    sentences = []
    device = rows.filter(pl.col("category").is_in(_ON_DEVICE))
    slower = device.filter(pl.col("verdict") == "slower")
    if slower.height:
        hidden = slower.filter(pl.col("path") == "hidden").height
        how = ", hidden" if hidden == slower.height else f", {hidden} of them hidden" if hidden else ""
        sentences.append(f"{_activities(slower)} slower{how}")
    if (new := device.filter(pl.col("verdict") == "new")).height:
        sentences.append(f"{_activities(new)} new")
    for category, one, many in (("host", "host function", "host functions"), ("idle", "idle cause", "idle causes")):
        if count := rows.filter((pl.col("category") == category) & pl.col("verdict").is_in(REGRESSIONS)).height:
            sentences.append(f"{units.counted(count, one, many)} slower")
    a, b = _outlier_counts(verdict)
    if b > a and "outliers" not in named:
        sentences.append(f"{units.counted(b, 'outlier', 'outliers')} in B, {a} in A")
    if "cause" not in named and (worse := _worse(verdict)):
        sentences.append(resource_sentence(worse))
    if few := rows.filter(pl.col("verdict") == "too few cycles").height:
        sentences.append(f"{units.counted(few, 'row has', 'rows have')} too few cycles to tell")
    return sentences


def _activities(rows: pl.DataFrame) -> str:
    """'23 kernels and 2 copies': memsets count as copies."""
    counts = {
        ("kernel", "kernels"): rows.filter(~pl.col("kind").is_in((*_COPIES, "collective"))).height,
        ("collective", "collectives"): rows.filter(pl.col("kind") == "collective").height,
        ("copy", "copies"): rows.filter(pl.col("kind").is_in(_COPIES)).height,
    }
    counted = [units.counted(count, *words) for words, count in counts.items() if count]
    return counted[0] if len(counted) == 1 else f"{', '.join(counted[:-1])} and {counted[-1]}"


def _outlier_counts(verdict: Verdict) -> tuple[int, int]:
    outliers = verdict.cycle_time.outliers if verdict.cycle_time is not None else ()
    return sum(one.run == "A" for one in outliers), sum(one.run == "B" for one in outliers)


def _worse(verdict: Verdict) -> ChangedResource | None:
    return next((one for one in verdict.resources if one.role == "capacity" and one.loss > 0 and one.functions), None)


def _largest_loss(table: Table) -> _Loss:
    """The net loss of the category that loses most. Categories overlap and are not added up: a device is idle while the
    host loses time."""
    called = table.frame.filter(pl.col("verdict").is_in(["slower", "new", "faster", "gone"]))
    rows = called.select("category", "verdict", "function", "path", "sure_ms", "lost_here_ms", "delta_ms").rows()
    losses: dict[str, _Loss] = {}
    for category, verdict, function, path, sure_ms, here_ms, delta_ms in rows:
        if path == "hidden":
            continue
        amount = min(sure_ms or abs(delta_ms or 0.0), here_ms if here_ms is not None else float("inf"))
        ms, functions, first = losses.get(category, _Loss(0.0, 0, ""))
        lost = verdict in REGRESSIONS
        losses[category] = (
            _Loss(ms + amount, functions + 1, first or function) if lost else _Loss(ms - amount, functions, first))
    return max(losses.values(), default=_Loss(0.0, 0, ""))
