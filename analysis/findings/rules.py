"""Every rule, and their findings: problems and hints by cost, then the facts in reading order.

Another package registers its ``Rule`` under the entry point group ``warplens.findings``.
"""

from __future__ import annotations

from typing import Any

from ... import extensions
from .device import (
    clock_drop,
    fp32_gemms,
    memory_full,
    occupancy,
    recorded_rules,
    short_kernels,
    small_grids,
)
from .facts import (
    bound,
    busy,
    costliest,
    processor,
    recorded_verdict,
    serialised,
    step_trace,
    tensor_cores,
    top_operator,
)
from .rule import Evidence, Finding, Rule
from .waiting import (
    allocation,
    blocking_copies,
    clocks,
    communication,
    copies,
    drained,
    host_bound,
    input_data,
    pageable,
    queued,
    slow_cycles,
    start_up,
    unexplained,
    warm_up,
)
from .work import eager_attention, layout_copies, small_products, unfused_norm, unfused_optimiser, utilisation

RULES: tuple[Rule[Any], ...] = (
    recorded_rules.RULE, input_data.RULE, drained.RULE, host_bound.RULE, queued.RULE, allocation.RULE,
    unexplained.RULE, blocking_copies.RULE, pageable.RULE, copies.RULE, communication.RULE, slow_cycles.RULE,
    eager_attention.RULE, unfused_norm.RULE, unfused_optimiser.RULE, small_products.RULE, layout_copies.RULE,
    fp32_gemms.RULE, clock_drop.RULE, occupancy.RULE, short_kernels.RULE, small_grids.RULE, memory_full.RULE,
    clocks.RULE, start_up.RULE, warm_up.RULE, recorded_verdict.RULE, busy.RULE, utilisation.RULE, processor.RULE,
    costliest.RULE, top_operator.RULE, bound.RULE, serialised.RULE, tensor_cores.RULE, step_trace.RULE,
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
