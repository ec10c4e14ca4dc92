"""Numbers → text: the only place that decides how values are formatted.

Two forms: ``short`` for lists on a screen (three significant figures, unit that fits the size, aligned at the unit) and
``exact`` for exports that a person reads. Machine formats carry raw numbers and never come here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

from ..contract.column import Column

_TIMES = ((1e9, "s "), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_times: tuple[tuple[float, str], ...] = _TIMES
MISSING = "–"  # Shown where nothing was measured: never 0.
NOTHING = (MISSING, f"{MISSING} → {MISSING}", "")  # Cell texts that say nothing: a column of these can be left out.


def duration(ns: float, signed: bool = False) -> str:
    """Nanoseconds in the unit that fits: 26.50 ms, 58.1 µs, 749 ns, 1.00 s."""
    factor, unit = _that_fits(round(ns) if abs(ns) < 1e3 else ns, _times, 2e4)
    return f"{_figures(ns / factor, signed, whole=factor == 1.0)} {unit}".rstrip()


def _that_fits(value: float, units: Sequence[tuple[float, str]], digits: float) -> tuple[float, str]:
    """The largest unit that leaves at least 1 after rounding: 999.97 µs is 1.00 ms, not 1,000.0 µs."""
    return next((pair for pair in units if abs(value) >= pair[0] * (1 - 1 / digits)), units[-1])


def span_text(start: int, end: int) -> str:
    """A time range (ns) in one unit, with no more digits than its length needs: '120.0–140.0 ms', '−5 to 10 s'."""
    scale, unit = next((pair for pair in _TIMES if max(abs(start), abs(end)) >= pair[0]), _TIMES[-1])
    places = 0 if scale == 1 else max(0, len(str(int(scale * 20) // max(1, end - start))) - 1)
    first, last = (f"{round(at / scale, places) + 0.0:,.{places}f}".replace("-", "−") for at in (start, end))
    return f"{first}{' to ' if first.startswith('−') else '–'}{last} {unit.rstrip()}"


def part_of(ns: float, whole_ns: float) -> str:
    """Part of a longer time, with the unit once if both share it: 6.66 of 14.52 s, 382.0 ms of 1.20 s."""
    part, whole = duration(ns), duration(whole_ns)
    return f"{part.removesuffix(whole[whole.rfind(' '):])} of {whole}" if " " in whole else f"{part} of {whole}"


_NANOSECONDS = {"": 0, "ns": 0, "us": 3, "µs": 3, "ms": 6, "s": 9}
_MOMENT = re.compile(r"([0-9]{1,19}(?:_[0-9]+)*(?:\.[0-9]{1,18})?)\s*(ns|us|µs|ms|s|)")


def nanoseconds(text: str) -> int:
    """Typed time such as '1500000', '1.5ms' or '2s' → ns. Raises ValueError."""
    read = _MOMENT.fullmatch(text.strip())
    if read is None:
        raise ValueError(text)
    value = Decimal(read[1]).scaleb(_NANOSECONDS[read[2]])
    if value >= 1 << 63:
        raise ValueError(text)
    return int(value)


def moment(ns: float, resolution: int) -> str:
    """A time since the start of the trace, to a resolution in ns: 1.004231 s, 812.004 ms."""
    factor, unit = next((pair for pair in _times if abs(ns) >= pair[0]), _times[-1])
    if len(_times) > 1 and resolution < 1e6 and factor < 1e3:
        factor, unit = 1e3, "µs"
    places = max(0, min(9, round(math.log10(factor / resolution)))) if resolution < factor else 0
    return f"{_fixed(ns / factor, places)} {unit}".rstrip()


def when(start: int, length: int) -> str:
    """The start of something that long (ns), with the digits that tell it from its neighbours."""
    return moment(start, 10 ** max(0, len(str(length)) - 3))


def within(ns: float, doubt: float) -> str:
    """A duration rounded to its uncertainty (ns): 530 ms if that is 12 ms, <10 ms if the duration is smaller."""
    if doubt < 1:
        return duration(ns)
    step = 10 ** math.floor(math.log10(doubt))
    rounded = round(ns / step) * step
    if not rounded:
        return f"<{duration(step)}" if ns else duration(0)
    return min(duration(ns), moment(rounded, step), key=len)


def use(unit: str) -> None:
    """Show every duration in that unit (``ns``, ``us`` or ``ms``) from now on; ``auto`` picks the fitting one."""
    global _times
    wanted = unit.replace("us", "µs")
    _times = tuple(pair for pair in _TIMES if pair[1] == wanted) or _TIMES


def sentence_unit() -> str:
    """The unit for times compared within a sentence: ms, unless ``use`` set another."""
    return _times[0][1] if len(_times) == 1 else "ms"


def amount(*ms: float, signed: bool = False) -> str:
    """Milliseconds in ``sentence_unit``, one value or from → to: 2.6 ms, 750 → 751 ms."""
    return f"{' → '.join(figure(value, signed) for value in ms)} {sentence_unit()}"


def figure(ms: float, signed: bool = False) -> str:
    """Milliseconds in ``sentence_unit``, without the unit: 751, 45.1, 2.6, 0.021."""
    value = _in_sentence(ms)
    size = abs(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return _fixed(value, places, signed)


def rough_figure(ms: float) -> str:
    """A confidence bound: milliseconds in ``sentence_unit`` without the unit, two figures, signed."""
    value = _in_sentence(ms)
    places = 0 if abs(value) >= 10 else 1 if abs(value) >= 1 else 2 if abs(value) >= 0.1 else 3
    return _fixed(value, places, signed=True)


def _in_sentence(ms: float) -> float:
    return ms * 1e6 / _times[0][0] if len(_times) == 1 else ms


def axis(largest_ns: float) -> tuple[float, str]:
    """Unit of an axis up to ``largest_ns``, as (ns, name): the largest that fits twice, or the one set by ``use``."""
    return next((pair for pair in _times if largest_ns >= 2 * pair[0]), _times[-1])


def _figures(value: float, signed: bool, whole: bool = False) -> str:
    size = abs(value)
    return _fixed(value, 0 if whole or size >= 999.95 else 1 if size >= 99.995 else 2, signed)


def _fixed(value: float, places: int, signed: bool = False) -> str:
    """A number with that many decimals and a real minus sign; no sign if it rounds to zero."""
    text = f"{value:{'+' if signed else ''},.{places}f}".replace("-", "−")
    return text if text.strip("+−0.,") else text.lstrip("+−")


def count(value: float, signed: bool = False) -> str:
    """A whole number with thousands commas."""
    return _fixed(value, 0, signed)


def counted(value: float, one: str, many: str) -> str:
    """A count with its noun: 1 launch, 293 launches."""
    return f"{count(value)} {one if round(value) == 1 else many}"


def each(word: str) -> str:
    """'a step', 'an execution': per what a figure is."""
    return f"{'an' if word[:1] in 'aeiou' else 'a'} {word}"


def number(value: float, signed: bool = False) -> str:
    """A plain number: four significant figures (three below a tenth), thousands commas."""
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e15 or size < 1e-4:
        return f"{value:{'+' if signed else ''}.3g}".replace("-", "−")
    places = max(0, (3 if size >= 0.1 else 2) - math.floor(math.log10(size)))
    text = _fixed(value, min(places, 6), signed)
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(value: float, signed: bool = False, places: int = 1) -> str:
    """A value already in percent; one that would round to zero reads as less than the last digit, <0.1%."""
    least = 10.0**-places
    if 0 < value < least / 2 and not signed:
        return f"<{least:g}%"
    return f"{_fixed(value, places, signed)}%"


def factor(value: float) -> str:
    """A ratio: 3.4×, 12×; 1.04× close to one, where one decimal would hide it; 0.04× below a tenth."""
    if 0 < value < 0.0095:
        return "<.01×"
    places = 2 if value < 0.095 or 0.9 < value < 1.1 else 0 if value >= 99.5 else 1
    return f"{value:,.{places}f}×"


def size(value: float, signed: bool = False) -> str:
    """Bytes in the binary unit that fits."""
    factor, unit = _that_fits(value, _BYTES, 2e4)
    return f"{_fixed(value / factor, 0 if factor == 1 else 1, signed)} {unit}"


def rate(value: float, signed: bool = False) -> str:
    """Bytes per second in the decimal unit that fits, as vendors and nccl-tests print them."""
    factor, unit = _that_fits(value, _RATES, 2e4)
    return f"{number(value / factor, signed)} {unit}"


def work(flops: float) -> str:
    """FLOPs in the decimal unit that fits."""
    factor, unit = _that_fits(flops, _WORK, 2e4)
    return f"{number(flops / factor)} {unit}"


_WORK = ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1.0, "FLOP"))
_RATES = ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))


def short(value: Any, column: Column) -> str:
    """The value as a list shows it; text is returned unchanged (clean it with ``text.display``)."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    signed = column.signed
    match column.unit:
        case "ns":
            if column.role == "moment":
                return moment(value, column.resolution)
            return within(value, abs(value) * column.doubt) if column.doubt else duration(value, signed)
        case "us":
            return number(value, signed)
        case "ms":
            return _figures(value, signed)
        case "fraction":
            whole = column.bar in ("tensor", "dram") or (column.side == "delta" and abs(value) >= 0.9995)
            shown = percent(100 * value, signed, places=0 if whole else 1)  # +100 pt is as wide as +99.9 pt
            return f"{shown[:-1]} pt" if column.side == "delta" else shown
        case "percent":
            return percent(value, signed)
        case "count":
            return count(value, signed)
        case "bytes":
            return size(value, signed)
        case "rate":
            return rate(value, signed)
        case "ratio":
            return factor(value)
        case "number":
            return f"{value:.0f}" if column.role == "where" else number(value, signed)
        case "bool":
            return "yes" if value else "no"
        case "kinds":
            return f"▸{count(value, signed)}" if value > 1 or signed else ""
        case "trend" | "list":
            return sparkline(value)
        case "series":
            return series(value, _SERIES_CELLS)
        case _:
            return str(value)


