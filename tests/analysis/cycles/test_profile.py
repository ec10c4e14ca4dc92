"""β and μ from raw events: what is averaged, over what, and which metrics a function gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import host, kernel, run_of, samples, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.cycles.profile import (
    GROUPS,
    _grouped,
    _timed,
    belongs,
    during,
    metric_group,
    profile,
    profile_parts,
    sums,
)
from warplens.loaders import schema
from warplens.loaders.trace import Trace


def rows(run: Trace, *columns: str) -> list[tuple[Any, ...]]:
    return profile(run, Options()).select(columns).collect().rows()


def test_beta_is_the_summed_time_in_percent_of_the_cycle_overlap_and_all() -> None:
    launches = [kernel(0, 0, 60), kernel(1, 10, 60), kernel(2, 100, 20, "copy")]
    run = run_of(cycles=steps(100, 100), kernels=launches)
    assert rows(run, "cycle", "function", "beta", "dur_ns", "instances") == [
        (0, "gemm", 120.0, 120, 2), (1, "copy", 20.0, 20, 1)
    ]


def test_mu_is_the_mean_of_the_samples_inside_weighted_by_duration_on_the_reference_scale() -> None:
    clock = samples("gpu_sm_frequency", "GPU 0", *((t, 100.0 if t < 50 else 400.0) for t in range(0, 101, 10)))
    launches = [kernel(0, 0, 45), kernel(1, 50, 15), kernel(2, 65, 0), kernel(3, 70, 30)]
    run = run_of(cycles=steps(200), kernels=launches, metrics=clock)
    (mu, sigma, interpolated), = rows(run, "mu", "sigma", "interpolated")
    assert mu == pytest.approx(100 * (45 * 100 + 15 * 400 + 1 * 400 + 30 * 400) / 91)
    assert (sigma, interpolated) == (0.0, True)


def test_fewer_than_three_samples_inside_are_interpolated_at_both_ends() -> None:
    clock = samples("gpu_frequency", "GPU 0", (0, 100.0), (100, 300.0))
    run = run_of(cycles=steps(200), kernels=[kernel(0, 10, 40)], metrics=clock)
    assert rows(run, "mu", "sigma", "interpolated") == [(16_000.0, pytest.approx(4_000.0), True)]


def test_percentages_stay_percent_and_units_are_a_hundredfold() -> None:
    read = [*samples("process_gpu_usage", None, (0, 6.0), (50, 6.0), unit="%", pid=1),
            *samples("gpu_sm_frequency", "GPU 0", (0, 210.0), (50, 210.0), unit="MHz")]
    run = run_of(cycles=steps(60), kernels=[kernel(0, 5, 10, pid=1)], metrics=read)
    assert sorted(rows(run, "metric", "mu")) == [("gpu_sm_frequency", 21_000.0), ("process_gpu_usage", 6.0)]


def test_what_nobody_measured_is_null_and_the_function_stays() -> None:
    late = samples("gpu_frequency", "GPU 0", (500, 1.0), (510, 1.0))
    run = run_of(cycles=steps(100, 500), kernels=[kernel(0, 0, 10), kernel(1, 505, 10)], metrics=late)
    assert rows(run, "cycle", "metric", "mu") == [(0, None, None), (1, "gpu_frequency", 100.0)]


def test_a_counter_of_another_device_or_process_tells_nothing() -> None:
    read = [*samples("gpu_frequency", "GPU 1", (0, 1.0), (50, 1.0)), *samples("gpu_usage", None, (0, 1.0), pid=9)]
    run = run_of(cycles=steps(100), kernels=[kernel(0, 0, 10, pid=1)], metrics=read)
    assert rows(run, "metric") == [(None,)]


def test_host_functions_get_the_host_and_python_frames_nothing() -> None:
    read = [*samples("host_cpu_usage", "Host", (0, 5.0), (90, 5.0), unit="%"),
            *samples("gpu_frequency", "GPU 0", (0, 1.0), (90, 1.0)),
            *samples("disk_usage", "Host", (0, 1.0), (90, 1.0))]
    calls = [host("aten::mm", 0, 10), host("model.py: forward", 0, 50, "python"), host("read", 0, 5, "io")]
    run = run_of(cycles=steps(100), host=calls, metrics=read)
    assert sorted(rows(run, "function", "metric", "device"), key=str) == [
        ("aten::mm", "host_cpu_usage", "Host"), ("model.py: forward", None, "Host"), ("read", "disk_usage", "Host")
    ]


@pytest.mark.parametrize(("kind", "name", "metric", "on_device", "wanted"), [
    ("kernel", "gemm", "gpu_sm_frequency", True, True), ("kernel", "gemm", "gpu_link_receive", True, False),
    ("kernel", "gemm", "host_cpu_usage", False, False), ("collective", "nccl", "gpu_link_receive", True, True),
    ("collective", "nccl", "gpu_pcie_transmit", True, True), ("collective", "nccl", "net_rx_rate", False, True),
    ("memcpy", "Memcpy HtoD (Pinned -> Device)", "gpu_pcie_transmit", True, True),
    ("memcpy", "Memcpy HtoD (Pinned -> Device)", "gpu_link_receive", True, False),
    ("memcpy", "Memcpy DtoD (Device -> Device)", "gpu_link_receive", True, True),
    ("memcpy", "Memcpy PtoP (Device -> Device)", "gpu_pcie_transmit", True, False),
    ("sched", "oncpu", "cpu_frequency", False, True), ("io", "write", "disk_usage", False, True),
])
def test_which_metrics_belong_to_which_kind_of_function(
    kind: str, name: str, metric: str, on_device: bool, wanted: bool
) -> None:
    assert belongs(kind, name, metric_group(metric), on_device) is wanted


def test_a_recorded_profile_is_returned_as_it_is() -> None:
    recorded = [{"cycle": 1, "cycle_ns": 10, "function": "f", "metric": m, "device": "GPU 0", "beta": 3.0, "dur_ns": 4,
                 "instances": 2} for m in ("gpu_usage", "gpu_frequency")]
    run = run_of(profile=recorded)
    assert profile(run, Options()) is run.profile


def test_a_kernel_belongs_to_the_process_that_launched_it() -> None:
    calls = [host("cudaLaunchKernel", 1, 2, "runtime", correlation=5, pid=77)]
    run = run_of(cycles=steps(100), kernels=[kernel(0, 5, 10, correlation=5)], host=calls)
    assert set(rows(run, "pid")) == {(77,)}


moments = st.lists(st.integers(0, 300), min_size=1, max_size=40, unique=True).map(sorted)
intervals = st.lists(st.tuples(st.integers(-50, 350), st.integers(0, 120)), min_size=1, max_size=20)


@given(times=moments, pieces=intervals, data=st.data())
def test_the_fast_way_gives_what_one_interval_at_a_time_gives(
    times: list[int], pieces: list[tuple[int, int]], data: st.DataObject
) -> None:
    values = data.draw(st.lists(st.floats(-1e6, 1e6), min_size=len(times), max_size=len(times)))
    t, v = np.array(times), np.array(values)
    starts = np.array([start for start, _ in pieces])
    ends = starts + np.array([dur for _, dur in pieces])
    got = during(t, v, starts, ends)
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        inside = v[(t >= start) & (t <= end)]
        if len(inside) >= 3:
            assert got.mean[i] == pytest.approx(inside.mean(), abs=1e-6)
            assert got.variance[i] == pytest.approx(inside.var(), rel=1e-6, abs=1e-9 * (1 + np.ptp(v) ** 2))
        assert got.interpolated[i] == (len(inside) < 3)
        if not np.isnan(got.mean[i]):
            assert v.min() - 1e-6 <= got.mean[i] <= v.max() + 1e-6


def test_warm_up_cycles_are_left_out_where_the_options_say_so() -> None:
    launches = [kernel(i, start + 1, 10) for i, start in enumerate([0, 900, 1000, 1100, 1200])]
    run = run_of(cycles=steps(900, 100, 100, 100, 100), kernels=launches)
    assert profile(run, Options()).collect()["cycle"].to_list() == [0, 1, 2, 3, 4]
    assert profile(run, Options(warm_up=False)).collect()["cycle"].to_list() == [1, 2, 3, 4]


def test_ranks_that_number_their_cycles_alike_keep_their_own_lengths() -> None:
    cycles = [*steps(100, 100, rank=0), *steps(200, 200, rank=1)]
    launches = [kernel(rank * 10 + i, at, 50, rank=rank, pid=rank, device=f"GPU {rank}")
                for rank, starts in ((0, (0, 100)), (1, (0, 200))) for i, at in enumerate(starts)]
    found = profile(run_of(cycles=cycles, kernels=launches), Options()).select("pid", "cycle", "beta").collect()
    assert sorted(found.rows()) == [(0, 0, 50.0), (0, 1, 50.0), (1, 0, 25.0), (1, 1, 25.0)]


def test_events_that_are_added_up_in_blocks_give_what_all_at_once_give(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = [kernel(i, 7 * i, 5, "copy" if i % 3 else "gemm", device=f"GPU {i % 2}", correlation=i)
                for i in range(40)]
    calls = [host("cudaLaunchKernel", 7 * i, 2, "runtime", correlation=i, pid=77) for i in range(40)]
    read = [*samples("gpu_frequency", "GPU 0", *((t, 1.0 + t % 7) for t in range(0, 300, 9))),
            *samples("host_cpu_usage", "Host", *((t, 2.0 + t % 5) for t in range(0, 300, 11)), unit="%")]
    run = run_of(cycles=steps(90, 110, 100), kernels=launches, host=calls, metrics=read)
    whole = profile(run, Options()).collect()
    assert whole["mu"].null_count() < whole.height
    monkeypatch.setattr("warplens.analysis.cycles.profile.BLOCK", 7)
    again = run_of(cycles=steps(90, 110, 100), kernels=launches, host=calls, metrics=read)
    assert profile(again, Options()).collect().equals(whole)


numbers = st.none() | st.integers(-3, 3)
names = st.none() | st.sampled_from(["a", "b", "gemm"])
durations = st.none() | st.integers(0, 9)
groups = st.lists(st.tuples(numbers, numbers, names, names, names, numbers, durations, st.integers(1, 9)))


@given(rows=groups)
def test_events_are_grouped_as_polars_groups_them_but_a_sum_of_unknowns_is_unknown(rows: list[tuple[Any, ...]]) -> None:
    kinds = dict.fromkeys(GROUPS, pl.Int64) | dict.fromkeys(("function", "kind", "device"), schema.NAME)
    every = pl.DataFrame(rows, schema=kinds | {"dur_ns": pl.Int64, "instances": pl.Int64}, orient="row")
    plain = every.with_row_index("at").group_by(GROUPS, maintain_order=True).agg(
        *(pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()) for name in ("dur_ns", "instances")), "at")
    groups, row = _grouped(every)
    assert groups.equals(plain.drop("at")) and groups.schema == plain.drop("at").schema
    assert [np.flatnonzero(row == number).tolist() for number in range(groups.height)] == plain["at"].to_list()


def test_only_functions_that_a_counter_tells_about_are_looked_at_one_event_at_a_time() -> None:
    calls = [host("aten::mm", 10 * i, 5) for i in range(9)]
    run = run_of(cycles=steps(100), kernels=[kernel(0, 0, 10), kernel(1, 20, 10, "copy", kind="memcpy")], host=calls,
                 metrics=samples("gpu_frequency", "GPU 0", (0, 1.0), (90, 1.0)))
    found = sums(run, Options(), timed=_timed(run))
    assert found.groups["function"].to_list() == ["gemm", "copy", "aten::mm"]
    assert (found.row.tolist(), found.starts.tolist(), found.spans.tolist()) == ([0], [0], [10])


def test_a_run_without_any_event_has_an_empty_profile() -> None:
    assert profile(run_of(cycles=steps(100)), Options()).collect().is_empty()


def test_functions_and_metrics_apart_are_the_rows_of_the_profile() -> None:
    read = [*samples("gpu_frequency", "GPU 0", (0, 1.0), (150, 3.0)), *samples("gpu_usage", None, (0, 5.0), (90, 6.0))]
    calls = [host("aten::mm", 20 * i, 15) for i in range(9)]
    run = run_of(cycles=steps(100, 100), kernels=[kernel(i, 30 * i, 20) for i in range(6)], host=calls, metrics=read)
    whole = profile(run, Options()).collect()
    functions, measured = (table.collect() for table in profile_parts(run, Options()))
    assert measured.equals(whole.drop_nulls("metric")) and measured.height == 4
    each = whole.unique(["cycle", "function"], keep="first", maintain_order=True)
    assert functions.select("cycle", "function", "beta", "dur_ns", "instances", "cycle_ns").equals(
        each.select("cycle", "function", "beta", "dur_ns", "instances", "cycle_ns"))
    assert functions["metric"].null_count() == functions.height == 4
