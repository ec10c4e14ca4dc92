"""Memory: what holds the device's memory over the recording, as letters of the largest places, above their list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.core.text import cut, display
from ..list.frame import Frame, Pieces, dim, pieces_of
from ..session.themes import content_style
from ..widgets.drawing import QUIET
from ..widgets.time_axis import axis_line
from .table import TablePane

LEAST_HEIGHT, MOST_LINES = 18, 9
"""Lines of the pane from which the chart is drawn, and the most it takes."""
PLACES = (("b", "faint"), ("m", "gemm"), ("v", "convolution"), ("g", "attention"))
"""Letter and colour of the largest places, in the order of the list; the rest is ``a``."""
REST = ("a", "copy")
_EIGHTHS = "▁▂▃▄▅▆▇"


class MemoryPane(TablePane):
    """The memory view with the bytes held over time."""

    def _places(self) -> list[dict[str, Any]]:
        """The rows of the device with the highest peak that have a course; none of two runs."""
        if self.shown is None or "a" in self.shown.base.facts:
            return []
        base = self.shown.base
        names = ["device", "rank", "frame", "bytes", "held"]
        rows = [dict(zip(names, row, strict=True)) for row in base.window(0, len(base), names)]
        if not rows:
            return []
        first = rows[0]["device"], rows[0]["rank"]
        return [row for row in rows if (row["device"], row["rank"]) == first and row["held"]]

    def evidence(self, width: int) -> list[Content]:
        """Bytes held over time: one column of letters per part of the recording."""
        places = self._places()
        if not places or self.size.height < LEAST_HEIGHT:
            return []
        top = len(PLACES)
        layers = [row["held"] for row in places[:top]]
        if rest := places[top:]:
            layers.append([sum(values) for values in zip(*(row["held"] for row in rest), strict=True)])
        until = next((one.get("until_ns") for one in self._devices()
                      if (one["device"], one["rank"]) == (places[0]["device"], places[0]["rank"])), None)
        return chart(layers, min(MOST_LINES, self.size.height // 4), width, until)

    def answer_frame(self) -> Frame:
        """What 100% is, and the legend of the letters."""
        places = self._places()
        peak = max((one.get("peak_bytes") or 0 for one in self._devices()), default=0)
        legend: list[Pieces] = []
        if self.size.height >= LEAST_HEIGHT:
            most = 28 if self.size.width >= 100 else 18
            for (letter, role), row in zip(PLACES, places, strict=False):
                legend.append(((letter, role), (f" {cut(place(row['frame']), most)}", "dim")))
            if len(places) > len(PLACES):
                legend.append(((REST[0], REST[1]), (f" {len(places) - len(PLACES)} more", "dim")))
        right = dim(f"shares are of the peak, {units.size(peak)}") if len(self._devices()) == 1 else dim(
            "shares are of each device's peak")
        return Frame(self.entry.title, right=right, legend=pieces_of(legend))

    def _devices(self) -> list[dict[str, Any]]:
        facts = self.shown.base.facts if self.shown is not None else {}
        return list(facts.get("devices") or [])


def place(frame: str | None) -> str:
    """A place without its folders: 'optimizers.py:82 step'."""
    return "not recorded" if frame is None else display(frame.rpartition("/")[2])


def chart(
    layers: Sequence[Sequence[int]], height: int, width: int, until_ns: int | None = None
) -> list[Content]:
    """Series of bytes stacked from below, each a letter on its colour; the scale to the left, the time below."""
    count = len(layers[0])
    sums = [sum(layer[at] for layer in layers) for at in range(count)]
    most = max(sums) or 1
    label = max(len(units.size(most)), 8) + 1
    cells = [at * count // max(1, width - label) for at in range(width - label)]
    styles = [*PLACES[: len(layers)], REST][: len(layers)]
    result = []
    for line in range(height, 0, -1):
        floor = (line - 1) * most / height
        axis = units.size(line * most / height) if line in (height, (height + 1) // 2) else ""
        parts: list[tuple[str, str]] = [(f"{axis:>{label - 1}} ", QUIET)]
        for at in cells:
            below = 0.0
            drawn = (" ", "")
            for layer, (letter, role) in zip(layers, styles, strict=False):
                if below <= floor + most / height / 2 < below + layer[at]:
                    drawn = (letter, f"reverse {content_style(role)}")
                below += layer[at]
            if drawn[0] == " " and floor < sums[at]:
                filled = int(8 * (sums[at] - floor) * height / most)
                drawn = (_EIGHTHS[min(6, filled - 1)], content_style(styles[-1][1])) if filled else drawn
            parts.append(drawn)
        result.append(Content.assemble(*parts))
    axis = axis_line(until_ns, width - label, label).plain[label:] if until_ns else ""
    return [*result, Content.styled(f"{'0':>{label - 1}} {axis}", QUIET)]
