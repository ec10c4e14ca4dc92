"""The operator with the most self time, for runs without device records."""

from __future__ import annotations

from typing import Any

from ...core import units
from ...core.names.short_name import fit_name
from ..rule import Evidence, Rule

_OPERATOR = 40  # Width of its name.


def _find(evidence: Evidence) -> dict[str, Any] | None:
    first = evidence.measured.operator
    return first and first | {"within": evidence.where}


def _sentence(operator: dict[str, Any]) -> str:
    return (f"Top operator: {fit_name(operator['name'], _OPERATOR)}, {units.percent(100 * operator['share'])} of the "
            f"operators' host time{operator['within']} ({units.duration(operator['host_self_ns'])} in "
            f"{units.counted(operator['calls'], 'call', 'calls')}).")


RULE = Rule(
    "top operator", "fact", _find, _sentence,
    rows=lambda operator: ({name: operator[name] for name in ("name", "share", "host_self_ns", "calls")},), view="ops",
)
