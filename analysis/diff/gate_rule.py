"""The conditions of ``--fail-on`` and their meaning; the help imports them without the code that judges them."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_PERCENT = 1.0
RULES = {
    "regression": "the mean cycle is slower by more than PCT percent, by the near end of its 95% CI; it passes only if "
                  "the far end lies within the larger of PCT and 5%",
    "gpu": "a device works more than PCT percent longer per cycle, without collectives, by the same rule",
    "kernel": "the launches of any kernel take more than PCT percent longer, beyond the noise",
    "outliers": "B has more outliers among its cycles than A",
    "cause": "a clock, power, link or processor reading got worse and functions that ran under it got slower",
}
"""Every condition; those in ``WITH_PERCENT`` take ``:PCT``."""
WITH_PERCENT = ("regression", "gpu", "kernel")
METAVAR = "regression[:PCT]|gpu:PCT|kernel:PCT|outliers|cause"
HELP = (
    "exit 1 on a condition, 4 where none holds and one cannot be judged, as when nothing shows that both runs do the "
    "same work; repeat it for several (PCT is 1 unless given). "
    + "; ".join(f"{name}: {rule}" for name, rule in RULES.items())
)


class Condition(NamedTuple):
    """One condition of ``--fail-on``; ``percent`` applies to those in ``WITH_PERCENT``."""

    name: str
    percent: float = DEFAULT_PERCENT


def condition_of(text: str) -> Condition:
    """Parse ``regression:5`` or ``outliers``. Raises ValueError with a sentence for the user."""
    name, colon, number = text.partition(":")
    try:
        percent = float(number) if colon else DEFAULT_PERCENT
    except ValueError:
        percent = -1.0
    if name not in RULES or (colon and name not in WITH_PERCENT) or not percent >= 0:
        raise ValueError(f"--fail-on {text}: give {METAVAR.replace('|', ', ')}, as regression:5")
    return Condition(name, percent)
