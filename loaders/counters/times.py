"""Parses sample times from a column of text: dates, numbers, or times of day.

Four clocks: ``utc`` is absolute, ``local`` is a date and time without a time zone, ``day`` a time of day without a
date, ``relative`` counts from an unknown start. Fractions are parsed as digits, never through a float, which cannot
represent a date to the nanosecond.
"""

from __future__ import annotations

import re
from typing import Literal

import polars as pl
from msgspec import Struct

from ..recording.faults import NO_NUMBER, ROUNDED, Faults
from ..recording.values import EMPTY, number
from ..schema_limits import LATEST_NS

Clock = Literal["utc", "local", "day", "relative"]
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "sec": 10**9, "secs": 10**9, "seconds": 10**9}
_EPOCHS = ((10**17, 1), (10**14, 10**3), (10**11, 10**6), (10**8, 10**9))
"""(Smallest number, ns per unit): the unit of a Unix time by its size; all these times are later than March 1973."""
_DATED = (
    r"^(\d{4})[-/.]?(\d{2})[-/.]?(\d{2})[ T_]+(\d{1,2}):(\d{2}):(\d{2})"
    r"(?:[.,](\d{1,9})\d*)?\s*(Z|UTC|[-+]\d{2}:?\d{2})?$"
)
_WORDED = r"^[A-Z][a-z]{2} ([A-Z][a-z]{2} +\d{1,2} \d{2}:\d{2}:\d{2}) (?:[A-Z]{3,4} )?(\d{4})$"
_OF_DAY = r"^(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d{1,9})\d*)?$"
_NUMBER = r"^([-+]?\d{1,19})(?:\.(\d{1,9})\d*)?$"
_DAY_NS = 86_400 * 10**9


_COMMA = rb"^([\s\"]*(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d),(\d{3}(?:\d{3}){0,2}(?:Z|[-+]\d\d:?\d\d)?[\s\"]*,)"


class Times(Struct, frozen=True):
    """Times in ns (Int64, null where the text is not a time) on ``clock``."""

    ns: pl.Series
    clock: Clock


def read(texts: pl.Series, unit: str = "", faults: Faults | None = None, table: str = "") -> Times | None:
    """The times of a column; ``unit`` is that of its heading. None if the first text that is none of ``EMPTY`` is not a
    time. Texts that are no times are counted under ``table`` and the column's name."""
    stripped = texts.cast(pl.String).str.strip_chars().str.strip_chars('"')
    stripped = stripped.set(stripped.str.to_lowercase().is_in(list(EMPTY)).fill_null(False), None)
    times = _read(_without_exponents(stripped), unit)
    if faults is not None:
        wrong = stripped.is_not_null() if times is None else stripped.is_not_null() & times.ns.is_null()
        for text, count in stripped.filter(wrong).alias("text").value_counts().rows():
            faults.wrong(table, texts.name or "time", number(text, "ns")[1] or NO_NUMBER, count)
    return times


def rounded(texts: pl.Series) -> bool:
    """Whether all times of a column are numbers that a spreadsheet rounded."""
    return all(number(text, "ns")[1] == ROUNDED for text in texts.drop_nulls().str.strip_chars().unique() if text)


def _without_exponents(texts: pl.Series) -> pl.Series:
    """The texts, with numbers with an exponent written out; null where it hides their last digits."""
    some = texts.str.contains(r"^[-+]?[\d.]+[eE]\+?\d+$").fill_null(False)
    if not some.any():
        return texts
    plain = [None if value is None else str(value) for value in (number(text, "ns")[0] for text in texts.filter(some))]
    return texts.clone().scatter(some.arg_true(), pl.Series(plain, dtype=pl.String))


def _read(stripped: pl.Series, unit: str) -> Times | None:
    first = stripped.drop_nulls().filter(stripped.drop_nulls() != "").head(1)
    if first.is_empty():
        return None
    for pattern, reader in ((_DATED, _dates), (_WORDED, _worded), (_OF_DAY, _of_day)):
        if first.str.contains(pattern)[0]:
            return reader(stripped)
    return _counts(stripped, unit) if first.str.contains(_NUMBER)[0] else None


def with_points(text: bytes, separator: str) -> bytes:
    """The table with a point in the times of its first column, where every row has a decimal comma there that is also
    the separator: ``date --iso-8601=ns`` and Python's logging write 10:00:00,123."""
    head, _, rest = text.partition(b"\n")
    first, _, _ = rest.partition(b"\n")
    if separator != "," or first.count(b",") != head.count(b",") + 1:
        return text
    points, count = re.subn(_COMMA, rb"\1.\2", rest, flags=re.MULTILINE)
    return head + b"\n" + points if count == sum(1 for line in rest.split(b"\n") if line.strip()) else text


