"""The overview: each instant of a step to the first category that is active, and sentences that rest on it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer


def step(number, start_ns, dur_ns):
    return {"cycle": number, "start_ns": start_ns, "dur_ns": dur_ns, "label": f"ProfilerStep#{number}", "kind": "step",
            "source": "recorded"}


def op(start_ns, dur_ns, name="aten::mm", kind="op", external_id=None):
    return {"name": name, "kind": kind, "start_ns": start_ns, "dur_ns": dur_ns, "pid": 1, "tid": 1,
            "external_id": external_id}


def call(start_ns, dur_ns, correlation, name="cudaLaunchKernel"):
    return {"name": name, "kind": "runtime", "start_ns": start_ns, "dur_ns": dur_ns, "correlation": correlation,
            "pid": 1, "tid": 1}


def work(start_ns, dur_ns, correlation, name="k", kind="kernel", device="GPU 0", **more):
    return {"name": name, "kind": kind, "start_ns": start_ns, "dur_ns": dur_ns, "correlation": correlation,
            "device": device, **more}


def times(rows):
    return {row["category"]: row["time_ns"] for row in rows}


def test_each_instant_goes_to_the_first_category_that_is_active(run_of, rows_of):
    run = run_of(
        cycles=[step(1, 0, 1000)],
        host=[op(0, 300), call(50, 10, 1), call(100, 10, 2), call(200, 10, 3), call(250, 100, 4),
              op(600, 100, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"), op(650, 30)],
        kernels=[work(100, 100, 1), work(150, 100, 2, "copy", "memcpy"), work(240, 20, 3, "set", "memset"),
                 work(255, 25, 4, "ncclKernel_AllReduce", "collective")],
    )
    assert times(rows_of("overview", run)) == {
        "Kernel": 100, "Memcpy": 50, "Memset": 10, "Communication": 20, "Runtime": 80, "DataLoader": 100,
        "CPU Exec": 90, "Other": 550,
    }


def test_where_a_process_has_several_devices_the_breakdown_says_that_any_of_them_counts(run_of, asked):
    host = [op(0, 300), call(10, 5, 1), call(20, 5, 2)]
    one, two = (asked("overview", run_of(cycles=[step(1, 0, 400)], host=host, kernels=[
        work(100, 100, 1), work(200, 100, 2, device=second)])) for second in ("GPU 0", "GPU 1"))
    assert times(one.frame.to_dicts())["Kernel"] == times(two.frame.to_dicts())["Kernel"] == 200
    note = "Kernel, copy and communication time count while any of the 2 devices is busy."
    assert note in two.notes and note not in one.notes


def test_a_step_lasts_until_its_last_activity_and_the_next_begins_no_earlier(run_of, asked):
    run = run_of(
        cycles=[step(1, 0, 100), step(2, 100, 100)],
        host=[op(0, 90), call(10, 5, 1), op(100, 90), call(110, 5, 2)],
        kernels=[work(50, 100, 1), work(150, 100, 2)],
    )
    answer = asked("overview", run)
    assert times(answer.frame.to_dicts())["Kernel"] == 100
    assert (answer.facts["step_ns"], answer.facts["window_ns"]) == (100, (150 + 100) / 2)
    assert answer.summary[0].startswith("2 steps, mean 125 ns")
    assert answer.facts["devices"][0]["utilisation"] == 200 / 250


def test_steps_whose_activities_were_not_recorded_are_left_out_and_said(run_of, asked):
    run = run_of(
        cycles=[step(n, 100 * n, 100) for n in range(4)],
        host=[call(100 * n + 10, 5, n) for n in range(4)],
        kernels=[work(100 * n + 20, 50, n) for n in (1, 2, 3)],
    )
    answer = asked("overview", run)
    assert answer.facts["steps"] == 3 and answer.facts["coverage"]["steps_left_out"] == 1
    assert answer.facts["devices"][0]["utilisation"] == 0.5
    assert "1 of 4 steps was not recorded whole" in answer.notes[0]
    assert answer.facts["step_ns"] == 100


def test_a_last_step_that_was_cut_off_is_left_out(run_of, asked):
    launches = [(0, 10), (0, 20), (0, 30), (1, 10), (1, 20), (1, 30), (2, 10)]
    run = run_of(
        cycles=[step(n, 100 * n, 100) for n in range(3)],
        host=[call(100 * n + at, 5, 100 * n + at) for n, at in launches],
        kernels=[work(100 * n + at + 6, 2, 100 * n + at) for n, at in launches],
    )
    assert asked("overview", run).facts["steps"] == 2


def test_one_cycle_is_shown_alone(run_of, asked):
    run = run_of(
        cycles=[step(1, 0, 100), step(2, 100, 100)], host=[call(10, 5, 1), call(110, 5, 2)],
        kernels=[work(20, 10, 1), work(120, 70, 2)],
    )
    answer = asked("overview", run, options=Options(cycle=2))
    assert times(answer.frame.to_dicts())["Kernel"] == 70 and answer.facts["steps"] == 1


def test_without_steps_the_whole_recording_is_one(run_of, asked):
    answer = asked("overview", run_of(kernels=[work(100, 30, None), work(170, 30, None)]))
    assert times(answer.frame.to_dicts()) == {"Kernel": 60, "Memcpy": 0, "Memset": 0, "Communication": 0, "Other": 40}
    assert answer.notes == ("No steps are marked or found: the whole recording counts as one.",)


def test_kernels_under_a_communication_operator_communicate_whatever_their_name(run_of, rows_of):
    run = run_of(
        cycles=[step(1, 0, 100)], host=[op(0, 5, "nccl:all_reduce", external_id=9), call(10, 5, 1), call(15, 5, 2)],
        kernels=[work(20, 10, 1, "opaque", op_id=9), work(40, 10, 2)],
    )
    assert {k: v for k, v in times(rows_of("overview", run)).items() if k in ("Kernel", "Communication")} == {
        "Kernel": 10, "Communication": 10}, "the slice that requests it is host time"


def test_gauges_of_a_device(run_of, asked):
    run = run_of(kernels=[
        work(0, 100, None, "volta_s884gemm", blocks_per_sm=0.5, occupancy=0.2),
        work(50, 100, None, blocks_per_sm=0.75, occupancy=0.6), work(0, 200, None, device="GPU 1"),
    ])
    first, second = asked("overview", run).facts["devices"]
    assert first["utilisation"] == 150 / 200
    assert first["sm_efficiency"] == pytest.approx((50 * 0.5 + 50 * 1.0 + 50 * 0.75) / 200)
    assert first["occupancy"] == pytest.approx(0.4) and first["tensor_share"] == 0.5
    assert (second["utilisation"], second["sm_efficiency"], second["occupancy"]) == (1.0, None, None)


def test_a_gauge_that_names_of_kernels_leave_open_is_unknown(run_of, asked):
    def share(*kernels):
        one = asked("overview", run_of(kernels=list(kernels))).facts["devices"][0]
        return one["tensor_share"], one["tensor_least"]

    assert share(work(0, 50, None, "volta_s884gemm"), work(50, 50, None, "matmul_kernel")) == (None, 0.5)
    assert share(work(0, 50, None, "volta_s884gemm"), work(50, 50, None, "add")) == (0.5, 0.5)


def test_devices_of_one_number_on_several_ranks_are_told_apart(run_of, asked):
    def job(*devices):
        run = run_of(kernels=[work(at * 10, 100, None, "gemm", device=device, rank=at)
                              for at, device in enumerate(devices)])
        return asked("overview", replace(run, info=replace(run.info, ranks=tuple(range(len(devices))))))

    one = job("NPU 0", "NPU 0", "NPU 1")
    names = ["NPU 0 of rank 0", "NPU 0 of rank 1", "NPU 1"]
    assert [device["device"] for device in one.facts["devices"]] == names
    assert all(name in one.summary[0] for name in names)
    assert any("of the time of 3 devices" in line for line in one.facts["findings"])
    assert [device["device"] for device in job("GPU 0", "GPU 1").facts["devices"]] == ["GPU 0", "GPU 1"]


spans = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 300), st.sampled_from(
    ["kernel", "memcpy", "memset", "collective"])), min_size=1, max_size=8)


@given(spans, st.lists(st.tuples(st.integers(0, 900), st.integers(0, 300)), max_size=6))
def test_categories_fill_the_steps_and_devices_are_never_busier_than_the_union(run_of, asked, device, host):
    answer = asked("overview", run_of(
        kernels=[work(start, length, None, kind, kind) for start, length, kind in device],
        host=[op(start, length) for start, length in host],
    ))
    found = times(answer.frame.to_dicts())
    assert abs(sum(found.values()) - answer.facts["window_ns"]) <= len(found)  # each is rounded to a nanosecond
    assert min(found.values()) >= 0
    busy = np.zeros(1300, dtype=bool)
    for start, length, kind in device:
        if kind == "kernel":
            busy[start : start + length] = True
    assert found["Kernel"] <= busy.sum()


def test_a_breakdown_of_another_tool_is_shown_as_it_is(run_of, asked):
    rows = [{"step": None, "category": "Kernel", "time_ns": 300}, {"step": None, "category": "Other", "time_ns": 100},
            {"step": "1", "category": "Kernel", "time_ns": 300}]
    answer = asked("overview", run_of(breakdown=rows))
    assert answer.frame.rows() == [("Kernel", 300, 0.75, "device"), ("Other", 100, 0.25, None)]


def test_a_profile_gives_busy_time_per_cycle(run_of, asked):
    row = {"pid": 1, "cycle_ns": 1000, "function": "gemm", "kind": "kernel", "device": "GPU 7", "instances": 1}
    run = run_of(
        cycles=[step(1, 0, 1000), step(2, 1000, 1000)],
        profile=[{**row, "cycle": 1, "metric": "a", "dur_ns": 100}, {**row, "cycle": 1, "metric": "b", "dur_ns": 100},
                 {**row, "cycle": 2, "metric": "a", "dur_ns": 300}],
    )
    answer = asked("overview", run)
    assert times(answer.frame.to_dicts()) == {"Kernel": 200, "Other": 800}
    assert answer.facts["devices"][0]["utilisation"] == pytest.approx(0.2)


def test_a_device_of_a_profile_is_as_busy_as_its_own_process_makes_it(run_of, asked):
    row = {"cycle": 1, "cycle_ns": 1000, "function": "gemm", "kind": "kernel", "instances": 1, "dur_ns": 800}
    run = run_of(cycles=[step(1, 0, 1000)], profile=[
        {**row, "pid": 1, "device": "GPU 0"}, {**row, "pid": 2, "device": "GPU 1"},
        {**row, "pid": 1, "function": "runq", "kind": "runq", "device": "Host", "dur_ns": 600},
        {**row, "pid": 1, "function": "oncpu", "kind": "oncpu", "device": "Host", "dur_ns": 3000},
    ])
    facts = asked("overview", run).facts
    assert [device["utilisation"] for device in facts["devices"]] == [0.8, 0.8]
    said = "The process is on a CPU 150% of the cycle and waits for one 30.0%, all threads together."
    assert said in facts["findings"]


def test_launches_without_times_divide_by_kind_and_say_why(run_of, asked):
    kernels = [{"name": "a", "kind": "kernel", "dur_ns": 80_000, "tensor": 0.9, "dram": 0.1},
               {"name": "b", "kind": "kernel", "dur_ns": 20_000, "tensor": 0.0, "dram": 0.8}]
    answer = asked("overview", run_of(serialised=True, kernels=kernels))
    assert answer.frame.rows() == [("Kernel", 100_000, 1.0, "device")]
    assert "no timestamps" in answer.notes[0]
    assert "Bottlenecks by kernel time: 80% compute, 20% memory." in answer.facts["findings"]


def test_what_limits_kernels_is_not_said_where_it_is_unknown_for_most_of_them(run_of, asked):
    kernels = [{"name": "a", "kind": "kernel", "dur_ns": 40_000, "tensor": 0.9, "dram": 0.1},
               {"name": "b", "kind": "kernel", "dur_ns": 60_000}]
    assert not [said for said in asked("overview", run_of(kernels=kernels)).facts["findings"] if "Bottlenecks" in said]


def test_a_recording_of_calls_alone_says_how_much_of_its_time_they_take(run_of, asked):
    answer = asked("overview", run_of(host=[call(100, 300, 1), call(900, 100, 2, "cudaFree")]))
    assert [row for row in answer.frame.rows() if row[1]] == [
        ("Runtime", 400, 400 / 900, "host"), ("Other", 500, 500 / 900, None)]


def test_that_no_device_activity_was_recorded_is_said_once(run_of, asked):
    run = run_of(host=[call(100, 300, 1)])
    assert [note for note in asked("overview", run).notes if "o device activity" in note]
    warned = run.warn("no device activity was recorded: no kernels, copies or sets")
    assert not [note for note in asked("overview", warned).notes if "o device activity" in note]


def test_findings_name_what_devices_wait_for(run_of, asked):
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    run = run_of(cycles=[step(1, 0, 1000)], host=[op(0, 600, loader, "dataloader"), call(600, 5, 1)],
                 kernels=[work(610, 390, 1)])
    said = asked("overview", run).facts["findings"]
    rows = asked("overview", run).frame.select("category", "on").rows()
    assert {("Kernel", "device"), ("DataLoader", "host"), ("Runtime", "host")} <= set(rows)
    assert said[1] == "GPU 0 is busy 39% of a step."
    assert said[0].startswith("Input-bound: GPU 0 waits 600 ns of 1.00 µs a step for the DataLoader")


def test_two_runs_stand_side_by_side_in_the_order_of_categories(run_of, asked):
    def run(label, length):
        kernels = [work(10, length, 1), work(550, 10, 1)]
        return run_of(label, cycles=[step(1, 0, 1000)], host=[call(0, 5, 1)], kernels=kernels)

    answer = asked("overview", run("a", 100), run("b", 400))
    first = answer.frame.to_dicts()[0]
    assert first["category"] == "Kernel"
    assert (first["time_ns_a"], first["time_ns_b"], first["time_ns_delta"]) == (110, 410, 300)
    assert answer.facts["findings"][-1] == "GPU 0 is busy 11.0% of the time in steps in A, 41.0% in B."


def test_nothing_to_show_is_said(run_of, asked):
    with pytest.raises(CannotAnswer, match="holds"):
        asked("overview", run_of())


def test_a_whole_recording_begins_with_its_first_activity(run_of, asked):
    run = run_of(kernels=[work(0, 100, None, "copy", "memcpy"), work(100, 50, None)])
    answer = asked("overview", run)
    spent = {name: ns for name, ns in times(answer.frame.to_dicts()).items() if ns}
    assert spent == {"Memcpy": 100, "Kernel": 50}
    assert answer.facts["window_ns"] == 150


def test_of_many_devices_the_headline_names_the_least_and_the_most_busy(run_of, asked):
    run = run_of(kernels=[
        row for at in range(20)
        for row in (work(0, 100 + (at * 7) % 20, None, device=f"GPU {at}"), work(200, 100, None, device=f"GPU {at}"))
    ])
    table = asked("overview", run)
    assert "20 devices busy 70%, least GPU 0 67%, most GPU 17 73%" in table.summary[0]
    assert len(table.facts["devices"]) == 20
