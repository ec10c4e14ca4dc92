"""GEMMs too small to fill the device."""

from __future__ import annotations

from ..evidence.below_peak import Below
from .below import at_peak, rule, time_of, win


def _sentence(one: Below, word: str) -> str:
    return (f"GEMMs too small to fill the device take {time_of(one)}: {one.op}{at_peak(one)}; at their peak they "
            f"{win(one, word)}.")


RULE = rule("small products", "small", _sentence, "op~mm")