def _fraction(column: str) -> pl.Expr:
    return pl.col(column).fill_null("").str.pad_end(9, "0").cast(pl.Int64, strict=False)


def _dates(texts: pl.Series) -> Times:
    groups = texts.to_frame("text").select(pl.col("text").str.extract_groups(_DATED)).unnest("text")
    groups.columns = ["y", "m", "d", "h", "min", "s", "fraction", "zone"]
    moment = pl.format("{}-{}-{} {}:{}:{}", "y", "m", "d", pl.col("h").str.zfill(2), "min", "s")
    offset = pl.col("zone").str.extract_groups(r"([-+])(\d{2}):?(\d{2})")
    sign = pl.when(offset.struct[0] == "-").then(-1).otherwise(1)
    zone = sign * (
        offset.struct[1].cast(pl.Int64, strict=False) * 60 + offset.struct[2].cast(pl.Int64, strict=False)
    ) * (60 * 10**9)
    ns = groups.select(_at(moment, "%Y-%m-%d %H:%M:%S") + _fraction("fraction") - zone.fill_null(0)).to_series()
    return Times(ns.rename("ns"), "local" if groups["zone"].is_null().all() else "utc")


def _worded(texts: pl.Series) -> Times:
    """Times as the command ``date`` prints them: Tue May 20 22:24:27 UTC 2025."""
    groups = texts.to_frame("text").select(pl.col("text").str.extract_groups(_WORDED)).unnest("text")
    groups.columns = ["rest", "year"]
    plain = pl.format("{} {}", pl.col("rest").str.replace_all(r" +", " "), "year")
    ns = groups.select(_at(plain, "%b %d %H:%M:%S %Y")).to_series()
    return Times(ns.rename("ns"), "utc" if texts.str.contains(" (?:UTC|GMT) ").all() else "local")


def _at(text: pl.Expr, format: str) -> pl.Expr:
    moment = text.str.to_datetime(format, time_unit="us", strict=False).dt.epoch("us")
    return pl.when(moment.is_between(0, LATEST_NS // 1000)).then(moment * 1000)


def _of_day(texts: pl.Series) -> Times:
    """Times of day; a day is added at every midnight passed."""
    groups = texts.to_frame("text").select(pl.col("text").str.extract_groups(_OF_DAY)).unnest("text")
    groups.columns = ["h", "min", "s", "fraction"]
    fields = [pl.col(name).cast(pl.Int64, strict=False) for name in ("h", "min", "s")]
    ns = groups.select(
        ns=(fields[0] * 3600 + fields[1] * 60 + fields[2]) * 10**9 + _fraction("fraction")
    )
    passed = (pl.col("ns").forward_fill().diff().fill_null(0) < -_DAY_NS // 2).cast(pl.Int64).cum_sum()
    return Times(ns.select(pl.col("ns") + passed * _DAY_NS).to_series(), "day")


def _counts(texts: pl.Series, unit: str) -> Times:
    """Times given as numbers: Unix times if large enough, else relative; without a unit those are seconds."""
    groups = texts.to_frame("text").select(pl.col("text").str.extract_groups(_NUMBER)).unnest("text")
    groups.columns = ["whole", "fraction"]
    integer_part = groups["whole"].cast(pl.Int64, strict=False)
    largest = integer_part.abs().max()
    size = largest if isinstance(largest, int) else 0
    absolute = next((scale for lowest, scale in _EPOCHS if size >= lowest), None)
    scale = _UNITS.get(unit.lower()) or absolute or 10**9
    since_1970 = absolute is not None and size * scale >= 10**17
    lowest, highest = -LATEST_NS // scale, LATEST_NS // scale
    fits = pl.col("w").is_between(lowest, highest)
    fraction = (pl.col("fraction").fill_null("").str.pad_end(9, "0").cast(pl.Int64, strict=False) * scale) // 10**9
    ns = groups.with_columns(w=integer_part).select(
        pl.when(fits).then(pl.col("w") * scale + pl.when(pl.col("whole").str.starts_with("-")).then(-fraction)
                           .otherwise(fraction)).alias("ns")
    ).to_series()
    return Times(ns, "utc" if since_1970 else "relative")
