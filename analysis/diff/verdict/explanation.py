"""What the changed resource explains: the slower cycle, only the device line, or nothing.

A changed resource is no cause of a slow cycle it does not explain. It explains a slower cycle only where the part of
the machine it belongs to got slower with it and somebody waited for that part; where the cycle kept its length it can
explain the device line at most.
"""

from __future__ import annotations

from typing import Any

from ...core.metrics import change
from .device_work import CHANGED


def explains(top: dict[str, Any] | None, cycles: dict[str, Any], work: list[dict[str, Any]]) -> str:
    """What the foremost changed capacity explains, as the end of a sentence."""
    if top is None:
        return _without_a_cause(cycles, work)
    slower = cycles["verdict"] == "slower"
    odd = any(one["run"] == "B" for one in cycles["outliers"]) and not slower
    on_host = top["device"] == "Host"
    device_slower = any(_slower(row) and (on_host or row["device"] == top["device"]) for row in work)
    if on_host:
        if slower:
            if top["functions"]:
                return "explains the slower cycle" + ("" if device_slower else "; GPU work per launch is unchanged")
            return "nothing on the host got slower under it, so the slower cycle is not explained"
        if odd and top["functions"]:
            return "may explain the slow cycles"
        return f"{_kept(cycles)}, so it explains no slower cycle"
    if not device_slower and not top["functions"]:
        return "no function got slower under it, so it explains nothing"
    exposed = any(row["path"] == "exposed" and row["device"] == top["device"] for row in work)
    if slower and exposed:
        return "explains the slower cycle"
    if slower:
        return "explains the GPU line; whether the cycle waited for it cannot be told"
    return "explains the GPU line, not " + ("the slow cycles" if odd else f"any slower cycle: {_kept(cycles)}")


def _kept(cycles: dict[str, Any]) -> str:
    """What the cycle did that did not get slower."""
    return {"unchanged": "the cycle kept its length", "faster": "the cycle got no slower"}.get(
        cycles["verdict"], "whether the cycle changed cannot be told"
    )


def _without_a_cause(cycles: dict[str, Any], work: list[dict[str, Any]]) -> str:
    """Where no capacity changed: at least which part of the machine the time was lost on."""
    if cycles["verdict"] != "slower":
        return "nothing needs one to explain it" if cycles["verdict"] == "unchanged" else "no cause can be told"
    if any(row["path"] == "exposed" for row in work):
        return "the cycle waits for more GPU work"
    idle = [(row["idle_a"], row["idle_b"]) for row in work if row["idle_a"] is not None and row["idle_b"] is not None]
    same = all(row["ratio"] is not None and abs(row["ratio"] - 1) <= CHANGED for row in work)
    if work and same and idle and all(b > a + 0.01 for a, b in idle):
        return "GPU work is unchanged and the GPU waits longer: the time is lost on the host"
    return "no cause can be told"


def _slower(row: dict[str, Any]) -> bool:
    return row["per_launch_ratio"] is not None and row["per_launch_ratio"] > 1 + CHANGED


def explanation(
    top: dict[str, Any] | None, cycles: dict[str, Any], work: list[dict[str, Any]], regressions: int,
    comparability: dict[str, Any],
) -> str:
    """The whole in one sentence, for those who read only one."""
    if not comparability["comparable"]:
        return f"These runs cannot be compared as one thing changed: {'; '.join(comparability['reasons'])}."
    cycle = {
        "slower": "The cycle got slower", "faster": "The cycle got faster", "unchanged": "The cycle kept its length",
    }.get(cycles["verdict"], "Whether the cycle changed cannot be told")
    count = "no function surely slower" if not regressions else (
        f"{regressions} function{'' if regressions == 1 else 's'} surely slower"
    )
    if top is None:
        return f"{cycle}, {count}; no capacity that was read changed, {_without_a_cause(cycles, work)}."
    went = f"{top['metric']} on {top['device']} went {change(top['mu_a'], top['mu_b'], top['unit'])}"
    return f"{cycle}, {count}; {went}, which {_which(explains(top, cycles, work))}."


def _which(text: str) -> str:
    return text if text.startswith(("explains", "may explain")) else f"changed, but {text}"
