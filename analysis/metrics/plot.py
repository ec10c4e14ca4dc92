"""Counters drawn as text: one panel with axes per unit, in braille dots, eight per character.

Counters with the same unit share a panel. A letter at the end of each line identifies it, so that no colour is needed;
on screen each also has one. The screen and the exports draw the same characters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..core import metrics, units
from ..core.text import display
from ..timeline.picture import axis
from ..timeline.window import Window
from .series import SAMPLE, Floats, Series, envelope

LETTERS = "abcdefgh"
MOST_SERIES = len(LETTERS)  # Lines in one panel.
LABEL, MARGIN = 11, 5
"""Cells left of a panel for the axis values, and right of it for the letters of its lines."""
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint16)
"""The bit of each dot in a character, by row and column (Unicode, Braille Patterns)."""
_BRAILLE, NOBODY = 0x2800, -1


class Panel(Struct, frozen=True):
    """Counters with the same unit on one axis from ``low`` to ``high``, with a value every ``step``."""

    unit: str
    series: tuple[Series, ...]
    low: float
    high: float
    step: float

    @property
    def letters(self) -> str:
        """The letter of each line; the letters of the runs if it is one counter of two runs."""
        return "AB" if [one.key.run for one in self.series] == [0, 1] else LETTERS


class Drawn(Struct, frozen=True):
    """A drawn panel: per line axis label, characters, the series of each character (``NOBODY``: none), and letters."""

    labels: tuple[str, ...]
    lines: tuple[str, ...]
    owners: npt.NDArray[np.int8]
    ends: tuple[str, ...]


def panels(series: Sequence[Series], most: int) -> tuple[Panel, ...]:
    """The counters by unit, at most ``most`` panels of ``MOST_SERIES``; those with and without times separately."""
    groups: dict[tuple[str, bool], list[Series]] = {}
    for one in series:
        groups.setdefault((one.key.unit, one.timed), []).append(one)
    result = []
    for (unit, _), members in list(groups.items())[:most]:
        few = tuple(members[:MOST_SERIES])
        result.append(Panel(unit, few, *_range(unit, few)))
    return tuple(result)


def _range(unit: str, series: Sequence[Series]) -> tuple[float, float, float]:
    """Axis range and step: round numbers around all values, from 0 if the lowest value is near it."""
    filled = [one.values for one in series if len(one.values)]
    low = min((float(values.min()) for values in filled), default=0.0)
    high = max((float(values.max()) for values in filled), default=1.0)
    if low >= 0 and (unit == "%" or low < 0.6 * high or high == 0):
        low = 0.0
    if unit == "%" and 40 < high <= 100:
        return low, 100.0, 25.0
    if high <= low:
        high = low + (abs(low) * 0.1 or 1.0)
    if not math.isfinite(2 * (high - low)):  # at the end of the number range no round numbers are left
        return low, high, high / 2 - low / 2
    step = 2.0 ** math.ceil(math.log2((high - low) / 4)) if unit == "B" else _round_up((high - low) / 4)
    return math.floor(low / step) * step, math.ceil(high / step) * step, step


def _round_up(size: float) -> float:
    """The next larger 1, 2, 2.5 or 5 times a power of ten."""
    if not size or not math.isfinite(size):
        return 1.0
    power = 10.0 ** math.floor(math.log10(size))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= size * (1 - 1e-9))


def drawn(panel: Panel, window: Window, height: int) -> Drawn:
    """The panel in ``height`` lines of ``window.columns`` characters."""
    columns = window.columns
    fine = Window(window.start, window.end, 2 * columns).edges
    bits = np.zeros((height, columns), dtype=np.uint16)
    owners = np.full((height, columns), NOBODY, dtype=np.int8)
    ends = [""] * height
    for number, one in enumerate(panel.series):
        # The dots (rows, columns) the line covers: each column's range, and the link to the column before
        course = envelope(one, fine)
        rows = 4 * height
        read = ~np.isnan(course.low)
        top, bottom = (_row(values, panel, rows) for values in (course.high, course.low))
        for at in range(1, len(top)):
            if read[at] and read[at - 1]:
                if top[at] > bottom[at - 1] + 1:
                    top[at] = bottom[at - 1] + 1
                elif bottom[at] < top[at - 1] - 1:
                    bottom[at] = top[at - 1] - 1
        heights = np.arange(rows)[:, None]
        shape = (heights >= top) & (heights <= bottom) & read
        blocks = shape.reshape(height, 4, columns, 2)  # dots as bits of characters
        cells: npt.NDArray[np.uint16] = (blocks * _DOTS[None, :, None, :]).sum(axis=(1, 3)).astype(np.uint16)
        bits |= cells
        owners[cells > 0] = number
        _letter(ends, panel.letters[number], shape)
    lines = tuple("".join(chr(_BRAILLE + code) if code else " " for code in row) for row in bits.tolist())
    return Drawn(axis_labels(panel, height), lines, owners, tuple(ends))


def _row(values: Floats, panel: Panel, rows: int) -> npt.NDArray[np.int64]:
    half = panel.high / 2 - panel.low / 2  # the whole range may be more than a number holds
    share = (np.nan_to_num(values, nan=panel.low) / 2 - panel.low / 2) / half
    return np.rint((1 - np.clip(share, 0, 1)) * (rows - 1)).astype(np.int64)


def _letter(ends: list[str], letter: str, dots: npt.NDArray[np.bool_]) -> None:
    """Puts a line's letter at the line's end, beside any other letters, or on the nearest text line with room."""
    filled = np.flatnonzero(dots.any(axis=0))
    if not len(filled):
        return
    wanted = int(np.flatnonzero(dots[:, filled[-1]]).mean()) // 4
    free = [row for row, letters in enumerate(ends) if len(letters) < MARGIN - 1]
    if free:
        ends[min(free, key=lambda row: (abs(row - wanted), row))] += letter


def axis_labels(panel: Panel, height: int) -> tuple[str, ...]:
    """Axis labels: a value at the text line nearest to each step, as far as they fit, and always at the ends."""
    steps = max(1, round((panel.high - panel.low) / panel.step))
    every = next((n for n in (1, 2, 3, 4, 5) if steps % n == 0 and (height - 1) * n >= 2 * steps), steps)
    result = [""] * height
    for at in range(0, steps + 1, every):
        row = round((height - 1) * at / steps)
        value = metrics.value_text(round(panel.high / panel.step - at) * panel.step, panel.unit)
        result[row] = display(value.replace(".0 ", " "), LABEL - 2)
    return tuple(f"{text:>{LABEL - 2}} {'┤' if text else '│'}" for text in result)


def ruler(window: Window, timed: bool) -> str:
    """The time below a panel; sample numbers if the samples have no times."""
    return axis(window) if timed else _numbers(window)


@lru_cache(maxsize=8)
def _numbers(window: Window) -> str:
    line = [" "] * window.columns
    step = max(1, int(_round_up((window.end - window.start) * 10 / SAMPLE / max(1, window.columns)))) * SAMPLE
    for number in range(-(-window.start // step) * step, window.end, step):
        label = f"╵#{number // SAMPLE}"
        at = window.column(number)
        if at + len(label) <= window.columns:
            line[at : at + len(label)] = label
    return "".join(line)


def place_text(moment: int, window: Window, timed: bool) -> str:
    """A moment as text, at the resolution of one column of the window; without times the sample number."""
    if not timed:
        return f"#{moment // SAMPLE}"
    return units.moment(moment, 10 ** max(0, int(math.log10(max(1, (window.end - window.start) // window.columns)))))


def extent(series: Sequence[Series]) -> tuple[int, int]:
    """From the first sample to just after the last of all series; only of those with times, if there are any."""
    timed = [one for one in series if one.timed] or series
    spans = [(int(one.moments[0]), int(one.moments[-1])) for one in timed if len(one.moments)]
    if not spans:
        return 0, 1
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    return first, last + 1
