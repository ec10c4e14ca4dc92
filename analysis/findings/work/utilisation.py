"""Model FLOPs utilisation (MFU): FLOPs of a cycle's operators as a share of what the device could do in that time."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ..evidence.below_peak import Utilisation
from ..rule import Evidence, Rule


class Used(Struct, frozen=True):
    """The utilisation in the cycles, and the word for one cycle."""

    work: Utilisation
    word: str


def _find(evidence: Evidence) -> Used | None:
    work = evidence.measured.utilisation
    return Used(work, evidence.step_word) if work is not None and work.flops else None


def _sentence(used: Used) -> str:
    work = used.work
    name = "HFU (recomputation counted)" if work.recomputes else "MFU"
    covered = units.percent(100 * work.covered, places=0)
    return (f"{name} {units.percent(100 * work.mfu)}: {units.work(work.flops)} per {used.word}; work known for "
            f"{covered} of the time of recorded launches, without collectives.")


RULE = Rule("utilisation", "fact", _find, _sentence, view="roofline", rows=lambda used: (
    {"mfu": used.work.mfu, "flops_per_cycle": used.work.flops, "covered": used.work.covered},))
