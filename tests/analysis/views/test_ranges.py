"""The ranges view: host time of what was marked, and the device time launched inside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.core.stretches import LaunchStretches, busy_of
from warplens.analysis.details.row_details import details
from warplens.analysis.views import view


def marked(name: str, start: int, dur: int, tid: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "annotation", "start_ns": start, "dur_ns": dur, "pid": 1, "tid": tid, **more}


def call(correlation: int, start: int, tid: int = 1, pid: int = 1) -> dict[str, Any]:
    return {"name": "cudaLaunchKernel", "kind": "runtime", "start_ns": start, "dur_ns": 1, "pid": pid, "tid": tid,
            "correlation": correlation}


def ran(correlation: int, start: int, dur: int, name: str = "gemm", device: str = "GPU 0") -> dict[str, Any]:
    return {"name": name, "kind": "kernel", "start_ns": start, "dur_ns": dur, "device": device,
            "correlation": correlation}


NESTED = {
    "host": [marked("step", 0, 100), marked("inner", 10, 20), marked("inner", 50, 10), call(1, 5), call(2, 12),
             call(3, 55), call(4, 100)],
    "kernels": [ran(1, 200, 10), ran(2, 205, 10), ran(3, 300, 7), ran(4, 400, 1000)],
}


def test_device_time_is_that_of_launches_begun_inside_and_self_that_of_no_range_within(run_of, asked):
    rows = {row["name"]: row for row in asked("ranges", run_of(**NESTED)).frame.to_dicts()}
    step, inner = rows["step"], rows["inner"]
    assert (step["count"], step["total_ns"], step["self_ns"]) == (1, 100, 70)
    assert (step["device_ns"], step["device_self_ns"], step["launches"]) == (27, 10, 3)
    assert step["busy_ns"] == 22  # 200-215 and 300-307: what overlaps counts once
    assert (inner["count"], inner["total_ns"], inner["device_ns"], inner["device_self_ns"]) == (2, 30, 17, 17)
    assert step["share"] == pytest.approx(27 / 1027)


def test_projected_time_goes_from_the_first_start_to_the_last_end_of_each_range(run_of, asked):
    rows = {row["name"]: row for row in asked("ranges", run_of(**NESTED)).frame.to_dicts()}
    assert (rows["step"]["projected_ns"], rows["inner"]["projected_ns"]) == (107, 17)  # 200-307; 205-215 and 300-307


def test_a_range_inside_one_of_the_same_name_does_not_count_its_launches_twice(run_of, asked):
    host = [marked("again", 0, 100), marked("again", 10, 50), call(1, 20)]
    row = asked("ranges", run_of(host=host, kernels=[ran(1, 200, 10)])).frame.row(0, named=True)
    assert (row["count"], row["total_ns"], row["self_ns"]) == (2, 150, 100)
    assert (row["device_ns"], row["launches"]) == (10, 1)


def test_ranges_that_overlap_without_nesting_each_have_what_was_launched_in_them(run_of, asked):
    host = [marked("first", 0, 50), marked("second", 40, 60), call(1, 45), call(2, 70)]
    rows = asked("ranges", run_of(host=host, kernels=[ran(1, 200, 10), ran(2, 300, 5)])).frame
    assert dict(rows.select("name", "device_ns").rows()) == {"first": 10, "second": 15}


def test_what_a_thread_without_ranges_launches_meanwhile_is_counted_apart(run_of, asked):
    host = [marked("backward", 0, 100), call(1, 20, tid=2), call(2, 30, tid=3), marked("own", 25, 10, tid=3),
            call(3, 40, tid=9, pid=2)]
    frame = asked("ranges", run_of(host=host, kernels=[ran(1, 50, 10), ran(2, 60, 3), ran(3, 70, 100)])).frame
    rows = {row["name"]: row for row in frame.to_dicts()}
    assert (rows["backward"]["device_ns"], rows["backward"]["elsewhere_ns"]) == (0, 10)
    assert (rows["own"]["device_ns"], rows["own"]["elsewhere_ns"]) == (3, 0)  # thread 2 launched before it began


def test_without_launch_calls_device_time_is_not_known_and_the_note_says_so(run_of, asked):
    table = asked("ranges", run_of(host=[marked("step", 0, 100)], kernels=[ran(1, 5, 10)]))
    assert table.frame.row(0, named=True)["device_ns"] is None
    assert table.notes == ("No launch call is recorded for any device activity, so device time belongs to no range.",)


def test_device_time_without_a_launch_is_said(run_of, asked):
    host = [marked("step", 0, 100), call(1, 5)]
    table = asked("ranges", run_of(host=host, kernels=[ran(1, 200, 30), ran(8, 300, 10)]))
    assert table.notes == ("25.0% of the device time has no recorded launch and belongs to no range.",)


def test_what_went_through_a_queue_belongs_to_the_range_of_its_operator(run_of, asked):
    operator = {"name": "aclnnMm", "kind": "op", "start_ns": 5, "dur_ns": 10, "pid": 1, "tid": 1, "external_id": -1}
    host = [marked("step", 0, 100), operator, {**call(1, 300, tid=9, pid=7), "external_id": -1}]
    row = asked("ranges", run_of(host=host, kernels=[{**ran(1, 400, 10), "op_id": -1}])).frame.row(0, named=True)
    assert (row["device_ns"], row["elsewhere_ns"]) == (10, 0)


def test_what_a_call_under_a_thread_of_its_own_launched_belongs_to_the_range_of_the_operator_it_names(run_of, asked):
    operator = {"name": "fusion", "kind": "op", "start_ns": 5, "dur_ns": 10, "pid": 1, "tid": 1, "external_id": -40}
    host = [marked("Execute", 0, 100), operator, {**call(1, 7, tid=9), "external_id": -40}, call(2, 8, tid=9)]
    row = asked("ranges", run_of(host=host, kernels=[ran(1, 400, 10), ran(2, 500, 3)])).frame.row(0, named=True)
    assert (row["device_ns"], row["launches"], row["elsewhere_ns"]) == (10, 1, 3)


def test_ranks_do_not_share_threads(run_of, asked):
    host = [marked("step", 0, 100, rank=0), {**call(1, 5), "rank": 1}]
    row = asked("ranges", run_of(host=host, kernels=[{**ran(1, 200, 30), "rank": 1}])).frame.row(0, named=True)
    assert (row["device_ns"], row["elsewhere_ns"]) == (0, 0)


def test_two_runs_have_a_row_per_name_with_the_difference(run_of, asked):
    b = {"host": [marked("step", 0, 150), call(1, 5)], "kernels": [ran(1, 200, 40)]}
    rows = asked("ranges", run_of("a", **NESTED), run_of("b", **b)).frame.to_dicts()
    found = {row["name"]: (row["device_ns_a"], row["device_ns_b"], row["device_ns_delta"], row["count_b"])
             for row in rows}
    assert found == {"inner": (17, 0, -17, 0), "step": (27, 40, 13, 1)}


def test_the_totals_of_two_runs_count_what_nested_ranges_share_once(run_of, asked):
    cycles = [{"cycle": at + 1, "start_ns": 1000 * at, "dur_ns": 1000, "kind": "step", "source": "recorded"}
              for at in range(2)]
    runs = [run_of(label, cycles=cycles, host=[
        one for at in range(2) for one in (marked("outer", 1000 * at, 100), marked("inner", 1000 * at + 10, 50),
                                           call(at + 1, 1000 * at + 20))],
        kernels=[ran(at + 1, 1000 * at + 200, long) for at in range(2)]) for label, long in (("a", 300), ("b", 400))]
    table = asked("ranges", *runs)
    assert table.summary[0].startswith("Per cycle: device 300 ns → 400 ns, host 100 ns → 100 ns, count 2 → 2")


def test_ranges_outside_of_the_cycles_compared_are_pointed_to_and_not_called_nothing(run_of, asked):
    cycles = [{"cycle": at + 1, "start_ns": 1000 * at, "dur_ns": 1000, "kind": "step", "source": "recorded"}
              for at in range(3)]
    run = run_of("run", cycles=cycles, host=[marked("save", 5000, 10), call(1, 100)], kernels=[ran(1, 200, 10)])
    table = asked("ranges", run, run)
    assert table.summary[0] == (
        "Nothing in the cycles compared (1 whole cycle in A, 1 in B): 1 row lies outside of them, shown by "
        "--per recording (% in the app).")
    assert asked("ranges", run).summary == ("1 range of 1 name · device time of the run 10 ns",)


def test_sums_per_device_cycle_have_the_work_launched_before_it_and_skip_cycles_launched_before_the_recording(
        run_of, asked):
    """The host is a cycle ahead; what A's first cycle ran was launched before the recording, B has all launches."""
    def recorded(label: str, first: int):
        kernels = [one for at in range(8) for one in (
            ran(2 * at + 1, 1000 * at + 1000, 10, "begins"), ran(2 * at + 2, 1000 * at + 1100, 300))]
        host = [one for at in range(first, 8) for one in (
            marked("forward", 1000 * at, 60), call(2 * at + 1, 1000 * at + 10), call(2 * at + 2, 1000 * at + 20))]
        return run_of(label, host=host, kernels=kernels)

    table = asked("ranges", recorded("a", 1), recorded("b", 0), options=Options(cycle_anchor="begins"))
    assert table.summary[0].startswith("Per cycle: device 310 ns → 310 ns,")
    assert table.summary[0].endswith("(mean of 7 whole cycles in A, 8 in B).")
    assert table.notes[-1].startswith("A: 1 whole cycle left out of what is compared per cycle:")
    assert sum("left out" in note for note in table.notes) == 1


