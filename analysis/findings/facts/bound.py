"""The bottlenecks of kernels (compute, memory, launch or low utilisation), weighted by kernel time, where known."""

from __future__ import annotations

from ...core import units
from ..rule import Evidence, Rule

LEAST = 0.005  # Shares below this are not listed.
KNOWN = 0.5  # If bottlenecks are known for less than this share of the kernel time, there is no finding.
UNKNOWN = 0.1  # The share with unknown bottlenecks is mentioned from here on.
Shares = tuple[tuple[str, float], ...]


def _find(evidence: Evidence) -> Shares | None:
    recorded = evidence.measured.recorded
    if sum(evidence.bound.values()) < KNOWN or (recorded is not None and recorded.verdicts):
        return None
    return tuple((name, share) for name, share in evidence.bound.items() if share >= LEAST) or None


def _sentence(shares: Shares) -> str:
    parts = [
        f"{units.percent(100 * share, places=0)} {'low utilisation' if name.endswith('low') else name.lstrip('~')}"
        for name, share in shares
    ]
    unknown = 1 - sum(share for _, share in shares)
    rest = f", unknown for {units.percent(100 * unknown, places=0)}" if unknown >= UNKNOWN else ""
    worked_out = all(name.startswith("~") for name, _ in shares)
    how = " (from the work of operators, no counters)" if worked_out else ""
    return f"Bottlenecks by kernel time{how}: {', '.join(parts)}{rest}."


RULE = Rule(
    "bound", "fact", _find, _sentence,
    rows=lambda shares: tuple({"bound": name, "share": share} for name, share in shares), view="kernels",
)
