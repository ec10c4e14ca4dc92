"""Parses values as monitors write them: numbers with units, in the heading or after each number, and blanks.

A unit becomes the natural one (MHz, B/s, B, W, %, C, J) and a factor. Values that a monitor could not read are null:
the words of nvidia-smi and AMD's tools, and the numbers that mean "blank" in DCGM (four at the end of the integers,
four doubles from 2^47 on, as ``dcgm_structs.h`` defines them).

The units of DCGM's fields are those of its manual. Ratios of the profiling module (0 to 1) become percent. Memory is in
MiB, PCIe throughput in KB/s for device counters and in B/s, like NVLink's, for the profiling module.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl

from ..recording.faults import Faults
from ..recording.values import EMPTY, numbers

NATURAL: dict[str, tuple[str, float]] = {
    "%": ("%", 1.0), "pct": ("%", 1.0), "percent": ("%", 1.0), "ratio": ("%", 100.0), "fraction": ("%", 100.0),
    "hz": ("MHz", 1e-6), "khz": ("MHz", 1e-3), "mhz": ("MHz", 1.0), "ghz": ("MHz", 1e3), "hertz": ("MHz", 1e-6),
    "w": ("W", 1.0), "watt": ("W", 1.0), "watts": ("W", 1.0), "mw": ("W", 1e-3), "uw": ("W", 1e-6), "kw": ("W", 1e3),
    "j": ("J", 1.0), "mj": ("J", 1e-3), "uj": ("J", 1e-6), "joules": ("J", 1.0),
    "v": ("mV", 1e3), "mv": ("mV", 1.0),
    "c": ("C", 1.0), "°c": ("C", 1.0), "degc": ("C", 1.0), "celsius": ("C", 1.0), "â°c": ("C", 1.0), "�c": ("C", 1.0),
    "b": ("B", 1.0), "byte": ("B", 1.0), "bytes": ("B", 1.0), "kb": ("B", 1e3), "mb": ("B", 1e6), "gb": ("B", 1e9),
    "tb": ("B", 1e12), "kib": ("B", 2.0**10), "mib": ("B", 2.0**20), "gib": ("B", 2.0**30), "tib": ("B", 2.0**40),
    "b/s": ("B/s", 1.0), "bytes/s": ("B/s", 1.0), "kb/s": ("B/s", 1e3), "mb/s": ("B/s", 1e6), "gb/s": ("B/s", 1e9),
    "kib/s": ("B/s", 2.0**10), "mib/s": ("B/s", 2.0**20), "gib/s": ("B/s", 2.0**30), "mbps": ("B/s", 1e6 / 8),
    "gbps": ("B/s", 1e9 / 8), "kbps": ("B/s", 1e3 / 8),
    "ns": ("ns", 1.0), "us": ("us", 1.0), "µs": ("us", 1.0), "ms": ("ms", 1.0), "s": ("s", 1.0), "sec": ("s", 1.0),
    "seconds": ("s", 1.0), "rpm": ("rpm", 1.0), "count": ("", 1.0), "errs": ("", 1.0), "bool": ("", 1.0),
}  # fmt: skip
"""Unit in lower case → natural unit, and the factor to convert to it."""
_CASED = {"Mb/s": ("B/s", 1e6 / 8), "Gb/s": ("B/s", 1e9 / 8), "Mbit/s": ("B/s", 1e6 / 8), "Gbit/s": ("B/s", 1e9 / 8)}
"""Units in which the case means bits, not bytes."""
_ENDINGS = ("mib", "gib", "kib", "mb", "gb", "kb", "bytes", "mhz", "ghz", "watts", "mw", "celsius", "pct", "percent",
            "hertz", "ratio", "joules", "w")  # fmt: skip
"""Units that a name may end with: memory_used_mib, power_watts."""

_HEADING = re.compile(r"^(.*?)\s*[\[(]\s*([^\[\]()]{1,16}?)\s*[\])]\s*$")
_UNIT = r"[A-Za-z%\x80-\U0010ffff][^\s\d,;:]{0,11}"  # Not what follows in a date, a time of day or a fraction.
_NUMBER = r"^([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|(?i:[-+]?(?:inf|infinity|nan)))\s*(" + _UNIT + ")?$"

_LONGEST = 200  # Longest heading (characters) that is searched for a unit.

BLANK_DOUBLES, BLANK_INT32, BLANK_INT64 = 2.0**47, 0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0
"""DCGM's smallest "blank" values for doubles, 32-bit and 64-bit integers."""
_REASONS = 3
"""The numbers after each give a reason: not found, not supported, not permitted. All larger 64-bit ones are blank."""


def natural(unit: str) -> tuple[str, float] | None:
    """The natural unit and the factor to convert to it; None for an unknown unit."""
    plain = unit.strip()
    return _CASED.get(plain) or NATURAL.get(plain.lower())


def heading(text: str) -> tuple[str, str]:
    """A column's heading split into name and unit: 'memory.used [MiB]', 'GPU use (%)', 'power_watts'; '' for none."""
    plain = text.strip()
    match = _HEADING.match(plain) if len(plain) <= _LONGEST else None
    if match and match[1] and natural(match[2]) is not None:
        return match[1], match[2]
    if match and match[2].endswith("%"):
        return plain, "%"
    return plain, next((unit for unit in _ENDINGS if plain.lower().endswith("_" + unit)), "")


