"""Collectives: what waits for whom, the matrix of each call on each rank, and the list by kind."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.core.text import display
from ..list.frame import Frame, boxed, dim, widest
from ..session.themes import content_style
from ..widgets.drawing import QUIET, joined
from .table import TablePane

LEAST_HEIGHT, LEAST_WIDTH = 18, 72
"""Lines and cells of the pane from which the matrix is drawn."""
_LIST = 6
"""Lines that stay for the list: its frame, its heading and three rows."""
_CELLS, _LONG, _FIGURE, _LEAST_BAR, _MOST_BAR = 6, 10, 9, 12, 40
"""Cells of a call in the matrix, of one with its whole name, of a sum, and of the bar beside them."""
_SHORT = {"allreduce": ("AR", "AllReduce"), "allgather": ("AG", "AllGather"), "reducescatter": ("RS", "RedScatter"),
          "alltoall": ("A2A", "AllToAll"), "broadcast": ("BC", "Broadcast")}
"""The usual abbreviations of the kinds and their names; other kinds are cut."""
_UNITS = ((1e6, "ms"), (1e3, "µs"), (1, "ns"))


class CollectivesPane(TablePane):
    """The collectives view with the matrix of its calls."""

    draws_shares = False

    def picture(self, width: int) -> Content:
        """The answer, and below it the matrix in a frame of its own."""
        summary = super().picture(width)
        if self.shown is None or self.message or self.size.height < LEAST_HEIGHT or width < LEAST_WIDTH:
            return summary
        calls = self.shown.base.facts.get("calls")
        room = self.size.height * 3 // 4 - len(summary.plain.splitlines()) - 2
        room = min(room, self.size.height - _LIST - len(summary.plain.splitlines()) - 2)
        if not calls or room < 5:
            return summary
        lines, unit, left = matrix(calls, width - 4, room)
        kinds = list(dict.fromkeys(one["kind"] for one in calls["calls"]))
        named = [dim(" ".join(_SHORT[kind])) for kind in kinds if kind in _SHORT]
        frame = Frame(f"Each call on each rank, {unit}", dim("the shortest is the transfer, the rest is waiting"),
                      legend=widest(width - 40, [*named, dim("C waits for the last rank, c transfer")], named),
                      position=dim(left))
        return joined([summary, *boxed(lines, frame, width)])

    def drawn_text(self) -> tuple[str, ...]:
        """The matrix as text, for an export."""
        calls = self.shown.base.facts.get("calls") if self.shown is not None and not self.message else None
        lines = matrix(calls, 116, 40)[0] if calls else []
        return (*super().drawn_text(), *(line.plain.rstrip() for line in lines))


def matrix(calls: dict[str, Any], width: int, room: int) -> tuple[list[Content], str, str]:
    """Ranks × calls in at most ``room`` lines: a heading, a line per rank, and below them the shortest time and who
    came last; the calls with the longest waits, in order of time. With it the unit, and what is left out.

    Beside the calls each rank's sum over all of them, its step, and a bar of it: waiting, then transfer."""
    rows, every = calls["rows"], calls["calls"]
    if len(rows) > room - 3:  # those with most time in them, and so the longest waits
        keep = sorted(rows, key=lambda one: -one["comm_ns"])[: max(1, room - 3)]
        rows = [one for one in rows if one in keep]
    steps = any(one["step_ns"] for one in rows)
    names = [display(one["name"], 18) for one in rows]
    head, sums = max(map(len, ("shortest", *names))) + 1, _FIGURE * (2 if steps else 1)
    last = [display(one["last"] or units.MISSING, 8).removeprefix("rank ") for one in every]
    wide = len(every) * _LONG + head + sums + _LEAST_BAR <= width
    each = max(_LONG if wide else _CELLS, *(len(one) + 1 for one in last))
    count = max(1, min(len(every), (width - head - sums) // each))
    chosen = sorted(sorted(range(len(every)), key=lambda at: -every[at]["wait_ns"])[:count])
    divisor, unit = next((one for one in _UNITS if max(row["comm_ns"] for row in rows) >= one[0]), _UNITS[-1])

    def figure(ns: float | None) -> str:
        return units.MISSING if ns is None else f"{ns / divisor:.{2 if divisor == 1e6 else 1}f}"

    def line(name: str, parts: list[str], sums: list[str]) -> str:
        tail = "".join(f"{one:>{_FIGURE}}" for one in sums)
        return f"{name:<{head}}" + "".join(f"{part:>{each}}" for part in parts) + tail

    kinds = [_SHORT.get(every[at]["kind"], (display(every[at]["kind"], each - 1),) * 2)[wide] for at in chosen]
    bar = min(_MOST_BAR, width - head - sums - count * each - 2)
    most = max(one["step_ns"] or one["comm_ns"] for one in rows) or 1
    result = [Content.styled(line("", kinds, ["in all", "its step"][: 1 + steps]), QUIET)]
    for name, one in zip(names, rows, strict=True):
        drawn = Content(line(name, [figure(one["dur_ns"][at]) for at in chosen],
                             [figure(one["comm_ns"]), figure(one["step_ns"])][: 1 + steps]))
        if bar >= _LEAST_BAR:
            waits = round(one["wait_ns"] / most * bar)
            letters = "C" * waits + "c" * (round(one["comm_ns"] / most * bar) - waits)
            drawn = Content.assemble(drawn, "  ", (letters, content_style("collective")))
        result.append(drawn)
    result.append(Content.styled(line("shortest", [figure(every[at]["shortest_ns"]) for at in chosen], []), QUIET))
    title = "last rank" if head > 9 and any((one["last"] or "").startswith("rank ") for one in every) else "last"
    result.append(Content.styled(line(title, [last[at] for at in chosen], []), QUIET))
    left = f"{count} of {units.counted(calls['count'], 'call', 'calls')}"
    if count < calls["count"]:
        left += " by longest wait"
    if len(rows) < calls["ranks"]:
        left += f" · {len(rows)} of {calls['ranks']} ranks"
    return result, unit, left
