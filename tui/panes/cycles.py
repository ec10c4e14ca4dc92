"""Cycles: a summary, the cycle times in recorded order as a bar strip, then the list."""

from __future__ import annotations

from textual.content import Content

from ..list.frame import Frame, boxed
from ..widgets.drawing import joined
from .cycles_strip import Bar, legend, strip
from .picture import MOST_HEIGHT
from .table import TablePane

LOW, TALL, TALLEST = 5, 11, 20
"""Lines of the strip: on a low terminal, on a tall one, and at most, where the list leaves room."""


class CyclesPane(TablePane):
    """The cycles view with its strip."""

    def picture(self, width: int) -> Content:
        """The summary, and below it the framed strip."""
        summary, height = super().picture(width), self.size.height
        if self.shown is None or self.message:
            return summary
        lines, bars = len(summary.plain.splitlines()) + 2, self._bars()
        least = TALL if height > 28 else LOW
        if max(map(len, bars)) < 2 or lines + least > MOST_HEIGHT * height:
            return summary
        room = min(TALLEST, int(MOST_HEIGHT * height) - lines, height - self.list_lines() - lines)
        drawn = strip(bars, width - 4, max(least, room))
        if not drawn:
            return summary
        return joined([summary, *boxed(drawn, Frame("In order", legend=legend(bars)), width)])

    def drawn_text(self) -> tuple[str, ...]:
        """The strip as text, for an export."""
        return tuple(line.plain.rstrip() for line in strip(self._bars(), 96, TALL)) if self.shown else ()

    def _bars(self) -> list[list[Bar]]:
        """The cycles of each run in recorded order, whatever the list's sort and filter."""
        assert self.shown is not None
        rows = self.shown.base.rows
        number = "cycle"
        if "rank" in rows.schema and rows.column("cycle").n_unique() == 1 and rows.column("rank").null_count() == 0:
            number = "rank"  # one cycle, on several ranks
        names = [(number, "dur_ns", "busy_ns", "outlier", "complete", "step_ns")] if "dur_ns" in rows.schema else [
            (f"cycle_{side}", f"{side}_ns", f"busy_{side}_ns", f"outlier_{side}", f"complete_{side}", f"{side}_ns")
            for side in "ab"]
        sides = []
        for columns in names:
            values = [values for values in rows.window(0, rows.height, columns) if values[1] is not None]
            if len(names) > 1:  # rows of a pair are ranked by time
                values.sort(key=lambda one: one[0] or 0)
            sides.append([Bar(cycle, max(step or ns, busy or 0), busy if whole else None, bool(outlier))
                          for cycle, ns, busy, outlier, whole, step in values])
        return sides
