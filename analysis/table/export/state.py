"""Metadata in every export: sources, filter, order and scope, and warnings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...core import units
from ..table import Table

LEAST = 0.005
"""Parts of a step under this share are summed up in one line."""


def notes(table: Table) -> list[str]:
    """The view's notes and the sources' warnings, no duplicates; one of a single run is prefixed with its label."""
    warnings = list(table.notes)
    for source in table.sources:
        for warning in source.warnings:
            everywhere = all(warning in other.warnings for other in table.sources)
            warnings.append(warning if everywhere else f"{source.label}: {warning}")
    return list(dict.fromkeys(warnings))


_BUSY = re.compile(r" busy [\d.]+% of (the time( in steps)?|an? \w+)(, [^,]+ [\d.]+%(, the others between)?)?"
                   r"(\.$| in A, [\d.]+% in B\.$)")


def repeats(sentence: str, summary: Sequence[str]) -> bool:
    """Whether the summary already says it: as one of its lines, or as the busy time at the end of its lines."""
    return sentence in summary or bool(_BUSY.search(sentence) and any(" busy " in line for line in summary))


def findings(table: Table) -> list[str]:
    """The view's findings that its summary does not state, as sentences."""
    return [str(line) for line in table.facts.get("findings") or () if not repeats(str(line), table.summary)]


def base_line(table: Table) -> str:
    """' · shares are of one step, 177.6 ms' where a column holds shares of the fact ``base``; else ''."""
    shares = any(column.unit == "fraction" and column.of == "base" for column in table.columns)
    if not shares and not table.facts.get("account"):  # the fact needs the run's cycles: 0.5 s of a trace of 500 MB
        return ""
    base = table.all_facts.get("base")
    return f" · {base['label']}" if base else ""


def answer_lines(table: Table) -> list[str]:
    """The answer in lines with their marks (the fact ``lines``), else the view's findings; what the summary states is
    left out. Below them the account of a step, one line per part."""
    answer = table.facts.get("lines") if table.view == "overview" else None  # elsewhere the summary says the same
    if not answer:
        return [f"· {line}" for line in findings(table)]
    lines = [f"{one['mark']} {one['long']}" for one in answer if not repeats(str(one["long"]), table.summary)]
    account = table.facts.get("account")
    return [*lines, *account_lines(account)] if account and "of_ns" in account else lines


def account_lines(account: dict[str, Any]) -> list[str]:
    """The parts of a step as aligned text: letter, name, time, share and a bar."""
    rows = [one for one in account["rows"] if one.get("share") is not None and one["share"] >= LEAST]
    wide = max((len(one["name"]) for one in rows), default=0)
    most = max((one["share"] for one in rows), default=1.0) or 1.0
    smaller = account["rows"][len(rows):]
    lines = [
        f"{one['letter']} {one['name']:<{wide}}  {units.duration(one['ns']):>9}  "
        f"{units.percent(100 * one['share']):>6}  {'█' * round(20 * one['share'] / most)}".rstrip() for one in rows
    ]
    if smaller:
        rest = sum(one["ns"] for one in smaller)
        lines.append(f"  {units.counted(len(smaller), 'smaller part', 'smaller parts')}, {units.duration(rest)}")
    return lines


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
