"""Idle time cycle by cycle: cut at any moment, its pieces have the causes of the whole."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.idle.attribution import idle_of
from warplens.analysis.idle.by_cycle import idle_by_cycle
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

SAMPLES = Path(__file__).parents[3] / "samples"


@cache
def recorded() -> Trace:
    return open_run(str(SAMPLES / "demo" / "normal.json.gz"), use_cache=False)[0]


def windows(*bounds: int) -> pl.DataFrame:
    begin, end = list(bounds[:-1]), list(bounds[1:])
    return pl.DataFrame({
        "cycle": range(len(begin)), "rank": pl.Series([None] * len(begin), dtype=pl.Int64), "window_start_ns": begin,
        "window_end_ns": end,
    })


@given(st.lists(st.floats(0, 1), max_size=8))
def test_however_windows_cut_the_recording_its_causes_sum_to_those_of_the_whole(cuts: list[float]) -> None:
    run = recorded()
    idle = idle_of(run, run)
    assert idle is not None
    end = run.kernels.select((pl.col("start_ns") + pl.col("dur_ns")).max()).collect().item()
    table = idle_by_cycle(run, windows(*sorted({0, end, *(round(cut * end) for cut in cuts)})))
    sums = table.group_by("device", "cause").agg(pl.col("dur_ns").sum())
    found = {(device, cause): total for device, cause, total in sums.rows()}
    assert found == {(one.device, cause): total for one in idle.devices for cause, total in one.causes.items()}


@pytest.mark.parametrize(("share", "covered"), [(0.5, False), (0.0, True)])
def test_what_lies_before_the_first_activity_is_not_known_to_be_idle(share: float, covered: bool) -> None:
    run = recorded()
    first, last = run.kernels.select(
        pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("end")).collect().row(0)
    begin = round(first - share * (last - first))
    assert set(idle_by_cycle(run, windows(begin, last))["covered"]) == {covered}


def test_without_times_there_are_no_rows() -> None:
    run = recorded()
    assert idle_by_cycle(run, windows(0, 1).head(0)).is_empty()
    assert idle_by_cycle(run.with_tables(kernels=run.kernels.head(0)), windows(0, 1)).is_empty()
