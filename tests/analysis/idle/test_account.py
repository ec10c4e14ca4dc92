"""Every nanosecond of a stretch has one owner; what runs through many stretches costs no more than its two ends."""

from __future__ import annotations

import tracemalloc

import numpy as np
import polars as pl
import pytest

from warplens.analysis.idle.account import _of_activities


def activities(starts: list[int], durs: list[int], kinds: list[str], names: list[str]) -> pl.DataFrame:
    return pl.DataFrame({"start_ns": starts, "dur_ns": durs, "kind": kinds, "name": names})


def slowly(rows: pl.DataFrame, begin: list[int], end: list[int]) -> dict[tuple[str, str], list[float]]:
    """The same, nanosecond by nanosecond."""
    sums: dict[tuple[str, str], list[float]] = {}
    for at, (low, high) in enumerate(zip(begin, end, strict=True)):
        for now in range(low, high):
            running = [row for row in rows.rows(named=True) if row["start_ns"] <= now < row["start_ns"] + row["dur_ns"]]
            for kinds in (("kernel",), ("collective",), ("memcpy", "memset")):
                owners = [(row["kind"], row["name"]) for row in running if row["kind"] in kinds]
                for owner in owners:
                    sums.setdefault(owner, [0.0] * len(begin))[at] += 1 / len(owners)
                if owners:
                    break
    return sums


@pytest.mark.parametrize("seed", range(4))
def test_activities_across_stretches_own_what_they_own_nanosecond_by_nanosecond(seed: int) -> None:
    chance = np.random.default_rng(seed)
    count = 30
    rows = activities(
        chance.integers(0, 80, count).tolist(), chance.integers(0, 60, count).tolist(),
        chance.choice(["kernel", "collective", "memcpy"], count, p=[0.3, 0.4, 0.3]).tolist(),
        chance.choice(["a", "b", "c"], count).tolist())
    cuts = sorted(chance.choice(np.arange(5, 110), 12, replace=False).tolist())
    begin, end = cuts[::2], cuts[1::2]
    places = np.arange(len(begin))
    got = _of_activities(rows, np.array(begin), np.array(end), places, len(begin))
    want = {owner: sums for owner, sums in slowly(rows, begin, end).items() if any(sums)}
    assert got.keys() == want.keys()
    for owner, sums in got.items():
        assert sums.tolist() == pytest.approx(want[owner])


def test_activities_that_run_through_many_stretches_take_no_table_of_all_pairs() -> None:
    count = 2000
    rows = activities(list(range(count)), [10 * count] * count, ["kernel"] * count, ["k"] * count)
    begin = np.arange(0, 10 * count, 10)
    tracemalloc.start()
    _of_activities(rows, begin, begin + 10, np.arange(len(begin)), len(begin))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * count**2, "bytes: less than half of one array of all pairs"