LEVELS = "▁▂▃▄▅▆▇█"  # Eight bar heights, for sparklines.


def sparkline(values: Sequence[float | None] | None, width: int | None = None) -> str:
    """One block glyph per number, scaled to the maximum; beyond ``width`` each glyph is the maximum of its part."""
    if not values:
        return ""
    if width is not None and len(values) > width:
        edges = [len(values) * i // width for i in range(width + 1)]
        parts = [values[start:stop] for start, stop in pairwise(edges)]
        values = [max((v for v in part if v is not None and v == v), default=None) for part in parts]
    top = max((v for v in values if v is not None and v == v), default=0)
    return "".join(
        " " if v is None or v != v else LEVELS[min(7, int(8 * (v / top)))] if top > 0 and v > 0 else LEVELS[0]
        for v in values
    )


_SERIES_CELLS = 60  # Glyphs in text output, where no list gives a width.
_LEAST_RANGE = 0.04  # Share of the midpoint: noise of 0.5% should look like noise.


def series(values: Sequence[float | None] | None, width: int | None = None) -> str:
    """Numbers over time, one block glyph each, scaled from minimum to maximum; a range below 4% of the midpoint does
    not fill the height. Beyond ``width`` each glyph is the median of its part, so that one outlier does not set it."""
    if values and width is not None and len(values) > width:
        edges = [len(values) * i // width for i in range(width + 1)]
        parts = [sorted(v for v in values[start:stop] if v is not None and v == v) for start, stop in pairwise(edges)]
        values = [part[len(part) // 2] if part else None for part in parts]
    finite = [v for v in values or () if v is not None and v == v]
    if not values or not finite:
        return ""
    low, high = min(finite), max(finite)
    middle = (low + high) / 2
    height = max(high - low, _LEAST_RANGE * abs(middle))
    floor = middle - height / 2
    return "".join(
        " " if v is None or v != v else LEVELS[min(7, int(8 * ((v - floor) / height)))] if height > 0 else LEVELS[0]
        for v in values
    )
