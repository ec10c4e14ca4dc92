"""The rule of ``--fail-on regression[:PCT]``: when a pipeline should stop.

It stops where the cycle got surely slower by more than PCT percent (the near end of its interval counts), or where
functions the cycle waits for, or whose path is not known, lose surely more than PCT percent of a cycle together. What
is hidden behind the host stops nothing; neither does what too few cycles leave open, and that is said.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ...core.names.short_name import fit_name
from ...table.table import Table
from ..present.sentences import ms
from .gate_rule import DEFAULT_PERCENT


class Gate(Struct, frozen=True):
    """Whether the gate lets the run pass, and why in one sentence."""

    passed: bool
    sentence: str

    def __iter__(self) -> Any:
        return iter((self.passed, self.sentence))


def gate(table: Table, percent: float = DEFAULT_PERCENT) -> Gate:
    """Apply the rule to the answer of the view ``diff``."""
    comparability = table.facts.get("comparability") or {}
    if not comparability.get("comparable", True):
        return Gate(False, f"Fails: the runs cannot be compared: {'; '.join(comparability['reasons'])}.")
    cycles = table.facts.get("cycle_time")
    base = cycles["median_a_ms"] if cycles else None
    if cycles and cycles["verdict"] == "slower" and base:
        sure = cycles["ci_low_ms"] if cycles["ci_low_ms"] is not None else cycles["shift_ms"]
        if 100 * sure / base > percent:
            return Gate(False, f"Fails: the cycle takes surely {ms(sure)} ms more ({100 * sure / base:+.1f}%).")
    rows = [row for row in _rows(table) if row["verdict"] in ("slower", "new") and row["path"] != "hidden"]
    lost = sum(_sure(row) for row in rows if row["device"] != "Host")
    reference = base or sum(row["a_ms"] or 0.0 for row in _rows(table))
    share = 100 * lost / reference if reference else 0.0
    if rows and share > percent:
        first = rows[0]["function"]
        what = f"{len(rows)} function{'' if len(rows) == 1 else 's'} surely lose {ms(lost)} ms per cycle ({share:.1f}%)"
        return Gate(False, f"Fails: {what}, first {fit_name(first, 60)}.")
    return Gate(True, _passes(table, percent))


def _rows(table: Table) -> list[dict[str, Any]]:
    return table.frame.select("function", "device", "verdict", "path", "a_ms", "sure_ms", "delta_ms").to_dicts()


def _sure(row: dict[str, Any]) -> float:
    return float(row["sure_ms"] or row["delta_ms"] or 0.0)


def _passes(table: Table, percent: float) -> str:
    open_rows = int((table.frame["verdict"] == "too few cycles").sum())
    text = f"Passes: nothing is surely slower by more than {percent:g}% of a cycle"
    return f"{text}; {open_rows} rows have too few cycles to tell." if open_rows else f"{text}."
