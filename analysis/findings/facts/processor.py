"""How much of the time the process is on a CPU, and waits for one."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ..rule import Evidence, Rule
from ..spread import share_text


class OnProcessor(Struct, frozen=True):
    """Shares of a step summed over threads, so that they can pass 1."""

    on_cpu: float
    queued: float | None
    word: str


def _find(evidence: Evidence) -> OnProcessor | None:
    if evidence.on_cpu is None or not evidence.step_ns:
        return None
    return OnProcessor(evidence.on_cpu, evidence.queued, evidence.step_word)


def _sentence(found: OnProcessor) -> str:
    queue = "" if found.queued is None else f" and waits for one {units.percent(100 * found.queued)}"
    return f"The process is on a CPU {share_text(found.on_cpu)} of the {found.word}{queue}, all threads together."


RULE = Rule("processor", "fact", _find, _sentence, view="cycles")
