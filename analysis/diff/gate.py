"""The gates of ``--fail-on``: each passes, fails, or is not judged, and a sentence says why.

A gate passes only where what it forbids is excluded. ``regression`` is about the mean cycle, since throughput is a
mean: it fails if the near end of the interval lies above the limit, passes if the far end lies within the limit or
within what counts as unchanged, and is not judged in between, nor where nothing shows that both runs do the same work.
GPU work hidden behind the host fails ``gpu`` and ``kernel``, never ``regression``, but a pass mentions it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ..core import units
from ..core.names.display_names import shown_name
from ..table.table import Table
from .change import REST
from .function_change import REGRESSIONS
from .gate_rule import Condition
from .judge import MARGIN
from .resources import ChangedResource
from .sentences import cause_name, resource_sentence
from .verdict import Verdict, verdict_of

Result = Literal["PASS", "FAIL", "NOT JUDGED"]
WORST_FIRST: tuple[Result, ...] = ("FAIL", "NOT JUDGED", "PASS")
_ON_DEVICE = ("device", "communication")
_COPIES = ("memcpy", "memset")


class Gate(Struct, frozen=True):
    """A condition as typed, its result, and why in one line."""

    gate: str
    result: Result
    sentence: str


def with_gates(table: Table, conditions: Sequence[tuple[str, Condition]]) -> tuple[Table, list[Gate]]:
    """The table of the view ``diff`` with the fact ``gates``, and the gates themselves; conditions as typed."""
    gates = [judge(table, text, condition) for text, condition in conditions]
    facts = [{"gate": one.gate, "result": one.result, "sentence": one.sentence} for one in gates]
    return replace(table, facts={**table.facts, "gates": facts}), gates


def worst(gates: Sequence[Gate]) -> Result:
    """The worst result of some gates."""
    return min((one.result for one in gates), key=WORST_FIRST.index)


def sentence(table: Table, gates: Sequence[Gate], named: set[str]) -> str:
    """The line for stderr: the worst result and the reasons for it; a pass also says what got worse in spite of it.
    ``named``: the conditions that were asked for."""
    result = worst(gates)
    reasons = [one.sentence for one in gates if one.result == result]
    passed_over = _got_worse(table, _verdict(table), named) if result == "PASS" else []
    return f"{result}: {'; '.join([*dict.fromkeys(reasons), *passed_over])}"


def judge(table: Table, text: str, condition: Condition) -> Gate:
    """Check one condition. A view that could not answer says why in its first note."""
    if "same_work" not in table.facts:
        return Gate(text, "NOT JUDGED", table.notes[0] if table.notes else "the runs were not compared")
    verdict = _verdict(table)
    if not verdict.same_work.proved:
        return Gate(text, "NOT JUDGED", verdict.same_work.sentence.removeprefix("not judged: "))
    result, why = _JUDGES[condition.name](table, verdict, condition.percent)
    return Gate(text, result, why)


def _verdict(table: Table) -> Verdict:
    return verdict_of({name: value for name, value in table.facts.items() if name != "histogram"})


def judged_change(low: float | None, high: float | None, of: float, percent: float) -> Result:
    """The result for a change with this interval, as a share ``of`` what it was before: it fails above ``percent``, and
    passes where no more than that, or than what counts as unchanged, is left possible."""
    if low is None or high is None:
        return "NOT JUDGED"
    if low > percent / 100 * of:
        return "FAIL"
    return "PASS" if high <= max(percent / 100, MARGIN) * of else "NOT JUDGED"


def _span(low: float, high: float, of: float) -> str:
    """'+2.0…+8.1%' of what it was before."""
    if not of:
        return units.amount(low, high)
    near, far = (units.percent(100 * one / of, signed=True) for one in (low, high))
    return f"{near.removesuffix('%')}…{far}"


def _regression(table: Table, verdict: Verdict, percent: float) -> tuple[Result, str]:
    cycles = verdict.cycle_time
    if cycles is None:
        return "NOT JUDGED", "the runs have no cycles in common"
    low, high, of = cycles.mean_low_ms, cycles.mean_high_ms, cycles.compared_a_ms
    result = judged_change(low, high, of, percent)
    if low is None or high is None:
        return result, "too few cycles to tell"
    if result == "FAIL":
        share = units.percent(100 * low / of, signed=True)
        return result, f"mean cycle at least {units.amount(low)} slower ({share}){_first_cause(table, verdict)}"
    if result == "PASS":
        most = units.percent(100 * high / of, signed=True)
        return result, f"no cycle-time regression above {percent:g}%, at most {most}"
    return result, f"a regression above {percent:g}% is neither shown nor excluded: {_span(low, high, of)}"


NAMED_SHARE = 0.05  # A cause of less of the change is not named: it would be blamed for what others took.


def _first_cause(table: Table, verdict: Verdict) -> str:
    if verdict.change is None or not verdict.change.causes:
        return ""
    one = next((cause for cause in verdict.change.causes if cause.kind != REST), None)
    if one is None or one.delta_ms < NAMED_SHARE * verdict.change.delta_ms:
        return ", in time that no function was recorded for" if verdict.change.causes[0].kind == REST else ""
    return f", first {shown_name(cause_name(one.kind, one.name), 60, *table.names)}"


def _gpu(table: Table, verdict: Verdict, percent: float) -> tuple[Result, str]:
    """Per device; if the intervals of the devices are unknown, nothing is judged."""
    if not verdict.work:
        return "NOT JUDGED", "no GPU work was recorded"
    results, sentences = [], []
    for one in verdict.work:
        device = one.device or "device"
        results.append(judged_change(one.ci_low_ms, one.ci_high_ms, one.busy_a_ms, percent))
        amount = f"GPU work of {device} {units.amount(one.busy_a_ms, one.busy_b_ms)} per cycle"
        if one.ci_low_ms is None or one.ci_high_ms is None:
            sentences.append(f"{amount}: too few cycles to tell")
        elif results[-1] == "FAIL":
            least = units.percent(100 * one.ci_low_ms / one.busy_a_ms, signed=True) if one.busy_a_ms else "new"
            sentences.append(f"{amount} (at least {least})")
        else:
            sentences.append(f"{amount} ({_span(one.ci_low_ms, one.ci_high_ms, one.busy_a_ms)})")
    result = min(results, key=WORST_FIRST.index)
    if result == "PASS":
        return result, f"no GPU work per cycle above +{percent:g}%"
    return result, "; ".join(text for text, one in zip(sentences, results, strict=True) if one == result)


def _kernel(table: Table, verdict: Verdict, percent: float) -> tuple[Result, str]:
    on_device = table.frame.filter(pl.col("category").is_in(_ON_DEVICE))
    if on_device.is_empty():
        return "NOT JUDGED", "no kernel was recorded"
    slower = on_device.filter(pl.col("verdict") == "slower")
    beyond = slower.filter(pl.col("ci_low_ms") > percent / 100 * pl.col("a_ms"))
    more = on_device.filter(pl.col("verdict") == "more launches")
    also = ""
    if more.height:
        also = f"; {shown_name(more['function'][0], 60, *table.names)} is launched more often"
    if beyond.is_empty():
        if not on_device["ci_low_ms"].count():
            return "NOT JUDGED", "too few launches or cycles to tell"
        return "PASS", f"no kernel slower by more than {percent:g}%{also}"
    name, low, a_ms = beyond.select("function", "ci_low_ms", "a_ms").row(0)
    share = f" at least {units.percent(100 * low / a_ms, signed=True)}" if a_ms else ""
    count = units.counted(beyond.height, "kernel", "kernels")
    return "FAIL", f"{count} slower by more than {percent:g}%, first {shown_name(name, 60, *table.names)}{share}{also}"


def _outliers(table: Table, verdict: Verdict, percent: float) -> tuple[Result, str]:
    if verdict.cycle_time is None:
        return "NOT JUDGED", "outliers not checked: no cycles"
    a, b = _outlier_counts(verdict)
    more = f"{units.counted(b, 'outlier', 'outliers')} in B, {a} in A"
    return ("FAIL", more) if b > a else ("PASS", f"no more outliers than in A ({b} of {a})")


def _cause(table: Table, verdict: Verdict, percent: float) -> tuple[Result, str]:
    if worse := _worse(verdict):
        return "FAIL", resource_sentence(worse)
    read = table.frame["metric"].drop_nulls()
    if not len(read.filter(read.cast(pl.String) != "latency")) and not verdict.resources:
        return "NOT JUDGED", "no clock, power, link or processor reading was recorded in both runs"
    return "PASS", "no changed resource that explains slower functions"


_JUDGES: dict[str, Callable[[Table, Verdict, float], tuple[Result, str]]] = {
    "regression": _regression, "gpu": _gpu, "kernel": _kernel, "outliers": _outliers, "cause": _cause}


def _got_worse(table: Table, verdict: Verdict, named: set[str]) -> list[str]:
    """Sentences on what got worse without failing a condition."""
    rows = table.frame.select("category", "kind", "verdict", "path")
    sentences = []
    device = rows.filter(pl.col("category").is_in(_ON_DEVICE))
    slower = device.filter(pl.col("verdict").is_in(["slower", "more launches"]))
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
