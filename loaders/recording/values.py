"""From a recorded cell to a number: the one way in which every reader makes its columns.

A cell is a *number*, *empty* (absent, ``N/A``, ``-`` …) or *wrong*: no number, not finite, beyond what a time, size or
count can be, or rounded by a spreadsheet. Empty and wrong cells are null; wrong ones are counted by table, column and
reason in ``Faults``, whose sentences are the same in every format. Nothing is cast, filled, clipped or repaired:
readers call ``numbers`` for a column, ``number`` for a single cell and ``timed`` for starts and ends, and nothing else
turns a recorded cell into a number (tests/test_values.py searches for that).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal

import polars as pl

from ..schema_limits import LATEST_NS, LONGEST_NS
from .faults import BACKWARDS, NO_NUMBER, NO_TIME, NOT_FINITE, OUT_OF_RANGE, ROUNDED, SINCE_BOOT, Faults

Kind = Literal["ns", "bytes", "count", "id", "real", "duration", "total", "mean", "share"]
"""Times, sizes and counts are whole and at most 2^62; an id is any whole number of 64 bits; a real is a Float64. Of
these a count is at least 0, a duration a time of 0 to four months, a total of durations 0 to 2^62, their mean a real of
that range, a share a real of 0 to 10 (1,000%)."""

LIMIT = 1 << 62  # Times, sizes and counts lie within this, so that differences cannot overflow.

_WITHIN: dict[Kind, tuple[Kind, float, float]] = {
    "count": ("id", 0, LIMIT), "duration": ("ns", 0, LONGEST_NS), "total": ("ns", 0, LIMIT),
    "mean": ("real", 0, LIMIT), "share": ("real", 0, 10),
}
_BACKWARDS: tuple[Kind, ...] = ("duration", "total", "mean")
"""Kind → the kind it is read as, the least and the largest value."""

UNNAMED = "[no name recorded]"
"""The name of what was recorded without one."""
EMPTY = frozenset((
    "", "-", "--", "–", "n/a", "na", "none", "null", "[n/a]", "[not supported]", "not supported", "[unknown error]",
    "err!", "[insufficient permissions]", "[gpu requires reset]", "unknown", "[n/f]", "n/f",
))  # fmt: skip
"""What tools write, in lower case, where they have no value."""
_NUMBER = re.compile(r"([+-]?)(\d{1,3}(?:[,']\d{3})+|\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?")
_WORDS = ("inf", "infinity", "nan")
_MOST_EXPONENT = 400
_DECIMAL: dict[float, int] = {1000: 3, 10**6: 6, 10**9: 9}
"""Factor → the digits after the point that count."""
_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)


def number(cell: object, kind: Kind = "real", factor: float = 1) -> tuple[int | float | None, str | None]:
    """The value of one cell times ``factor``, None if it is empty or wrong, and the reason if it is wrong."""
    if cell is None:
        return None, None
    if kind in _WITHIN:
        read_as, least, most = _WITHIN[kind]
        read, reason = number(cell, read_as, factor)
        if read is None or least <= read <= most:
            return read, reason
        return None, BACKWARDS if read < 0 and kind in _BACKWARDS else OUT_OF_RANGE
    digits_lost = False
    value: int | float
    if isinstance(cell, str):
        text = cell.strip()
        if text.lower() in EMPTY:
            return None, None
        if text.lower().lstrip("+-") in _WORDS:
            return None, NOT_FINITE
        match = _NUMBER.fullmatch(text)
        if match is None or not (match[2] or match[3]):
            return None, NO_NUMBER
        value, digits_lost = _decimal(match, text)
        if isinstance(value, float) and factor != 1 and kind != "real" and math.isfinite(value):
            value, factor = round(Fraction(text.replace(",", "").replace("'", "")) * Fraction(factor)), 1
    elif isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return None, NO_NUMBER
    else:
        value = cell
    if isinstance(value, float) and not math.isfinite(value):
        return None, NOT_FINITE
    try:
        value = value if factor == 1 else value * factor
        if kind == "real":
            value = float(value)
            return (value, None) if math.isfinite(value) else (None, NOT_FINITE)
    except OverflowError:
        return None, NOT_FINITE
    if abs(value) > (LIMIT if kind != "id" else (1 << 63) - 1):
        return None, OUT_OF_RANGE
    return (None, ROUNDED) if digits_lost else (round(value), None)


def _decimal(match: re.Match[str], text: str) -> tuple[int | float, bool]:
    """The value of a decimal text, exact where it is whole, and whether an exponent hides its last whole digits."""
    whole, part, exponent = match[2].replace(",", "").replace("'", ""), match[3] or "", match[4]
    shift = int(exponent or 0) if len(exponent or "") < 6 else _MOST_EXPONENT
    if abs(shift) >= _MOST_EXPONENT:
        return (0.0 if shift < 0 or not (whole + part).strip("0") else math.inf), False
    if shift >= len(part):
        return int(match[1] + whole + part) * 10 ** (shift - len(part)), exponent is not None and shift > len(part)
    return float(text.replace(",", "").replace("'", "")), False


def dtype_of(kind: Kind) -> type[pl.DataType]:
    """Float64 for reals, else Int64."""
    return pl.Float64 if _WITHIN.get(kind, (kind,))[0] == "real" else pl.Int64


def numbers(
    cells: pl.Series, kind: Kind, faults: Faults, table: str, column: str = "", factor: float = 1
) -> pl.Series:
    """A column of cells of any type as Int64 or, for reals, Float64; empty and wrong cells are null, and wrong ones
    counted under ``table`` and ``column`` (the series' own name if empty). ``factor`` is what the recorded unit is
    of the unit returned: texts in µs become ns by their digits, since a float holds only 16 of them."""
    column, dtype = column or cells.name, dtype_of(kind)
    if kind in _WITHIN:
        read_as, least, most = _WITHIN[kind]
        read = numbers(cells, read_as, faults, table, column, factor)
        below, above = (read < least).fill_null(False), (read > most).fill_null(False)
        faults.wrong(table, column, BACKWARDS if kind in _BACKWARDS else OUT_OF_RANGE, int(below.sum()))
        faults.wrong(table, column, OUT_OF_RANGE, int(above.sum()))
        return read.set(below | above, None)
    if cells.dtype in (pl.String, pl.Categorical, pl.Enum):
        return _of_texts(cells.cast(pl.String), dtype, kind, faults, table, column, factor)
    if factor != 1:
        whole = cells.dtype in _INTEGERS and float(factor).is_integer()
        read = numbers(cells, "id" if whole else "real", faults, table, column)
        least, most = -LIMIT // int(factor) if whole else 0, LIMIT // int(factor) if whole else 0
        beyond = (~read.is_between(least, most)).fill_null(False) if whole else read.is_null() & False
        faults.wrong(table, column, OUT_OF_RANGE, int(beyond.sum()))
        return numbers(read.set(beyond, None) * (int(factor) if whole else factor), kind, faults, table, column)
    if cells.dtype == dtype or cells.dtype in _INTEGERS:
        result = cells.cast(dtype, strict=False)
    elif cells.dtype in (pl.Float32, pl.Float64) and dtype == pl.Int64:
        # beyond 2^53 a float has lost digits that the recorder may have had, but the cell holds no others
        fits = cells.is_finite() & (cells.abs() <= float(LIMIT))
        result = cells.set(~fits.fill_null(False), None).round().cast(dtype)
        if kind == "ns" and (rounded := _rounded(result)) is not None:
            faults.wrong(table, column, ROUNDED, int(rounded.sum()))
            return numbers(cells.set(rounded, None), kind, faults, table, column)
    elif cells.dtype == pl.Float32:
        result = cells.cast(dtype)
    elif cells.dtype == pl.Null:
        return pl.repeat(None, cells.len(), dtype=dtype, eager=True).alias(cells.name)
    else:
        return _of_objects(cells.to_list(), cells.name, kind, faults, table, column)
    if cells.dtype in (pl.Float32, pl.Float64):
        infinite = int((~cells.is_finite()).sum())
        faults.wrong(table, column, NOT_FINITE, infinite)
        if dtype == pl.Float64:
            return result.set((~result.is_finite()).fill_null(False), None) if infinite else result
        faults.wrong(table, column, OUT_OF_RANGE, result.null_count() - cells.null_count() - infinite)
        return result
    if kind in ("ns", "bytes"):
        beyond = ((result > LIMIT) | (result < -LIMIT)).fill_null(False)
        result = result.set(beyond, None) if bool(beyond.any()) else result
    faults.wrong(table, column, OUT_OF_RANGE, result.null_count() - cells.null_count())
    return result


def _of_texts(
    cells: pl.Series, dtype: type[pl.DataType], kind: Kind, faults: Faults, table: str, column: str, factor: float
) -> pl.Series:
    """A text column: polars reads plain numbers, and ``number`` the few distinct texts that are none."""
    texts = cells.str.strip_chars()
    places = _DECIMAL.get(factor) if kind != "real" else None
    if places is not None:
        result = _shifted(texts, places)
    else:
        result = texts.cast(dtype if factor == 1 else pl.Float64, strict=False)
        result = result if factor == 1 else result * factor
        if result.dtype != dtype:
            beyond = texts.str.contains("[eE]") | ~(result.abs() <= LIMIT)
            result = result.set(beyond.fill_null(True), None).round().cast(dtype)
    doubtful = result.is_null() & cells.is_not_null()
    if dtype == pl.Float64:
        doubtful = doubtful | (~result.is_finite()).fill_null(False)
    elif kind != "id":
        doubtful = doubtful | (~result.is_between(-LIMIT, LIMIT)).fill_null(False)  # the least has no abs()
    if not bool(doubtful.any()):
        return result.alias(cells.name)
    counts = cells.filter(doubtful).alias("text").value_counts(name="count")
    values: list[int | float | None] = []
    for text, count in counts.rows():
        value, reason = number(text, kind, factor)
        values.append(value)
        if reason is not None:
            faults.wrong(table, column, reason, count)
    known = pl.Series(values, dtype=dtype)
    read = cells.replace_strict(counts["text"], known, default=None, return_dtype=dtype)
    return result.set(doubtful, None).zip_with(~doubtful, read).alias(cells.name)


def _shifted(texts: pl.Series, places: int) -> pl.Series:
    """Plain decimals times a power of ten as whole numbers, by their digits; halves away from zero. Null for others."""
    match = texts.str.extract_groups(rf"^([+-]?)(\d{{1,{18 - places}}})(?:\.(\d*))?$").struct
    rest = match.field("3").fill_null("").str.pad_end(places + 1, "0").str.slice(0, places + 1)
    whole = match.field("2").cast(pl.Int64)
    size = whole.set(whole > LIMIT // 10**places, None) * 10**places + (rest.cast(pl.Int64) + 5) // 10
    signed: pl.Series = size.zip_with((match.field("1") != "-").fill_null(True), -size)
    return signed


def _rounded(times: pl.Series) -> pl.Series | None:
    """Which times (ns), recorded as floats, a spreadsheet has rounded: two and more are later than 17 minutes and have
    no more than the six digits that it shows of such a number. None if there are none."""
    late = times.abs().set((times.abs() < SINCE_BOOT).fill_null(True), None)
    if late.null_count() == late.len():
        return None
    digits = late.cast(pl.String).str.len_chars().cast(pl.Int64)
    unit = pl.Series([10], dtype=pl.Int64).new_from_index(0, late.len()).pow(digits - _SHOWN)
    rounded = (late % unit == 0).fill_null(False)
    return rounded if int(rounded.sum()) > 1 else None


_SHOWN = 6  # Digits that spreadsheets show of a large number.


def _of_objects(
    cells: Sequence[object], name: str, kind: Kind, faults: Faults, table: str, column: str
) -> pl.Series:
    values: list[int | float | None] = []
    if kind == "ns":
        times = pl.Series([round(cell) if type(cell) is float and abs(cell) < LIMIT else None for cell in cells],
                          dtype=pl.Int64)
        if (rounded := _rounded(times)) is not None:
            faults.wrong(table, column, ROUNDED, int(rounded.sum()))
            cells = [None if wrong else cell for cell, wrong in zip(cells, rounded, strict=True)]
    for cell in cells:
        value, reason = number(cell, kind)
        values.append(value)
        if reason is not None:
            faults.wrong(table, column, reason)
    return pl.Series(name, values, dtype=dtype_of(kind))


def series(name: str, cells: Sequence[object], kind: Kind, faults: Faults, table: str) -> pl.Series:
    """A column of Python values, as databases and JSON give them."""
    try:
        plain = pl.Series(name, cells, dtype=dtype_of(kind), strict=True)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return _of_objects(cells, name, kind, faults, table, name)
    return numbers(plain, kind, faults, table, name)


def columns(
    rows: pl.DataFrame, table: str, faults: Faults, kinds: Mapping[str, Kind], texts: Sequence[str] = ()
) -> pl.DataFrame:
    """The frame with these columns as numbers; missing ones, and missing ``texts``, are added as null."""
    have = set(rows.columns)
    read = [
        numbers(rows[name], kind, faults, table) if name in have
        else pl.repeat(None, rows.height, dtype=dtype_of(kind), eager=True).alias(name)
        for name, kind in kinds.items()
    ]
    missing = [pl.lit(None, pl.String).alias(name) for name in texts if name not in have]
    return rows.with_columns(*read, *missing)


class Clock:
    """The starts and ends of one file. ``least`` is its earliest time above 0 so far."""

    def __init__(self, faults: Faults) -> None:
        self.faults, self.least = faults, LATEST_NS

    def timed(self, rows: pl.DataFrame, table: str, start: str = "start", end: str = "end") -> pl.DataFrame:
        """The rows with ``start_ns`` and ``dur_ns`` of the whole numbers ``start`` and ``end`` (ns).

        No row is dropped: a start of 0 among times since boot or since 1970, or of an activity without an end, is no
        time; an end of 0 or before the start is none either, and leaves the duration null.
        """
        begin, finish = pl.col(start), pl.col(end)
        least = rows.select(begin.filter(begin > 0).min()).item()
        self.least = min(self.least, least) if least is not None else self.least
        since_boot = SINCE_BOOT < self.least < LATEST_NS
        zero = (begin == 0) & ((finish == 0) | pl.lit(since_boot))
        beyond = ~begin.is_between(-LATEST_NS, LATEST_NS)
        late = finish - begin > LONGEST_NS
        rows = rows.with_columns(
            _why=pl.when(begin.is_null()).then(None).when(zero).then(1).when(beyond).then(2)
            .when(finish.is_null()).then(None).when((finish == 0) & (begin > 0)).then(3)
            .when(finish < begin).then(4).when(late).then(5)
        )
        counts = dict(rows["_why"].drop_nulls().value_counts().rows())
        for code, (of_start, reason) in _REASONS.items():
            self.faults.wrong(table, start if of_start else end, reason, counts.get(code, 0))
        placed = pl.col("_why").is_null() | (pl.col("_why") > 2)
        return rows.with_columns(
            start_ns=pl.when(placed).then(begin),
            dur_ns=pl.when(pl.col("_why").is_null()).then(finish - begin),
        ).drop("_why")


_REASONS = {1: (True, NO_TIME), 2: (True, OUT_OF_RANGE), 3: (False, NO_TIME), 4: (False, BACKWARDS),
            5: (False, OUT_OF_RANGE)}  # fmt: skip
"""Code in ``Clock.timed`` → whether it is the start that is wrong, else the end, and the reason."""
