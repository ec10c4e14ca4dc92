"""Rows in a tree (operators, sampled functions) that expand and collapse.

A tree has the columns ``path parent depth name``; in a table each row follows its parent, and ``under`` counts its
descendants, which follow it.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection

import polars as pl
from msgspec.structs import replace

from ..core.names.display_names import display_names
from .rows import Rows
from .table import Table

DEEPEST = 400  # Levels kept apart; deeper rows count in their ancestor at this level.
PATH = " › "  # Separates the names of a path.

def in_order(tree: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """The rows of a tree (``path parent depth``) with each after its parent, siblings by size, then name. ``by`` names
    the size columns, most important first. Adds ``under``, the number of descendants."""
    sizes = [pl.col(key).abs() for key in by]
    ranked = tree.sort(*sizes, "name", "path", descending=[*[True] * len(by), False, False], nulls_last=True)
    number = {path: at for at, path in enumerate(ranked["path"].to_list())}
    children: dict[int, list[int]] = {}
    for at, above in enumerate(ranked["parent"].to_list()):
        children.setdefault(-1 if above is None else number[above], []).append(at)
    order: list[int] = []
    under = [0] * ranked.height
    stack = children.get(-1, [])[::-1]
    leaving: list[tuple[int, int]] = []
    while stack:
        at = stack.pop()
        if at < 0:
            row, entered = leaving.pop()
            under[row] = len(order) - entered
            continue
        order.append(at)
        if below := children.get(at):
            leaving.append((at, len(order)))
            stack.append(-1)
            stack += below[::-1]
    return ranked.with_columns(pl.Series("under", under, dtype=pl.Int64))[order]


OPEN, CLOSED, LEAF = "▾ ", "▸ ", "  "
INDENTED = 24  # Levels that are indented; deeper rows keep that indentation.
_SIZES = ("device_total_ns", "device_total_ns_delta", "host_total_ns", "host_total_ns_delta", "share", "share_delta")
SHOWN_AT_FIRST = 30  # Once this many rows are visible, no more are expanded automatically.


def texts_of(tree: pl.DataFrame) -> pl.Series:
    """Each row's name, indented by depth, no two names alike; ``tree`` has ``name`` and ``depth``."""
    shown = display_names(tree["name"].unique().sort(), None)
    texts = [" " * _indent(depth) + shown[name] for name, depth in tree.select("name", "depth").rows()]
    return pl.Series("tree", texts, dtype=pl.String)


def _indent(depth: int) -> int:
    return 2 * min(depth, INDENTED)


def is_tree(table: Table) -> bool:
    """Whether the rows form a tree in their original order, unsorted and unfiltered."""
    return table.columns[0].role == "tree" and table.sorted_by is None and table.filter is None


def opened_at_first(table: Table) -> set[int]:
    """Rows to expand initially: the largest visible one each time, until ``SHOWN_AT_FIRST`` rows are visible."""
    sizes = [name for name in table.frame.columns if name in _SIZES]
    frame = table.frame.select("depth", "under", *sizes)
    depth, under = frame["depth"].to_list(), frame["under"].to_list()
    size = [tuple(-abs(one or 0) for one in row) for row in frame.select(sizes).rows()]
    opened: set[int] = set()
    seen = [at for at, one in enumerate(depth) if one == 0]
    count, closed = len(seen), [(size[at], at) for at in seen if under[at]]
    heapq.heapify(closed)
    while closed and count < SHOWN_AT_FIRST:
        _, at = heapq.heappop(closed)
        below = [one for one in range(at + 1, at + under[at] + 1) if depth[one] == depth[at] + 1]
        opened.add(at)
        count += len(below)
        for one in below:
            if under[one]:
                heapq.heappush(closed, (size[one], one))
    return opened


def folded(table: Table, opened: Collection[int]) -> Table:
    """The table without the descendants of rows that are not in ``opened`` (row numbers as built)."""
    frame = table.frame
    shown, signs, at = [], [LEAF] * frame.height, 0
    under = frame["under"].to_list()
    while at < frame.height:
        shown.append(at)
        if under[at]:
            signs[at] = OPEN if at in opened else CLOSED
        at += 1 if not under[at] or at in opened else under[at] + 1
    texts = [text[: _indent(depth)] + sign + text[_indent(depth) :] for (text, depth), sign in zip(
        frame.select("tree", "depth").rows(), signs, strict=True)]
    rows = Rows(frame.with_columns(pl.Series("tree", texts, dtype=pl.String)), named=table.rows.named)
    order = None if len(shown) == frame.height else pl.Series(shown, dtype=pl.UInt32)
    return replace(table, rows=rows, row_order=order, kept=None, passed=None, answer=table.answer or table.rows)


def row_above(table: Table, row: int) -> int | None:
    """The parent of a row; None at the root."""
    depth = table.frame["depth"].to_list()
    return next((at for at in range(row - 1, -1, -1) if depth[at] == depth[row] - 1), None)
