"""Groups of diff rows for the screen: rows with the same cause in one group, unchanged rows in another.

Exports and programs get the plain rows. A group has a head row with the totals of the rows below it; ``parts`` of the
head counts them (``table.parts`` opens and closes the group), its ``kind`` is ``cause`` or ``unchanged``.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec.structs import replace

from ..core import units
from ..core.metrics import change, title
from ..table.parts import children
from ..table.rows import Rows
from ..table.table import Table

CAUSE, UNCHANGED = "cause", "unchanged"
_UNDECIDED = ("~", "too few cycles")


def grouped(table: Table) -> Table:
    """The table with its groups, the cause open and the unchanged closed; the table itself if there are none."""
    if table.sorted_by is not None or table.filter is not None or "parts" not in table.rows.schema:
        return table
    frame = table.rows.gather(None)
    parts = frame["parts"].fill_null(0).to_list()
    blocks: list[tuple[int, int]] = []  # a row with its parts: first row, number of rows
    while (at := sum(blocks[-1]) if blocks else 0) < frame.height:
        blocks.append((at, 1 + parts[at]))
    resource = (table.facts.get("cause") or {}).get("resource")
    caused, same, rest = [], [], []
    for first, count in blocks:
        row = frame.row(first, named=True)
        if row["verdict"] in _UNDECIDED and count == 1:  # operators with swapped kernels stay visible
            same.append((first, count))
        elif resource and row["verdict"] == "slower" and (row["metric"], row["device"]) == (
            resource["metric"], resource["device"]
        ):
            caused.append((first, count))
        else:
            rest.append((first, count))
    result: list[pl.DataFrame] = []
    for members, head in ((caused, _cause(frame, caused, resource)), (rest, None), (same, _unchanged(frame, same))):
        if head is not None and len(members) > 1:
            result.append(pl.DataFrame([head | {"parts": sum(count for _, count in members)}], schema=frame.schema))
        result += [frame[first : first + count] for first, count in members]
    if len(result) == len(blocks):
        return table
    whole = pl.concat(result)
    counts = whole["parts"].fill_null(0).to_list()
    shown, at = [], 0
    while at < whole.height:
        shown.append(at)
        if whole["kind"][at] == CAUSE:
            shown += children(counts, at)
        at += 1 + counts[at]
    order = pl.Series(shown, dtype=pl.UInt32)
    return replace(table, rows=Rows(whole, named=table.rows.named), row_order=order, kept=order, passed=None)


def heads(table: Table) -> int:
    """The number of head rows in a grouped table; exports do not have them."""
    return int(table.rows.column("kind").cast(pl.String).is_in([CAUSE, UNCHANGED]).sum())


def _sums(frame: pl.DataFrame, members: list[tuple[int, int]]) -> dict[str, Any]:
    rows = frame[[first for first, _ in members]]
    return {name: rows[name].sum() for name in ("a_ms", "b_ms", "delta_ms", "lost") if rows[name].count()}


def _cause(
    frame: pl.DataFrame, members: list[tuple[int, int]], resource: dict[str, Any] | None
) -> dict[str, Any] | None:
    if not members or resource is None:
        return None
    text = (f"{title(resource['metric'])} {resource['device']} "
            f"{change(resource['mu_a'], resource['mu_b'], resource['unit'])}")
    paths = {frame["path"][first] for first, _ in members}
    what = "functions" if resource["device"] == "Host" else "kernels"
    return _sums(frame, members) | {
        "function": f"{text} · {units.count(len(members))} {what}", "verdict": "slower", "kind": CAUSE,
        "path": paths.pop() if len(paths) == 1 else None, "device": resource["device"],
    }


def _unchanged(frame: pl.DataFrame, members: list[tuple[int, int]]) -> dict[str, Any] | None:
    if not members:
        return None
    few = sum(frame["verdict"][first] == _UNDECIDED[1] for first, _ in members)
    text = "unchanged · within the noise floor" if not few else "not flagged · within the noise floor or too few cycles"
    return {"function": f"{units.count(len(members))} {text}", "verdict": "~", "kind": UNCHANGED}
