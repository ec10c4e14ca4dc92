"""Idle time cycle by cycle: cut at any moment, its pieces have the causes of the whole."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.cycles.step_times import NOTHING, StepTimes
from warplens.analysis.idle.attribution import idle_of
from warplens.analysis.idle.by_cycle import idle_by_cycle
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

SAMPLES = Path(__file__).parents[3] / "samples"


@cache
def recorded() -> Trace:
    return open_run(str(SAMPLES / "demo" / "normal.json.gz"), use_cache=False)[0]


def cut(run: Trace, *bounds: int) -> tuple[pl.DataFrame, StepTimes]:
    """Cycles of those bounds, and their time on every device."""
    rows = range(len(bounds) - 1)
    cycles = pl.DataFrame({"cycle": rows, "row": rows}, schema={"cycle": pl.Int64, "row": pl.Int64})
    devices = run.kernels.select("rank", "device").unique().collect()
    parts = pl.DataFrame(
        {"from_ns": bounds[:-1], "to_ns": bounds[1:], "row": rows, "part": ["window"] * len(rows)},
        schema={name: kind for name, kind in NOTHING.parts.schema.items() if name not in ("rank", "device")})
    return cycles, StepTimes(NOTHING.devices, devices.join(parts, how="cross").select(NOTHING.parts.columns))


@given(st.lists(st.floats(0, 1), max_size=8))
def test_however_windows_cut_the_recording_its_causes_sum_to_those_of_the_whole(cuts: list[float]) -> None:
    run = recorded()
    idle = idle_of(run, run)
    assert idle is not None
    end = run.kernels.select((pl.col("start_ns") + pl.col("dur_ns")).max()).collect().item()
    first = run.kernels.select(pl.col("start_ns").min()).collect().item()
    bounds = sorted({first, end, *(first + round(share * (end - first)) for share in cuts)})
    table = idle_by_cycle(run, *cut(run, *bounds))
    sums = table.group_by("device", "cause").agg(pl.col("dur_ns").sum())
    found = {(device, cause): total for device, cause, total in sums.rows()}
    assert found == {(one.device, cause): total for one in idle.devices for cause, total in one.causes.items()}


def test_a_lead_before_the_first_activity_and_a_tail_after_the_last_have_causes() -> None:
    run = recorded()
    first, last = run.kernels.select(
        pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("end")).collect().row(0)
    inner, outer = (idle_by_cycle(run, *cut(run, first - more, last + more))["dur_ns"].sum() for more in (0, 1_000))
    assert outer == inner + 2_000


def test_without_times_there_are_no_rows() -> None:
    run = recorded()
    cycles, times = cut(run, 0, 1)
    assert idle_by_cycle(run, cycles.head(0), times).is_empty()
    assert idle_by_cycle(run.with_tables(kernels=run.kernels.head(0)), cycles, times).is_empty()
