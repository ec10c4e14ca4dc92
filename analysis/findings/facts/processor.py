"""The share of time the process is on a CPU, and waits for one."""

from __future__ import annotations

from ...core import units
from ..rule import Evidence, Rule
from ..spread import share_text


def _sentence(evidence: Evidence) -> str:
    queue = "" if evidence.queued is None else f" and waits for one {units.percent(100 * evidence.queued)}"
    on_cpu = share_text(evidence.on_cpu or 0.0)
    return f"The process is on a CPU {on_cpu} of the {evidence.step_word}{queue}, all threads together."


RULE = Rule(
    "processor", "fact", lambda evidence: evidence if evidence.on_cpu is not None and evidence.step_ns else None,
    _sentence, view="cycles",
)
