"""The Ascend profiler's own breakdown of a step: computing, communication not overlapped, free time."""

from __future__ import annotations

from typing import Any

from ...core import units
from ...core.text import display
from ..rule import Evidence, Rule

_PARTS = (("Computing", "computing"), ("Communication(Not Overlapped)", "communication not overlapped"),
          ("Overlapped", "overlapped"), ("Free", "free"), ("Preparing", "preparing"))


def _find(evidence: Evidence) -> dict[str, Any] | None:
    recorded = evidence.measured.step_trace
    if recorded is None:
        return None
    parts = {word: ns for column, word in _PARTS if (ns := _nanoseconds(recorded.get(column))) is not None}
    return {"step": recorded.get("Step"), "steps": recorded["steps"], **parts} if parts else None


def _nanoseconds(us: Any) -> int | None:
    try:
        value = float(us) * 1000
    except (TypeError, ValueError):
        return None
    return round(value) if 0 <= value < 1e18 else None


def _sentence(trace: dict[str, Any]) -> str:
    parts = ", ".join(f"{word} {units.duration(trace[word])}" for _, word in _PARTS if word in trace)
    step = f"step {display(str(trace['step']), 12)}" if trace["step"] else "the step"
    more = f", the first of {units.count(trace['steps'])}" if trace["steps"] > 1 else ""
    return f"The profiler's own times of {step}{more}: {parts}."


RULE = Rule("step trace", "fact", _find, _sentence, rows=lambda found: (found,), view="cycles")
