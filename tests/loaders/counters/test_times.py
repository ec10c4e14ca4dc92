"""Times of samples, to the nanosecond and on the clock they are of."""

from __future__ import annotations

import polars as pl
import pytest

from warplens.loaders.counters import times

_MOMENT = 1772460450  # 2026-03-02 14:07:30 UTC


@pytest.mark.parametrize(("text", "unit", "ns", "clock"), [
    ("2026/03/02 14:07:30.250", "", _MOMENT * 10**9 + 250_000_000, "local"),
    ("2026-03-02T14:07:30Z", "", _MOMENT * 10**9, "utc"),
    ("2026-03-02 15:07:30.123456789+01:00", "", _MOMENT * 10**9 + 123_456_789, "utc"),
    ("2026-03-02 09:37:30 -0430", "", _MOMENT * 10**9, "utc"),
    ("20260302 14:07:30", "", _MOMENT * 10**9, "local"),
    ("Mon Mar  2 14:07:30 UTC 2026", "", _MOMENT * 10**9, "utc"),
    ("1772460450", "", _MOMENT * 10**9, "utc"),
    ("1772460450.000000007", "", _MOMENT * 10**9 + 7, "utc"),
    ("1772460450123", "", _MOMENT * 10**9 + 123_000_000, "utc"),
    ("1772460450123456", "", _MOMENT * 10**9 + 123_456_000, "utc"),
    ("1772460450123456789", "", _MOMENT * 10**9 + 123_456_789, "utc"),
    ("12.5", "", 12_500_000_000, "relative"), ("12.5", "ms", 12_500_000, "relative"), ("0", "us", 0, "relative"),
    ("-1.5", "", -1_500_000_000, "relative"),
    ("14:07:30.5", "", (14 * 3600 + 7 * 60 + 30) * 10**9 + 500_000_000, "day"),
])
def test_a_time_is_read_to_the_nanosecond(text: str, unit: str, ns: int, clock: str) -> None:
    found = times.read(pl.Series([text]), unit)
    assert found is not None
    assert (found.ns.to_list(), found.clock) == ([ns], clock)


@pytest.mark.parametrize("text", ["", "soon", "GPU 0", "12:00", "2026-03-02", "1.2.3", "1e9"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert times.read(pl.Series([text])) is None


def test_single_damaged_times_are_null() -> None:
    found = times.read(pl.Series(["2026/03/02 14:07:30", "2026/13/45 25:61:61", "x", "2026/03/02 14:07:31"]))
    assert found is not None
    assert found.ns.to_list() == [_MOMENT * 10**9, None, None, (_MOMENT + 1) * 10**9]


def test_a_day_that_ends_goes_on() -> None:
    found = times.read(pl.Series(["23:59:59", "00:00:00", "00:00:01"]))
    assert found is not None and found.ns.diff().drop_nulls().to_list() == [10**9, 10**9]


def test_a_number_too_large_for_any_time_is_null() -> None:
    found = times.read(pl.Series(["1772460450", "9" * 19]))
    assert found is not None and found.ns.null_count() >= 1
