"""The kernels view: statistics per name that a plain loop over the launches would give."""

from __future__ import annotations

import math
from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.contract.options import Options, Thresholds
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.kernels.launch_groups import kinds
from warplens.analysis.table.filters import Filter


def launch(name, dur_ns, kind="kernel", device="GPU 0", **more):
    return {"name": name, "dur_ns": dur_ns, "kind": kind, "device": device, **more}


def test_one_row_per_name_kind_and_device_most_time_first(run_of, rows_of):
    run = run_of(kernels=[
        launch("gemm", 30), launch("copy", 5, "memcpy"), launch("gemm", 50), launch("gemm", 7, device="GPU 1"),
        launch("Stream Sync", 1000, "sync"),
    ])
    rows = rows_of("kernels", run)
    assert [(r["name"], r["device"], r["count"], r["total_ns"]) for r in rows] == [
        ("gemm", "GPU 0", 2, 80), ("gemm", "GPU 1", 1, 7), ("copy", "GPU 0", 1, 5),
    ]
    assert [r["share"] for r in rows] == [80 / 92, 7 / 92, 5 / 92]


durations = st.integers(min_value=0, max_value=10**15)
launches = st.lists(
    st.builds(launch, st.sampled_from(["a", "b", "[/red]", ""]), durations,
              st.sampled_from(["kernel", "memcpy", "sync"]), st.sampled_from(["GPU 0", "GPU 1", None])),
    min_size=1, max_size=60,
)


@given(launches)
def test_statistics_equal_a_plain_loop(run_of, rows_of, kernels):
    groups = defaultdict(list)
    for row in kernels:
        if row["kind"] != "sync":
            groups[row["name"], row["kind"], row["device"]].append(row["dur_ns"])
    got = {(r["name"], r["kind"], r["device"]): r for r in rows_of("kernels", run_of(kernels=kernels))}
    assert got.keys() == groups.keys()
    for key, values in groups.items():
        values.sort()
        row = got[key]
        rank = {p: values[max(math.ceil(len(values) * p / 100), 1) - 1] for p in (50, 99)}
        assert (row["count"], row["total_ns"]) == (len(values), sum(values))
        assert (row["min_ns"], row["p50_ns"], row["p99_ns"], row["max_ns"]) == (
            values[0], rank[50], rank[99], values[-1])
        assert row["mean_ns"] == pytest.approx(sum(values) / len(values))
        assert sum(row["trend"]) == len(values) and len(row["trend"]) == 12


@given(launches, st.randoms(use_true_random=False))
def test_the_order_of_launches_does_not_matter(run_of, rows_of, kernels, random):
    shuffled = random.sample(kernels, len(kernels))
    assert rows_of("kernels", run_of(kernels=kernels)) == rows_of("kernels", run_of(kernels=shuffled))


def test_utilisation_is_weighted_by_duration_and_null_where_nobody_measured(run_of, rows_of):
    run = run_of(kernels=[
        launch("a", 300, tensor=0.8, dram=0.2), launch("a", 100, tensor=0.0, dram=None), launch("b", 50),
    ])
    a, b = rows_of("kernels", run)
    assert a["tensor"] == pytest.approx(0.6) and a["dram"] == pytest.approx(0.2)
    assert b["tensor"] is None and b["dram"] is None and b["bound"] is None


@pytest.mark.parametrize(
    ("dur_ns", "tensor", "dram", "bound"),
    [
        (90_000, 0.5, 0.9, "compute"), (90_000, 0.49, 0.5, "memory"), (49_000, 0.09, 0.09, "launch"),
        (50_000, 0.09, 0.09, "low"), (1_000, 0.1, 0.0, "low"), (1_000, None, 0.0, None), (1_000, None, 0.7, None),
        (1_000, 0.7, None, None), (1_000, None, None, None),
    ],
)
def test_bound_claims_only_what_was_measured(run_of, rows_of, dur_ns, tensor, dram, bound):
    assert rows_of("kernels", run_of(kernels=[launch("k", dur_ns, tensor=tensor, dram=dram)]))[0]["bound"] == bound


def test_thresholds_are_settings(run_of, rows_of):
    run = run_of(kernels=[launch("k", 1_000, tensor=0.3, dram=0.0)])
    assert rows_of("kernels", run, options=Options(thresholds=Thresholds(tensor=0.3)))[0]["bound"] == "compute"


