"""Which columns of a view a list of a given width shows, and where.

Two ways to fit: as long as nothing was scrolled sideways the columns with the highest ``order`` go first, so that what
matters is there at 80 cells; scrolled, pinned columns stay and the others follow one another from ``first``. Columns
with order None are never in a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from ...analysis.contract.column import Column
from ..session.session import Choice

ELASTIC_LEAST = 12
"""An elastic column gives up a third of its width before another column goes, but is not narrower than this."""

NAME_SHARE = 0.4
"""Of the width, what the name gets before other columns do, as far as it needs it."""
SHARE_LEAST = 7
"""Cells of the number of a share; its bar has as many at least."""
GRAPHIC = frozenset({"trend", "list", "series"})


class Placed(Struct, frozen=True):
    """A column as shown: ``index`` in the view's columns, first cell ``x``, ``width`` in cells without the gap."""

    column: Column
    index: int
    x: int
    width: int


class Layout(Struct, frozen=True):
    """The columns shown from left to right, and whether some are out of sight."""

    placed: tuple[Placed, ...]
    pinned: int = 0
    hidden_left: bool = False
    hidden_right: bool = False

    def at(self, x: int) -> Placed | None:
        """The column whose cells or gap hold that cell."""
        for placed in reversed(self.placed):
            if x >= placed.x:
                return placed
        return None


def is_text(column: Column) -> bool:
    """Whether the column reads as words, aligned left."""
    return column.unit in ("text", "bool")


def least(column: Column) -> int:
    """The fewest cells the column can do with: its width, or its header's; of a share the number without its bar."""
    width = min(column.width, max(ELASTIC_LEAST, 2 * column.width // 3)) if column.elastic else column.width
    if column.bar in ("share", "lost"):
        width = min(width, 2 * SHARE_LEAST)
    return max(width, cell_len(column.header))


def chosen(columns: Sequence[Column], choices: Mapping[str, Choice]) -> tuple[Column, ...]:
    """The columns as the user wants them: what was chosen never gives way, what was hidden is in no list."""
    return tuple(replace(
        column, order=None if choice == "hidden" else 0, width=column.width * (2 if choice == "wide" else 1),
    ) if (choice := choices.get(column.name)) else column for column in columns)


def listed(columns: Sequence[Column]) -> list[int]:
    """The indices of the columns a list may show."""
    return [index for index, column in enumerate(columns) if column.order is not None]


def pinned(columns: Sequence[Column]) -> list[int]:
    """The columns that stay while scrolling: the pinned ones, or the first text column where none is."""
    shown = listed(columns)
    chosen = [index for index in shown if columns[index].pinned]
    return chosen or [index for index in shown if is_text(columns[index])][:1] or shown[:1]


def arrange(
    columns: Sequence[Column], width: int, start: int, first: int | None, widest: Callable[[Column], int]
) -> Layout:
    """Place the columns in ``width`` cells of which the first ``start`` are the gutter.

    ``first`` is the index of the first column after the pinned ones, None where nothing was scrolled. ``widest`` tells
    how many cells the longest text of an elastic column takes, so that it does not push the numbers away from it.
    """
    room = width - start
    shown, stay = listed(columns), pinned(columns)
    needs = {index: least(columns[index]) for index in shown}
    for index in shown:
        if columns[index].elastic and columns[index].role in ("name", "tree"):
            needs[index] = max(needs[index], min(int(NAME_SHARE * width), widest(columns[index])))
    wanted = sum(max(columns[index].width, needs[index]) for index in shown)
    gap = 2 if wanted + 2 * len(shown) <= room else 1
    if first is None:
        chosen = list(shown)
        while len(chosen) > 1 and _needs(needs, chosen, gap) > room:
            worst = max(chosen, key=lambda index: (columns[index].order or 0, index))
            if not columns[worst].order:
                break
            chosen.remove(worst)
        chosen = [index for index in chosen if not columns[index].order or _compared(columns, index, chosen)]
        left = right = False
    else:
        rest = [index for index in shown if index not in stay and index >= first]
        chosen = list(stay)
        for index in rest:
            if _needs(needs, [*chosen, index], gap) > room and len(chosen) > len(stay):
                break
            chosen.append(index)
        left = any(index not in stay and index < first for index in shown)
        right = rest[-1:] != chosen[-1:] and bool(rest)
    spare = room - _needs(needs, chosen, gap)
    widths = {index: needs[index] for index in chosen}
    for count, index in enumerate(elastic := [index for index in chosen if columns[index].elastic]):
        lacks = max(columns[index].width, widest(columns[index])) - widths[index]
        more = max(0, min(lacks, spare // (len(elastic) - count)))
        widths[index] += more
        spare -= more
    for index in [index for index in chosen if columns[index].bar in ("share", "lost")]:
        more = max(0, min(columns[index].width - widths[index], spare))
        widths[index] += more
        spare -= more
    placed: list[Placed] = []
    x = start
    for index in chosen:
        size = min(widths[index], width - x)
        whole = size == widths[index] or is_text(columns[index]) or columns[index].unit in GRAPHIC
        if size <= 0 or (placed and not whole):  # of a number nothing may be missing
            right = True
            break
        placed.append(Placed(columns[index], index, x, size))
        x += size + gap
    if first is None:
        return Layout(tuple(placed), 0, left, right or len(chosen) < len(shown))
    return Layout(tuple(placed), len(stay), left, right)


def _compared(columns: Sequence[Column], index: int, chosen: Sequence[int]) -> bool:
    """Whether the value of one run has beside it that of the other, or the difference, where the view has one. A bar
    is compared with those above and below it."""
    one = columns[index]
    if one.side not in ("a", "b") or one.bar:
        return True
    others = {f"{one.name.removesuffix(one.side)}{end}" for end in ("a", "b", "delta")} - {one.name}
    there = {columns[at].name for at in chosen}
    return bool(others & there) or not any(column.name in others for column in columns)


def _needs(needs: dict[int, int], chosen: Sequence[int], gap: int) -> int:
    return sum(needs[index] for index in chosen) + gap * max(0, len(chosen) - 1)


def scrolled(
    columns: Sequence[Column], index: int, first: int | None, layout: Callable[[int | None], Layout]
) -> int | None:
    """The first column after the pinned ones with which that column is in sight; ``first`` is the one now.

    ``layout`` gives the places of the columns for such a first one. None is the list before any sideways scroll.
    """
    stay = pinned(columns)
    if index in stay:
        return None
    if any(placed.index == index for placed in layout(first).placed):
        return first
    rest = [place for place in listed(columns) if place not in stay]
    if first is not None and index < first:
        return index
    for wanted in rest[: rest.index(index) + 1]:
        if any(placed.index == index for placed in layout(wanted).placed):
            return wanted
    return index