def test_a_recording_without_ranges_says_what_would_have_them(run_of, asked):
    with pytest.raises(CannotAnswer, match="record_function"):
        asked("ranges", run_of(host=[call(1, 5)], kernels=[ran(1, 200, 10)]))


def test_the_details_list_what_was_launched_inside_and_the_longest(run_of, asked):
    run = run_of(**NESTED)
    table = asked("ranges", run)
    sections = {one.title: one.rows for one in details(view("ranges"), table, 1, (run,), Options()).sections}
    assert table.window(1, 2)[0][0] == "inner"
    assert sections["Launched inside"] == (("gemm", "2", "17 ns"),)
    assert [row[3] for row in sections["Longest calls"]] == ["20 ns", "10 ns"]


def test_a_cycle_found_on_the_device_has_the_work_that_was_launched_before_it(run_of, asked):
    """The host is a cycle ahead: what a cycle ran was launched in the one before."""
    kernels = [one for at in range(8) for one in (
        ran(2 * at + 1, 1000 * at + 1000, 10, "begins"), ran(2 * at + 2, 1000 * at + 1100, 300))]
    host = [one for at in range(8) for one in (
        marked("forward", 1000 * at, 60), marked("aten::mm", 1000 * at, 50) | {"kind": "op"},
        call(2 * at + 1, 1000 * at + 10), call(2 * at + 2, 1000 * at + 20))]
    run, scope = run_of(host=host, kernels=kernels), Options(cycle=3, cycle_b=4, cycle_anchor="begins")
    ops = asked("ops", run, options=scope).frame.row(0, named=True)
    assert (ops["calls"], ops["device_self_ns"], ops["host_self_ns"]) == (1, 310, 48)
    ranges = asked("ranges", run, options=scope).frame.row(0, named=True)
    assert (ranges["count"], ranges["device_ns"], ranges["share"], ranges["launches"]) == (1, 310, 1.0, 2)
    assert asked("ops", run, run, options=scope).frame["device_self_ns_b"].to_list() == [310]
    both = asked("ranges", run, run, options=Options(cycle_anchor="begins"))
    assert both.frame["share_per_cycle_a"].to_list() == [1.0]


