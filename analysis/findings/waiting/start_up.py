"""Time before the first step and after the last one, which the other findings do not cover."""

from __future__ import annotations

from ...core import units
from ...core.names.short_name import short_name
from ...core.text import display
from ...idle.causes import function
from ..evidence.outside import Outside, Stretch
from ..rule import Evidence, Rule, Unchecked

_NAME = 48


def _find(evidence: Evidence) -> Outside | Unchecked | None:
    return evidence.measured.outside


def _sentence(outside: Outside) -> str:
    what = "whole step" if outside.of_steps else "device activity"
    parts = [
        _stretch(stretch, f"{where} {what}")
        for stretch, where in ((outside.before, "before the first"), (outside.after, "after the last"))
        if stretch is not None
    ]
    return f"{'Outside the steps' if outside.of_steps else 'No device work'}: {'; '.join(parts)}."


def _stretch(stretch: Stretch, where: str) -> str:
    text = f"{units.duration(stretch.span_ns)} {where}"
    longest = stretch.longest
    if longest is None:
        return text
    what = "one" if longest.count == 1 else f"{units.count(longest.count)} calls of"
    loaded = ": modules were loaded" if longest.loads_modules else ""
    name = display(short_name(function(longest.name)), _NAME)
    return f"{text}, {units.duration(longest.total_ns)} of it {what} {name}{loaded}"


RULE = Rule("start-up", "fact", _find, _sentence, view="timeline")
