"""What ``--fail-on`` takes and what it means: read by the help without loading what it would need to judge."""

from __future__ import annotations

RULE = (
    "exit 1 where the cycle is surely slower by more than PCT percent (default 1): the near end of the 95% interval "
    "counts; where cycles cannot tell, where functions that are not hidden surely lose more than that of a cycle; runs "
    "that cannot be compared fail too"
)
DEFAULT_PERCENT = 1.0


def percent_of(text: str) -> float:
    """The percentage in ``regression`` or ``regression:PCT``. Raises ValueError with a sentence."""
    what, _, number = text.partition(":")
    try:
        percent = float(number or DEFAULT_PERCENT)
    except ValueError:
        percent = -1.0
    if what != "regression" or not percent >= 0:
        raise ValueError(f"--fail-on {text}: give regression or regression:PCT, as regression:5")
    return percent