def test_a_range_without_a_duration_counts_and_is_in_no_sum(run_of, asked):
    table = asked("ranges", run_of(host=[marked("step", 0, 100), marked("step", 200, None), marked("open", 5, None)]))
    rows = {row["name"]: row for row in table.frame.to_dicts()}
    assert (rows["step"]["count"], rows["step"]["total_ns"], rows["step"]["p50_ns"]) == (2, 100, 100)
    assert (rows["open"]["count"], rows["open"]["total_ns"], rows["open"]["self_ns"]) == (1, None, None)
    assert "2 of 3 ranges have no time: they count, and are in no sum, mean or percentile." in table.notes


@pytest.mark.parametrize("seed", range(40))
def test_device_time_of_overlapping_launches_is_that_of_each_activity_looked_at(seed: int) -> None:
    """Random activities on a few devices, launched in random stretches of a few names."""
    rng = np.random.default_rng(seed)
    count, names = int(rng.integers(1, 60)), 4
    start = np.sort(rng.integers(0, 40 + 400 * (seed % 3), count)) + rng.integers(-9, 9, count)
    dur, device = rng.integers(0, 12, count), rng.integers(0, 1 + seed % 3, count)
    cuts = [np.unique(rng.integers(0, count + 1, 2 * int(rng.integers(0, 4)))) for _ in range(names)]
    stretches = [(name, int(a), int(b)) for name, cut in enumerate(cuts)
                 for a, b in zip(cut[::2], cut[1::2], strict=False)]
    owner, first, last = np.array(stretches, np.int64).reshape(-1, 3).T
    inside = LaunchStretches(owner, first, last)
    expected = [len({
        (int(device[at]), moment) for one, a, b in stretches if one == name for at in range(a, b)
        for moment in range(int(start[at]), int(start[at] + dur[at]))}) for name in range(names)]
    assert busy_of(inside, start, dur, device, names).tolist() == expected
    assert inside.sums(dur, names).tolist() == [
        sum(int(dur[a:b].sum()) for one, a, b in stretches if one == name) for name in range(names)]
