"""Every rule, and their findings: problems and hints by cost, then the facts in reading order.

Another package registers its rule under the entry point group ``warplens.findings``.
"""

from __future__ import annotations

from typing import Any

from ... import extensions
from . import (
    device,
    facts,
    waiting,
)
from .rule import Evidence, Finding, Rule

RULES: tuple[Rule, ...] = (
    facts.message, facts.device_error, facts.page_faults,
    device.recorded_rules, waiting.input_data, waiting.drained, waiting.host_bound, waiting.queued, waiting.allocation,
    waiting.capture, waiting.unexplained, waiting.blocking_copies, waiting.pageable, waiting.copies,
    waiting.communication, waiting.straggler, waiting.overlap, waiting.slow_cycles, device.slow_lane, *device.PATTERNS,
    device.fp32_gemms, device.clock_drop, device.occupancy, device.short_kernels,
    device.small_grids, device.memory_full, waiting.clocks, waiting.start_up, waiting.warm_up, facts.recorded_verdict,
    facts.busy, facts.utilisation, facts.processor, facts.costliest, facts.top_operator, facts.bound, facts.serialised,
    facts.tensor_cores, facts.step_trace,
)


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """The findings of all rules: problems and hints by descending cost, then facts, last what could not be checked."""
    rules = (*RULES, *extensions("findings").values())
    return tuple(sorted((one for rule in rules if (one := rule.ask(evidence)) is not None), key=_place))


def _place(finding: Finding) -> tuple[int, float]:
    if finding.severity in ("problem", "hint"):
        return 0, -(finding.cost_ns or 0.0)
    return (1 if finding.severity == "fact" else 2), 0.0


def finding_facts(reported: tuple[Finding, ...]) -> dict[str, Any]:
    """The findings for the facts of an answer: as sentences, as typed data, and what could not be checked."""
    return {
        "findings": [finding.sentence for finding in reported if finding.severity != "unchecked"],
        "rules": [finding.fact for finding in reported], "unchecked": _unchecked(reported),
    }


def _unchecked(reported: tuple[Finding, ...]) -> str | None:
    """What could not be checked, and why, as one sentence; None if everything could."""
    reasons: dict[str, list[str]] = {}
    for finding in reported:
        if finding.severity == "unchecked":
            reasons.setdefault(finding.sentence, []).append(finding.rule)
    parts = [f"{', '.join(rules)} ({why})" for why, rules in reasons.items()]
    return f"Not checked: {'; '.join(parts)}." if parts else None
