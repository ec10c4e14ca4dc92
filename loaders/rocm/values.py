"""Values in AMD's files: numbers parsed from text (unreadable ones become null and are counted), and kinds of calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from ..recording.recording import LIMIT, Faults

_LARGEST = float(LIMIT)
_MARK = re.compile(r"MARKER|ROCTX|NVTX", re.IGNORECASE)
_DRIVER = re.compile(r"HSA|DRIVER|KFD|SCRATCH|MEMORY_ALLOCATION", re.IGNORECASE)
_RUNTIME = re.compile(r"HIP|RCCL|NCCL|ROCDECODE|ROCJPEG|RUNTIME|OMPT|ROCBLAS|MIOPEN", re.IGNORECASE)


def integers(text: pl.Series) -> tuple[pl.Series, int]:
    """A text column as Int64, and how many values are not numbers. '7', ' 7' and '7.0' are; '' is null, not counted."""
    stripped = text.str.strip_chars()
    exact = stripped.cast(pl.Int64, strict=False)
    if exact.null_count() == text.null_count():
        return exact, 0
    real = stripped.cast(pl.Float64, strict=False)
    rounded = real.set(~(real.abs() < _LARGEST).fill_null(False), None).round().cast(pl.Int64, strict=False)
    numbers = pl.select(pl.coalesce(exact, rounded)).to_series().alias(text.name)
    return numbers, int((numbers.is_null() & (stripped != "")).sum())


def reals(text: pl.Series) -> tuple[pl.Series, int]:
    """A text column as finite Float64, and how many values are not finite numbers; '' is null, not counted."""
    stripped = text.str.strip_chars()
    numbers = stripped.cast(pl.Float64, strict=False)
    numbers = numbers.set(~numbers.is_finite().fill_null(False), None)
    return numbers, int((numbers.is_null() & (stripped != "")).sum())


def numbers(
    rows: pl.DataFrame, table: str, faults: Faults, ints: Sequence[str] = (), floats: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> pl.DataFrame:
    """The text frame with these columns converted to numbers, or kept as text; missing columns are added as null."""
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
    for name in doubtful:  # text that is not a plain number, or not finite
        values, lost = (reals if name in floats else integers)(rows[name])
        faults.values[table] += lost
        derived = derived.with_columns(values.alias(name))
    faults.values = +faults.values
    return derived


def kind_of_domain(domain: str) -> str:
    """The kind of host slice for calls of a domain (HIP_RUNTIME_API, MARKER_CORE_API, …).

    'driver' for HSA and lower layers, 'runtime' for HIP and libraries, 'annotation' for markers and all others.
    """
    if _DRIVER.search(domain) and not _MARK.search(domain):
        return "driver"
    return "runtime" if _RUNTIME.search(domain) and not _MARK.search(domain) else "annotation"


def fraction(value: pl.Expr, name: str) -> pl.Expr:
    """A fraction of peak; null if impossible: negative, or above 1.5."""
    return pl.when((value >= 0) & (value <= 1.5)).then(value).alias(name)
