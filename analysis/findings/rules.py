"""Every rule, in the order a reader needs what they say.

How busy devices are, what they wait for, what fills them, how well they are used, and what the figures leave out.
"""

from __future__ import annotations

from typing import Any

from . import (
    bound,
    busy,
    clocks,
    communication,
    copies,
    costliest,
    host_bound,
    input_data,
    processor,
    serialised,
    small_grids,
    tensor_cores,
    tensor_eligible,
    unexplained,
)
from .rule import Evidence, Finding, Rule

RULES: tuple[Rule[Any], ...] = (
    busy.RULE, input_data.RULE, host_bound.RULE, unexplained.RULE, processor.RULE, copies.RULE, communication.RULE,
    costliest.RULE, bound.RULE, serialised.RULE, small_grids.RULE, tensor_cores.RULE, tensor_eligible.RULE, clocks.RULE,
)


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """What the rules find in the evidence, in their order."""
    return tuple(finding for rule in RULES if (finding := rule.ask(evidence)) is not None)
