"""The gate as a command prints it: whether it passed, and its line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warplens.analysis.diff.gate import sentence, with_gates, worst
from warplens.analysis.diff.gate_rule import Condition
from warplens.analysis.table.table import Table


class Line(NamedTuple):
    """Whether every condition passed, and the line on stderr."""

    passed: bool
    sentence: str


def gate(table: Table, conditions: Sequence[Condition] = (Condition("regression"),)) -> Line:
    """Check the table of the view ``diff``."""
    judged, gates = with_gates(table, [(one.name, one) for one in conditions])
    return Line(worst(gates) == "PASS", sentence(judged, gates, {one.name for one in conditions}))
