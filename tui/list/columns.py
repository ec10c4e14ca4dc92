"""Layout of a list's columns: which ones are shown at a given width, and where.

Until the list is scrolled sideways, columns with the highest ``order`` are dropped first, so that what matters is shown
at 80 cells. Once it is scrolled, the pinned columns stay and the others follow from index ``first`` on. Columns with
order None are never in a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from ...analysis.contract.column import Column
from ..session.session import Choice

ELASTIC_LEAST = 12
"""An elastic column shrinks by up to a third before another column is dropped, and a picture further before a column is
cut; but not below this many cells."""

NAME_SHARE = {"name": 0.4, "tree": 0.4, "path": 0.7}
"""Share of the width reserved for the name, as far as it needs it, before other columns get theirs."""
SHARE_LEAST = 7
"""Cells of a share's number; its bar has at least as many."""
GRAPHIC = frozenset({"trend", "list", "series"})


class Placed(Struct, frozen=True):
    """A column as shown: ``index`` in the view's columns, first cell ``x``, ``width`` in cells without the gap."""

    column: Column
    index: int
    x: int
    width: int


class Layout(Struct, frozen=True):
    """The columns shown, from left to right, and whether columns on either side are hidden."""

    placed: tuple[Placed, ...]
    pinned: int = 0
    hidden_left: bool = False
    hidden_right: bool = False

    def at(self, x: int) -> Placed | None:
        """The column at that cell, the gap after a column included."""
        for placed in reversed(self.placed):
            if x >= placed.x:
                return placed
        return None


def is_text(column: Column) -> bool:
    """Whether the column is text, aligned left."""
    return column.unit in ("text", "bool")


def least(column: Column) -> int:
    """The least width of a column in cells, its header included; for a share column without most of its bar."""
    width = min(column.width, max(ELASTIC_LEAST, 2 * column.width // 3)) if column.elastic else column.width
    if column.bar in ("share", "lost"):
        width = min(width, 2 * SHARE_LEAST)
    return max(width, cell_len(column.header))


def chosen(columns: Sequence[Column], choices: Mapping[str, Choice]) -> tuple[Column, ...]:
    """The columns with the user's choices: ones chosen to be shown are never dropped, hidden ones never listed."""
    return tuple(replace(
        column, order=None if choice == "hidden" else 0, width=column.width * (2 if choice == "wide" else 1),
    ) if (choice := choices.get(column.name)) else column for column in columns)


def listed(columns: Sequence[Column]) -> list[int]:
    """The indices of the columns a list may show."""
    return [index for index, column in enumerate(columns) if column.order is not None]


def pinned(columns: Sequence[Column]) -> list[int]:
    """Indices of the columns that stay while scrolling: the pinned ones, else the first text column."""
    shown = listed(columns)
    chosen = [index for index in shown if columns[index].pinned]
    return chosen or [index for index in shown if is_text(columns[index])][:1] or shown[:1]


def arrange(
    columns: Sequence[Column], width: int, start: int, first: int | None, widest: Callable[[Column], int]
) -> Layout:
    """Place the columns in ``width`` cells; the first ``start`` cells are the gutter.

    ``first`` is the index of the first column after the pinned ones; None: not scrolled sideways. ``widest`` gives the
    cells of a text column's longest text. Spare cells go to the texts that are cut, a cell each in turn from the most
    cut one on, then to dropped columns that fit now, then to bars.
    """
    room = width - start
    shown, stay = listed(columns), pinned(columns)
    texts = {index: max(cell_len(columns[index].header), longest) for index in shown if columns[index].unit == "text"
             and (longest := widest(columns[index]))}
    needs = {index: min(least(columns[index]), texts.get(index, width)) for index in shown}
    for index in shown:
        if columns[index].elastic and (share := NAME_SHARE.get(columns[index].role)):
            needs[index] = max(needs[index], min(int(share * width), widest(columns[index])))
    wanted = sum(max(min(columns[index].width, texts.get(index, width)), needs[index]) for index in shown)
    gap = 2 if wanted + 2 * len(shown) <= room else 1
    if first is None:
        chosen = list(shown)
        while len(chosen) > 1 and _needs(needs, chosen, gap) > room:
            worst = max(chosen, key=lambda index: (columns[index].order or 0, index))
            if not columns[worst].order:
                break
            chosen.remove(worst)
        chosen = [index for index in chosen if not columns[index].order or _compared(columns, index, chosen)]
        for index in (index for index in chosen if columns[index].elastic and columns[index].unit in GRAPHIC):
            needs[index] = max(ELASTIC_LEAST, min(needs[index], needs[index] + room - _needs(needs, chosen, gap)))
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
    widths = {index: needs[index] for index in chosen}
    spare = room - _needs(needs, chosen, gap) - (len(chosen) < len(shown))  # a cell for the mark that says so
    spare = _widened(widths, spare, columns, texts)
    for index in sorted(set(shown) - set(chosen), key=lambda index: (columns[index].order or 0, index)):
        if first is None and needs[index] + gap <= spare and _compared(columns, index, [*chosen, index]):
            chosen = sorted([*chosen, index])
            widths[index] = needs[index]
            spare = _widened(widths, spare - needs[index] - gap, columns, texts)
    for index in [index for index in chosen if columns[index].bar in ("share", "lost")]:
        more = max(0, min(columns[index].width - widths[index], spare))
        widths[index] += more
        spare -= more
    placed: list[Placed] = []
    x = start
    for index in chosen:
        size = min(widths[index], width - x)
        whole = size == widths[index] or is_text(columns[index]) or columns[index].unit in GRAPHIC
        if size <= 0 or (placed and not whole):  # a number is never cut
            right = True
            break
        placed.append(Placed(columns[index], index, x, size))
        x += size + gap
    if first is None:
        return Layout(tuple(placed), 0, left, right or len(chosen) < len(shown))
    return Layout(tuple(placed), len(stay), left, right)


def _widened(widths: dict[int, int], spare: int, columns: Sequence[Column], texts: Mapping[int, int]) -> int:
    """Give spare cells to what is cut, one each in turn, the most cut first; the cells that are left."""
    lacks = {}
    for index, width in widths.items():
        if index in texts or columns[index].elastic:
            lacks[index] = texts.get(index, columns[index].width) - width
    while spare > 0 and (cut := sorted((index for index in lacks if lacks[index] > 0), key=lambda at: -lacks[at])):
        for index in cut[:spare]:
            widths[index] += 1
            lacks[index] -= 1
        spare -= min(spare, len(cut))
    return spare


def _compared(columns: Sequence[Column], index: int, chosen: Sequence[int]) -> bool:
    """Whether a column of one run is beside that of the other run or their difference, if the view has either. True
    for bars, which compare with the bars above and below."""
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
    """The value of ``first`` that brings column ``index`` into sight; ``first`` is the current one.

    ``layout`` returns the layout for a given ``first``. None is the list before any sideways scroll.
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