def test_kinds_behind_a_name_are_told_by_duration_where_no_grid_is_recorded(run_of, rows_of):
    kernels = [launch("gemm", base + i) for base in (10_000, 20_000, 80_000) for i in range(20)]
    stragglers = [launch("gemm", 1_600_000)]
    assert rows_of("kernels", run_of(kernels=kernels + stragglers))[0]["groups"] == 3


def test_kinds_behind_a_name_are_told_by_grid_even_where_durations_overlap(run_of, rows_of):
    noisy = [launch("gemm", base + step * 400, grid=grid) for step in range(20)
             for base, grid in ((10_000, "8,1,1"), (15_000, "16,1,1"), (15_001, "2,8,1"))]
    assert rows_of("kernels", run_of(kernels=noisy))[0]["groups"] == 2


def test_even_launches_are_one_kind(run_of, rows_of):
    assert rows_of("kernels", run_of(kernels=[launch("k", 10_000 + i) for i in range(50)]))[0]["groups"] == 1


def test_a_replay_says_that_its_totals_are_no_wall_time(run_of, asked):
    table = asked("kernels", run_of(serialised=True, kernels=[launch("k", 57_190_000)]))
    assert table.summary == ("1 launch · 57.19 ms of kernel time, serialised replay",)
    assert "serialised replays, not wall time" in table.notes[0]


def test_sums_without_launches_still_make_a_table(run_of, asked):
    run = run_of(kernel_stats=[
        {"name": "k", "kind": "kernel", "count": 4, "total_ns": 100, "max_ns": 60},
        {"name": "m", "kind": "memcpy", "count": 1, "total_ns": 300},
    ])
    table = asked("kernels", run)
    first, second = table.frame.to_dicts()
    assert (first["name"], first["share"], second["mean_ns"], second["max_ns"]) == ("m", 0.75, 25.0, 60)
    assert second["p50_ns"] is None and second["tensor"] is None and second["trend"] is None
    assert "no percentiles" in table.notes[0]


def test_a_profile_counts_each_launch_once_however_many_metrics_it_has(run_of, rows_of):
    row = {"pid": 1, "function": "gemm", "kind": "kernel", "device": "GPU 7", "instances": 3, "dur_ns": 90}
    run = run_of(profile=[
        {**row, "cycle": 0, "metric": "frequency"}, {**row, "cycle": 0, "metric": "usage"},
        {**row, "cycle": 1, "metric": "usage"}, {**row, "cycle": 1, "function": "oncpu", "kind": "oncpu"},
    ])
    rows = rows_of("kernels", run)
    assert [(r["name"], r["count"], r["total_ns"], r["mean_ns"]) for r in rows] == [("gemm", 6, 180, 30.0)]


def test_nothing_to_show_is_said(run_of, asked):
    with pytest.raises(CannotAnswer, match="no device activity"):
        asked("kernels", run_of(host=[{"name": "op", "kind": "op", "start_ns": 0, "dur_ns": 1}]))


def test_two_runs_stand_side_by_side_by_the_size_of_the_change(run_of, asked):
    shared = {"same": 100, "gone": 40, "slower": 10}
    a = run_of("a", kernels=[*(launch(*pair) for pair in shared.items()), launch("x", 1, device=None)])
    b = run_of("b", kernels=[launch("same", 100), launch("slower", 90), launch("new", 30), launch("x", 2, device=None)])
    rows = asked("kernels", a, b).frame.to_dicts()
    assert [(r["name"], r["total_ns_a"], r["total_ns_b"], r["total_ns_delta"]) for r in rows] == [
        ("slower", 10, 90, 80), ("gone", 40, 0, -40), ("new", 0, 30, 30), ("x", 1, 2, 1), ("same", 100, 100, 0),
    ]
    assert rows[2]["mean_ns_a"] is None and rows[2]["mean_ns_delta"] is None and rows[2]["count_a"] == 0


def test_a_kernel_opens_into_the_kinds_its_row_counts(run_of, rows_of):
    kernels = [launch("gemm", base + i, tensor=base / 100_000, dram=0.0) for base in (10_000, 80_000) for i in range(9)]
    run = run_of(kernels=[*kernels, launch("gemm", 1_600_000)])
    rows = kinds(run.kernels.collect())
    assert rows.height == rows_of("kernels", run)[0]["groups"] == 2
    assert rows.select("label", "count", "p50_ns", "bound").rows() == [
        ("80.00 µs to 1.60 ms", 10, 80_004, "compute"), ("10.00 µs to 10.01 µs", 9, 10_004, "low")]


