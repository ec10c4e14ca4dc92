"""Metadata in every export: sources, filter, order and scope, and warnings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..table import Table


def notes(table: Table) -> list[str]:
    """The view's notes and the sources' warnings, no duplicates; one of a single run is prefixed with its label."""
    warnings = list(table.notes)
    for source in table.sources:
        for warning in source.warnings:
            everywhere = all(warning in other.warnings for other in table.sources)
            warnings.append(warning if everywhere else f"{source.label}: {warning}")
    return list(dict.fromkeys(warnings))


_BUSY = re.compile(r" busy [^;]* of the time( in steps)?(\.$| in A, [\d.]+% in B\.$)")


def repeats(sentence: str, summary: Sequence[str]) -> bool:
    """Whether the summary already says it: as one of its lines, or as the busy time at the end of its lines."""
    return sentence in summary or bool(_BUSY.search(sentence) and any(" busy " in line for line in summary))


def findings(table: Table) -> list[str]:
    """The view's findings that its summary does not state, as sentences."""
    return [str(line) for line in table.facts.get("findings") or () if not repeats(str(line), table.summary)]


def state(table: Table) -> dict[str, Any]:
    """Filter, order and scope; empty entries are omitted."""
    result: dict[str, Any] = {}
    if table.filter is not None:
        result["filter"] = ("!" if table.filter.invert else "") + table.filter.text
    if table.sorted_by is not None:
        result["sort"] = table.sorted_by
        result["descending"] = table.descending
    if table.scope:
        result["scope"] = table.scope
    if table.per:
        result["per"] = table.per
    if table.same:
        result["same"] = dict(table.same)
    result["shown"] = len(table)
    return result


def state_line(table: Table) -> str:
    """The state as one line: ``sorted by total ↓ · filter gemm · 20 of 145 rows``."""
    parts: list[str] = []
    if table.sorted_by is not None:
        header = next((c.header for c in table.columns if c.name == table.sorted_by), table.sorted_by)
        parts.append(f"sorted by {header} {'↓' if table.descending else '↑'}")
    if table.filter is not None:
        parts.append(f"filter {'!' if table.filter.invert else ''}{table.filter.text}")
    if table.scope:
        parts.append(table.scope)
    if table.per:
        parts.append(f"per {table.per}")
    rows = "row" if table.total_rows == 1 else "rows"
    shown = "" if len(table) == table.total_rows else f"{len(table):,} of "
    if table.same:
        parts.append(table.same_line)
    return " · ".join([*parts, f"{shown}{table.total_rows:,} {rows}"])
