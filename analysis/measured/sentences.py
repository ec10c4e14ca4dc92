"""Sentences on the findings of a profiler's own rules, always attributed to the profiler."""

from __future__ import annotations

from ..core import units
from ..core.names.short_name import fit_name
from ..core.text import display
from .rules import RuleFinding

_KERNEL = 40


def rule_sentence(finding: RuleFinding) -> str:
    """One rule with its estimate: NVIDIA's rule on Occupancy of k, est. speed-up 80.3% (global): The theoretical ..."""
    about = f"NVIDIA's rule on {display(finding.section, 60)} of {fit_name(finding.kernel, _KERNEL)}"
    gain = estimate(finding.speedup, finding.scope)
    return f"{about}, {gain}{finding.brief}" if gain else f"{about}: {finding.brief}"


def estimate(speedup: float | None, scope: str | None) -> str:
    """The tool's estimate as a prefix of its message: 'est. speed-up 80.3% (global): '; '' if it has none."""
    of = f" ({scope})" if scope else ""
    return "" if speedup is None else f"est. speed-up {units.percent(100 * speedup)}{of}: "


def verdict_sentence(verdicts: dict[str, float]) -> str:
    """The tool's own bottleneck verdicts, by kernel time."""
    parts = ", ".join(f"{units.percent(100 * share, places=0)} {name}" for name, share in verdicts.items())
    return f"NVIDIA's verdict on the bottleneck, by kernel time: {parts}."
