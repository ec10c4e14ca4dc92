"""The lead number of a view's answer, which the screen draws large; made from the answer's facts.

Kept out of the views: reports do not use it, and every command pays for what a view imports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..contract.view import Judgement, Lead
from ..core import units
from ..findings.spread import share_text
from ..table.table import Table

Facts = dict[str, Any]


class Number(NamedTuple):
    """A number with its unit (``35.6 ms``, ``94%``), the quantity it measures, and its judgement."""

    text: str
    of: str
    judgement: Judgement = ""


def lead_of(table: Table, stated: Facts | None = None) -> Lead | None:
    """The lead number of an answer; for two runs B's number with A's in the caption; None if the view has none. Sums of
    two runs are compared per cycle or not at all. ``stated``: the facts of every view, which are not in its own."""
    facts = {**(stated or {}), **table.facts}
    if "a" in facts and stated:
        facts |= {side: {**(stated.get(side) or {}), **(table.facts.get(side) or {})} for side in ("a", "b")}
    if table.view == "whatif":
        best = table.window(0, 1, ["share"])
        return Lead(units.percent(100 * best[0][0], places=0), "of the time to win") if best and best[0][0] else None
    if "a" in facts and table.view in _SUMS:
        return _times_as_much(table, *_SUMS[table.view])
    figure = _FIGURES.get(table.view)
    if figure is None:
        return None
    if "a" not in facts:
        one = figure(facts)
        return None if one is None else _lead(one, one.of)
    a, b = figure(facts["a"]), figure(facts["b"])
    return None if a is None or b is None else _lead(b, f"{b.of}, {a.text} in A")


def _times_as_much(table: Table, column: str, of: str) -> Lead | None:
    if table.facts.get("per") != "cycle":
        return None
    a, b = (table.total(f"{column}_{side}") for side in "ab")
    return Lead(units.factor(b / a), f"{of}, {units.duration(a)} in A") if a and b else None


def _lead(figure: Number, caption: str) -> Lead:
    number, _, unit = figure.text.partition(" ")
    return Lead(number, f"{unit} {caption}".strip(), figure.judgement)


def _cycles(facts: Facts) -> Number | None:
    step = facts.get("step") or {}
    if step.get("step_ns"):  # the one length that every view gives; without devices that of the host
        name = step.get("name") or "cycle"
        return Number(units.duration(step["step_ns"]), name if step.get("whole") == 1 else f"mean {name}")
    median = facts.get("median_us")
    of = "cycle" if facts.get("n") == 1 else "median cycle"
    return Number(units.duration(1000 * median), of) if median else None


def _kernels(facts: Facts) -> Number | None:
    kinds = facts.get("by_kind") or {}
    total = sum(kinds[kind]["total_ns"] or 0 for kind in ("kernel", "collective") if kind in kinds)
    return Number(units.duration(total), "of kernel time") if total else None


def _idle(facts: Facts) -> Number | None:
    devices = list((facts.get("in_steps") or facts).get("devices") or [])
    idle, window = (sum(one[name] or 0 for one in devices) for name in ("idle_ns", "window_ns"))
    name = devices[0]["device"] or "device" if len(devices) == 1 else f"{len(devices)} devices"
    return Number(share_text(idle / window), f"idle on {name}") if window else None


def _ranks(facts: Facts) -> Number | None:
    late = facts.get("straggler")
    return late and Number(units.duration(late["caused_wait_ns"]), f"waited for rank {late['rank']}", "bad")


def _collectives(facts: Facts) -> Number | None:
    devices = facts.get("devices") or []
    spent, exposed = (sum(one[name] or 0 for one in devices) for name in ("comm_ns", "exposed_ns"))
    return Number(units.percent(100 * exposed / spent, places=0), "of communication exposed") if spent else None


def _roofline(facts: Facts) -> Number | None:
    return None if facts.get("mfu") is None else Number(units.percent(100 * facts["mfu"]), "MFU")


def _memory(facts: Facts) -> Number | None:
    most = max((one.get("peak_bytes") or 0 for one in facts.get("devices") or []), default=0)
    return Number(units.size(most), "allocated at most") if most else None


def _calls(facts: Facts) -> Number | None:
    return Number(units.duration(facts["sync_ns"]), "waiting for a device") if facts.get("sync_ns") else None


_FIGURES: dict[str, Callable[[Facts], Number | None]] = {
    "cycles": _cycles, "kernels": _kernels, "idle": _idle, "ranks": _ranks, "collectives": _collectives,
    "roofline": _roofline, "memory": _memory, "calls": _calls,
}
_SUMS = {"kernels": ("per_cycle_ns", "device time per cycle"), "calls": ("per_cycle_ns", "time in calls per cycle")}
"""Views whose number is a sum: the column by which two runs are compared, and its caption."""