def test_kinds_by_grid_are_named_after_their_grids(run_of):
    grids = ((10_000, "1,1,1"), (20_000, "2,1,1"), (20_000, "1,2,1"))
    kernels = [launch("k", base + i, grid=grid) for base, grid in grids for i in range(5)]
    rows = kinds(run_of(kernels=kernels).kernels.collect())
    assert rows.select("label", "count", "share").rows() == [
        ("grid 1,2,1; 2,1,1", 10, pytest.approx(0.8, abs=1e-3)), ("grid 1,1,1", 5, pytest.approx(0.2, abs=1e-3))]


def test_a_cycle_limits_the_table_and_says_how_much_of_the_run_it_is(run_of, asked):
    run = run_of(
        cycles=[{"cycle": n, "start_ns": n * 100, "dur_ns": 100, "label": f"ProfilerStep#{n}", "source": "recorded",
                 "kind": "step"} for n in (1, 2)],
        kernels=[launch("a", 30, start_ns=110), launch("a", 10, start_ns=210)],
        host=[{"name": "op", "kind": "op", "start_ns": 100, "dur_ns": 200, "pid": 1, "tid": 1}],
    )
    table = asked("kernels", run, options=Options(cycle=1))
    assert table.frame.select("name", "total_ns").rows() == [("a", 30)] and table.facts["coverage"] == 0.75
    assert asked("kernels", run).facts["coverage"] == 1.0
    assert asked("launches", run, options=Options(cycle=2)).frame["dur_ns"].to_list() == [10]


def test_launches_without_a_duration_are_counted_and_never_take_zero(run_of, asked):
    kernels = [launch("known", 5), launch("known", None), launch("bare", None, tensor=0.5)]
    table = asked("kernels", run_of(kernels=kernels))
    assert table.frame.select("name", "count", "total_ns", "p50_ns", "tensor", "share").rows() == [
        ("known", 2, 5, 5, None, 1.0), ("bare", 1, None, None, 0.5, None)]
    assert "2 of 3 launches have no time" in table.notes[0]


def test_runs_of_one_job_on_different_devices_are_compared_by_the_devices_order(run_of, asked):
    a = run_of("a", kernels=[launch("k", 10, device="GPU 3")])
    table = asked("kernels", a, run_of("b", kernels=[launch("k", 30, device="GPU 1")]))
    assert table.frame.select("device", "total_ns_a", "total_ns_b").rows() == [("GPU 3", 10, 30)]
    assert "compared B's GPU 1 with A's GPU 3" in " ".join(table.notes)


@pytest.mark.parametrize(
    ("words", "names"),
    [("device=GPU 1", ["b1"]), ("device!=GPU 1", ["a0", "c1"]), ("!device=GPU 1 c1", ["c1"]),
     ("device=GPU 1 total>15ns", []), ("total>15ns device=GPU 1x", ["c1"]), ("kind=kernel 1", ["b1", "c1"]),
     ("device=GPU 9", [])],
)
def test_a_value_with_a_space_needs_no_quotes_where_only_the_longer_one_exists(run_of, asked, words, names):
    run = run_of(kernels=[{**launch(name, dur), "device": device} for name, dur, device in (
        ("a0", 10, "GPU 0"), ("b1", 10, "GPU 1"), ("c1", 20, "GPU 1x"))])
    found = asked("kernels", run).filtered(Filter(words)).shown()["name"]
    assert sorted(found.cast(pl.String)) == names


@pytest.mark.parametrize(
    ("words", "names"),
    [("total>15ns", ["grown", "shrunk"]), ("total_a>15ns", ["shrunk"]), ("total_ns_b>15", ["grown"])],
)
def test_a_filter_over_two_runs_asks_either_side_or_the_one_it_names(run_of, asked, words, names):
    a = run_of("a", kernels=[launch("grown", 10), launch("shrunk", 20), launch("small", 1)])
    b = run_of("b", kernels=[launch("grown", 20), launch("shrunk", 10), launch("small", 1)])
    found = asked("kernels", a, b).filtered(Filter(words)).shown()["name"]
    assert sorted(found.cast(pl.String)) == names