def blank(value: pl.Expr) -> pl.Expr:
    """Whether a number is one of DCGM's blank values."""
    doubles = value.is_between(BLANK_DOUBLES, BLANK_DOUBLES + _REASONS)
    short = value.is_between(BLANK_INT32, BLANK_INT32 + _REASONS)
    return doubles | short | value.is_between(BLANK_INT64, 2.0**64)  # up to all bits of 64; larger ones are values


def measured(value: pl.Series) -> pl.Series:
    """The numbers; null where they are blank."""
    return value.to_frame("v").select(pl.when(~blank(pl.col("v"))).then("v")).to_series()


_BINARY = {"kb": "KiB", "mb": "MiB", "gb": "GiB", "tb": "TiB"}
"""What the monitors of AMD and NVIDIA mean by these units."""


class CounterCells(NamedTuple):
    """Where the wrong cells of a table are counted, and whether its MB is 2^20 bytes."""

    faults: Faults
    table: str
    binary: bool = False

    def read(self, cells: pl.Series, column: str, unit: str | pl.Series = "") -> tuple[pl.Series, pl.Series] | None:
        """Values (Float64, null where blank or wrong) and units of a text column; None if it is not numeric.

        ``unit`` is that of the heading, or of each row; a unit after a number overrides it. A column is numeric if
        three quarters of its texts are numbers or blanks and, unless its heading has a unit, at least one is a number.
        """
        given = cells.to_frame("text").with_columns(given=pl.lit(unit) if isinstance(unit, str) else unit)
        word = pl.col("text").str.strip_chars(' "()')  # rocm-smi writes clocks as (2100Mhz)
        empty = word.is_null() | word.str.to_lowercase().is_in(list(EMPTY))
        frame = given.select(
            word.str.extract_groups(_NUMBER).alias("parts"), "given", word=pl.when(~empty).then(word), empty=empty,
        ).select(
            pl.coalesce(pl.col("parts").struct[0], "word").alias("number"),
            pl.col("parts").struct[1].fill_null(pl.col("given")).alias("unit"), "empty",
            matches=pl.col("parts").struct[0].is_not_null(),
        )
        if frame.is_empty():
            return None
        stray = frame.filter(~pl.col("matches") & ~pl.col("empty")).height
        if stray * 4 > len(cells):
            return None
        own = Faults()
        values = numbers(frame["number"], "real", own, self.table, column)
        if isinstance(unit, str) and not unit and values.null_count() == values.len():
            return None
        self.faults.add(own)
        units = {text: natural(_BINARY.get(text.strip().lower(), text) if self.binary else text) or ("", 1.0)
                 for text in frame["unit"].unique()}
        of, scale = ({text: pair[at] for text, pair in units.items()} for at in (0, 1))
        result = frame.select(
            value=measured(values) * pl.col("unit").replace_strict(scale, return_dtype=pl.Float64),
            unit=pl.col("unit").replace_strict(of, return_dtype=pl.String),
        )
        return result["value"], result["unit"]


_DCGM_NAMES: tuple[tuple[str, str], ...] = (
    (r"_PROF_.*(?:ACTIVE|OCCUPANCY|RATIO)", "ratio"), (r"_PROF_(?:PCIE|NVLINK)_.*BYTES", "B/s"),
    (r"_FB_USED_PERCENT", "ratio"), (r"_FB_|_BAR1_", "MiB"), (r"_PCIE_[TR]X_THROUGHPUT", "kB/s"),
    (r"_NVLINK_BANDWIDTH", "MB/s"), (r"ENERGY", "mJ"), (r"POWER|_ENFORCED_POWER_LIMIT", "W"), (r"TEMP", "C"),
    (r"CLOCK_THROTTLE|CLOCKS_EVENT", ""), (r"CLOCK", "MHz"), (r"_UTIL$|_UTIL[^A-Z]|FAN_SPEED", "%"),
    (r"_VIOLATION$", "us"),
)
_DCGM_TAGS: dict[str, str] = {
    "GPUTL": "%", "MCUTL": "%", "ENUTL": "%", "DCUTL": "%", "GRACT": "ratio", "SMACT": "ratio", "SMOCC": "ratio",
    "TENSO": "ratio", "DRAMA": "ratio", "FP64A": "ratio", "FP32A": "ratio", "FP16A": "ratio", "TIMMA": "ratio",
    "THMMA": "ratio", "TDMMA": "ratio", "INTAC": "ratio", "PCITX": "B/s", "PCIRX": "B/s", "NVLTX": "B/s",
    "NVLRX": "B/s", "NVLBT": "MB/s", "TXTPT": "kB/s", "RXTPT": "kB/s", "POWER": "W", "POWR": "W", "TOTEC": "mJ",
    "TMPTR": "C", "GTEMP": "C", "MTEMP": "C", "MMTMP": "C", "GPUT": "C", "SMCLK": "MHz", "MMCLK": "MHz",
    "VICLK": "MHz", "SMMAX": "MHz", "FBTTL": "MiB", "FBUSD": "MiB", "FBFRE": "MiB", "B1USD": "MiB", "FANSP": "%",
}  # fmt: skip


def dcgm_unit(name: str) -> str:
    """The unit of a DCGM field by its name (``DCGM_FI_DEV_SM_CLOCK``) or tag (``SMCLK``); '' if it has none."""
    if name in _DCGM_TAGS:
        return _DCGM_TAGS[name]
    if not name.startswith("DCGM_FI_"):
        return ""
    return next((unit for pattern, unit in _DCGM_NAMES if re.search(pattern, name)), "")
