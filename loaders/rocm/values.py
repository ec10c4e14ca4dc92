"""Numbers out of text, and a tally of what was none.

A value nobody can read is null, never 0, and is counted under the name of the table it stands in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl

LIMIT = 1 << 62
"""Times from here on are no times: differences of two that are below it cannot overflow."""
_LARGEST = float(LIMIT)


class Faults:
    """What was wrong in the tables of a recording: unreadable values, rows left out, and sentences."""

    def __init__(self) -> None:
        self.values: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.sentences: list[str] = []

    def warnings(self) -> list[str]:
        """All of it in words."""
        sentences = [*self.sentences]
        for table, count in self.values.items():
            sentences.append(f"{count:,} values of {table} could not be read and are left empty")
        for table, count in self.left_out.items():
            sentences.append(f"left out: {count:,} rows of {table} without a time or a name")
        return sentences


def integers(text: pl.Series) -> tuple[pl.Series, int]:
    """A column of text as Int64, and how many values are no number. '7', ' 7' and '7.0' are; '' is nothing."""
    stripped = text.str.strip_chars()
    exact = stripped.cast(pl.Int64, strict=False)
    if exact.null_count() == text.null_count():
        return exact, 0
    real = stripped.cast(pl.Float64, strict=False)
    rounded = real.set(~(real.abs() < _LARGEST).fill_null(False), None).round().cast(pl.Int64, strict=False)
    numbers = pl.select(pl.coalesce(exact, rounded)).to_series().alias(text.name)
    return numbers, int((numbers.is_null() & (stripped != "")).sum())


def reals(text: pl.Series) -> tuple[pl.Series, int]:
    """A column of text as finite Float64, and how many values are none."""
    stripped = text.str.strip_chars()
    numbers = stripped.cast(pl.Float64, strict=False)
    numbers = numbers.set(~numbers.is_finite().fill_null(False), None)
    return numbers, int((numbers.is_null() & (stripped != "")).sum())


def numbers(
    rows: pl.DataFrame, table: str, faults: Faults, ints: Sequence[str] = (), floats: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> pl.DataFrame:
    """The frame of text with these columns as numbers, or left as text. A column it lacks is there, and null."""
    rows = rows.with_columns(pl.lit(None, pl.String).alias(name) for name in texts if name not in rows.columns)
    kinds = {**dict.fromkeys(ints, pl.Int64), **dict.fromkeys(floats, pl.Float64)}
    have = [name for name in kinds if name in rows.columns]
    before = rows.select(pl.col(have).null_count()).row(0) if have else ()
    derived = rows.with_columns(
        pl.col(name).str.strip_chars().cast(dtype, strict=False) if name in have else pl.lit(None, dtype).alias(name)
        for name, dtype in kinds.items()
    )
    after = derived.select(pl.col(have).null_count()).row(0) if have else ()
    doubtful = [name for name, old, new in zip(have, before, after, strict=True) if old != new or name in floats]
    for name in doubtful:  # text that is no plain number, or a number that is none
        values, lost = (reals if name in floats else integers)(rows[name])
        faults.values[table] += lost
        derived = derived.with_columns(values.alias(name))
    faults.values = +faults.values
    return derived
