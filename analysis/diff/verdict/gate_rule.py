"""What ``--fail-on`` takes and what it means: read by the help without loading what it would need to judge."""

from __future__ import annotations

RULE = (
    "exit 1 when the cycle is slower by more than PCT percent (default 1), by the near end of its 95% interval; when "
    "cycles cannot tell, if functions that are not hidden lose more than that of a cycle; and when the runs cannot be "
    "compared"
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
