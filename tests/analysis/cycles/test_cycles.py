"""The cycles of a run: which source speaks, what is marked, and how two runs compare by rank."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import host, kernel, run_of, steps

from warplens.analysis.contract.column import Column
from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import Answer, CannotAnswer, Runs, View
from warplens.analysis.cycles import assignment, detection, statement
from warplens.analysis.cycles.detection import cycles_of, find_cycles
from warplens.analysis.cycles.scope import scoped
from warplens.analysis.cycles.statement import cycle_notes, homeless, left_out
from warplens.analysis.query.ask import ask
from warplens.analysis.query.report import report
from warplens.analysis.views import view
from warplens.analysis.views.cycles import VIEW
from warplens.loaders.schema_limits import LONGEST_NS
from warplens.loaders.trace import Trace

MS = 1_000_000


def test_recorded_cycles_win_over_everything_else() -> None:
    run = run_of(cycles=steps(5, 5, 5), host=[host("loop", 10 * i, 9) for i in range(9)])
    assert cycles_of(run, Options()).collect()["source"].to_list() == ["recorded"] * 3


def test_an_annotation_that_names_a_step_is_a_cycle_even_alone() -> None:
    run = run_of(host=[host("step[DECODE bs=32]", 3, 90, "annotation"), host("nccl:all_reduce", 5, 1, "annotation")])
    assert cycles_of(run, Options()).select("label", "kind", "start_ns", "dur_ns").collect().to_dicts() == [
        {"label": "step[DECODE bs=32]", "kind": "decode", "start_ns": 3, "dur_ns": 90}
    ]


def test_annotations_that_repeat_and_fill_the_time_are_cycles() -> None:
    marks = [host("batch 4", 0, 90, "annotation"), host("batch 5", 100, 95, "annotation"),
             host("batch 6", 200, 92, "annotation"), host("copy", 3, 5, "annotation")]
    found = cycles_of(run_of(host=marks), Options()).select("cycle", "label", "source").collect().to_dicts()
    assert found == [
        {"cycle": number, "label": f"batch {number + 3}", "source": "annotation"} for number in (1, 2, 3)
    ], "only the number of a step is that of its cycle"


def test_the_anchor_is_the_outermost_function_that_repeats() -> None:
    calls = [host("main", 0, 1000)]
    for i in range(10):
        calls += [host("Scheduler.run_batch", 100 * i, 96), *(host("layer", 100 * i + 24 * j, 23) for j in range(4))]
    found = cycles_of(run_of(host=calls), Options()).select("label", "source", "dur_ns").collect()
    assert found.unique().to_dicts() == [{"label": "Scheduler.run_batch", "source": "anchor", "dur_ns": 96}]
    assert found.height == 10


def test_a_chosen_anchor_overrides_what_was_recorded() -> None:
    run = run_of(cycles=steps(50, 50), host=[host("forward", 10 * i, 4) for i in range(6)])
    assert cycles_of(run, Options(cycle_anchor="^forw")).collect()["label"].to_list() == ["forward"] * 6


def test_a_chosen_kernel_opens_a_cycle_at_each_launch() -> None:
    launches = [kernel(i, 10 * i, 8, name) for i, name in enumerate(["x", "embed", "a", "b", "embed", "a", "b"])]
    found = cycles_of(run_of(kernels=launches), Options(cycle_anchor="embed")).collect()
    assert found.select("start_ns", "dur_ns", "first_index", "last_index").rows() == [(10, 30, 1, 3), (40, 28, 4, 6)]


def test_without_timestamps_a_cycle_is_the_summed_latency_of_its_launches() -> None:
    launches = [kernel(i, None, 10 + i, name) for i, name in enumerate(["embed", "a", "embed", "a"])]
    found = cycles_of(run_of(kernels=launches), Options(cycle_anchor="embed")).collect()
    rows = found.select("start_ns", "dur_ns", "busy_ns", "idle_ns").rows()
    assert rows == [(None, 21, 21, None), (None, 25, 25, None)]


def test_a_step_is_lead_device_time_and_tail_and_each_part_has_one_owner() -> None:
    launches = [kernel(0, 5, 10), kernel(1, 8, 4), kernel(2, 95, 15), kernel(3, 150, 10), kernel(4, 152, 2)]
    found = cycles_of(run_of(cycles=steps(100, 100), kernels=launches), Options()).collect()
    times = found.select("host_ns", "lead_ns", "device_ns", "tail_ns", "step_ns", "busy_ns", "idle_ns", "period_ns")
    assert times.rows() == [(100, 5, 105, 0, 110, 25, 85, None), (100, 40, 10, 40, 90, 10, 80, 50)]


def test_a_pause_between_two_marks_belongs_to_no_step() -> None:
    """Longer than a twentieth of a mark and than three times the usual gap, both above a millisecond."""
    begins = [0, 101 * MS, 202 * MS, 209 * MS + 100 * MS]  # gaps of 1, 1 and 7 ms
    marks = [{**one, "start_ns": at} for one, at in zip(steps(*[100 * MS] * 4), begins, strict=True)]
    work = [kernel(n, at + 5 * MS, 10 * MS) for n, at in enumerate(begins)]
    found = cycles_of(run_of(cycles=marks, kernels=work), Options()).collect()
    assert found["lead_ns"].to_list() == [5 * MS, 6 * MS, 6 * MS, 5 * MS]
    near = [{**one, "start_ns": at - 3 * MS * (at > 202 * MS)} for one, at in zip(marks, begins, strict=True)]
    work[3]["start_ns"] -= 3 * MS
    assert cycles_of(run_of(cycles=near, kernels=work), Options()).collect()["lead_ns"].to_list()[3] == 9 * MS


def test_an_outlier_is_a_long_mark_however_long_its_work_runs() -> None:
    """Of executions, whose calls only put work in a queue, it is a long step."""
    work = [kernel(n, 100 * n + 5, 170 if n == 7 else 10, stream=n) for n in range(10)]
    found = cycles_of(run_of(cycles=steps(*[100] * 10), kernels=work), Options()).collect()
    assert max(found["step_ns"].to_list()) > 160 and not found["outlier"].any()


def test_a_launch_belongs_to_the_cycle_whose_call_launched_it() -> None:
    calls = [host("cudaLaunchKernel", 90, 2, "runtime", correlation=7)]
    launches = [kernel(0, 10, 5, stream=1), kernel(1, 120, 5, correlation=7, stream=2)]
    found = cycles_of(run_of(cycles=steps(100, 100), kernels=launches, host=calls), Options()).collect()
    assert found["records"].to_list() == [1, 0], "nothing says who launched the one on stream 1"


def test_who_launched_what_is_found_once_however_often_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [host("cudaLaunchKernel", 90, 2, "runtime", correlation=7, pid=3)]
    launches = [kernel(0, 10, 5, stream=1), kernel(1, 120, 5, correlation=7, stream=2)]
    run = run_of(cycles=steps(100, 100), kernels=launches, host=calls)
    found: list[Trace] = []
    find = assignment._launches_of_kernels
    monkeypatch.setattr(assignment, "_launches_of_kernels", lambda trace: (found.append(trace), find(trace))[1])
    frame = find_cycles(run, Options()).frame
    for _ in range(2):
        mine = assignment.in_cycles(run, frame, device_time=False).select("index", "cycle", "pid").collect()
        assert mine.rows() == [(1, 0, 3)]
    assert [trace is run for trace in found] == [True]


def test_a_cycle_with_fewer_device_records_than_its_like_is_not_whole_and_its_busy_time_unknown() -> None:
    launches = [kernel(10 * c + i, 100 * c + 9 * i, 5) for c in range(1, 6) for i in range(10 if c > 1 else 4)]
    found = cycles_of(run_of(cycles=steps(*[100] * 6), kernels=launches), Options()).collect()
    assert found["complete"].to_list() == [False, False, True, True, True, True]
    assert found["busy_ns"].to_list() == [None, None, 50, 50, 50, 50]


def test_warm_up_is_marked_and_left_out_only_when_asked_with_a_note() -> None:
    run = run_of(cycles=steps(900, 400, 100, 101, 99, 100, 102, 98))
    assert ask(VIEW, (run,)).facts["warm_up"] == 2
    without = ask(VIEW, (run,), Options(warm_up=False))
    assert (without.facts["n"], without.facts["mean_us"]) == (6, 0.1)
    assert without.notes == ("2 warm-up cycles of run left out",)


def test_two_runs_compare_by_rank_slowest_first() -> None:
    a, b = run_of("a", cycles=steps(10, 30, 20)), run_of("b", cycles=steps(40, 15))
    assert ask(VIEW, (a, b)).frame.select("time_rank", "a_ns", "b_ns", "delta_ns", "delta_pct", "cycle_a").rows() == [
        (1, 30, 40, 10, pytest.approx(100 / 3), 1), (2, 20, 15, -5, -25.0, 2), (3, 10, None, None, None, 0),
    ]


def test_a_pair_says_its_totals_also_where_one_run_has_nothing() -> None:
    a, b = (run_of(cycles=steps(100, 100), kernels=[kernel(n, 100 * n + 5, dur) for n in range(2)]) for dur in (0, 10))
    (said,) = ask(view("kernels"), (a, b)).summary
    assert said == "Per cycle: total 0 ns → 10 ns, count 1 → 1 (mean of 2 whole cycles in A, 2 in B)."


def test_marks_without_any_work_are_not_judged() -> None:
    base = [750 * MS + i * MS for i in range(-6, 6)]
    slower = run_of("b", cycles=steps(*(value + 100 * MS for value in base)))
    said = ask(VIEW, (run_of("a", cycles=steps(*base)), slower)).summary[1]
    assert said.startswith("Cycle time not judged") and "850 ms in B" in said


def test_both_runs_share_the_bins_of_the_histogram() -> None:
    a, b = run_of("a", cycles=steps(*range(10, 30))), run_of("b", cycles=steps(*range(25, 50)))
    shape = ask(VIEW, (a, b)).facts["histogram"]
    assert (sum(shape["a"]), sum(shape["b"])) == (20, 25)
    assert len(shape["edges_ns"]) == len(shape["a"]) + 1 and shape["edges_ns"][0] == 10


def test_where_nothing_repeats_there_are_no_cycles_and_that_is_said() -> None:
    run = run_of(host=[host(f"f{i}", i, 1) for i in range(9)])
    assert cycles_of(run, Options()).collect().is_empty()
    table = ask(VIEW, (run,))
    assert len(table) == 0 and "no cycles" in table.summary[0]
    with pytest.raises(CannotAnswer, match="Neither run has cycles: no step marks"):
        ask(VIEW, (run, run))


def test_scope_keeps_what_the_cycle_launched_and_what_began_in_it() -> None:
    calls = [host("cudaLaunchKernel", at, 2, "runtime", correlation=at) for at in (8, 90, 115)] + [host("op", 110, 5)]
    launches = [kernel(0, 10, 5, stream=1, correlation=8), kernel(1, 120, 5, correlation=90),
                kernel(2, 130, 5, correlation=115)]
    samples = [{"ts_ns": 50, "metric": "power", "value": 1.0}, {"ts_ns": 150, "metric": "power", "value": 2.0}]
    run = run_of(cycles=steps(100, 100), kernels=launches, host=calls, metrics=samples)
    first, second = scoped(run, Options(cycle=0)), scoped(run, Options(cycle_b=1), "b")
    assert first.kernels.collect()["index"].to_list() == [0, 1]
    assert second.kernels.collect()["index"].to_list() == [2]
    assert (first.host.collect().height, second.host.collect()["name"].to_list()) == (2, ["cudaLaunchKernel", "op"])
    assert (first.metrics.collect()["value"].to_list(), second.metrics.collect()["value"].to_list()) == ([1.0], [2.0])
    assert scoped(run, Options(cycle=0), "b") is run


def test_scope_to_a_cycle_that_is_not_there_says_which_are() -> None:
    with pytest.raises(CannotAnswer, match="no cycle 9; it has cycles 0 to 1"):
        scoped(run_of(cycles=steps(100, 100)), Options(cycle=9))


def test_a_view_is_asked_about_the_cycle_of_the_options() -> None:
    def build(runs: Runs, options: Options) -> Answer:
        return Answer(runs[0].kernels.select("index"))

    column = Column("index", "index", "number", "index of the launch")
    run = run_of(cycles=steps(100, 100), kernels=[kernel(0, 10, 5), kernel(1, 120, 5)])
    assert ask(View("some", (column,), build), (run,), Options(cycle=1)).frame["index"].to_list() == [1]
    assert ask(VIEW, (run,), Options(cycle=1)).frame["cycle"].to_list() == [1]


def test_a_scoped_run_of_a_found_rhythm_still_goes_by_device_time() -> None:
    launches = [kernel(i, 10 * i, 7, name, stream=7) for i, name in enumerate(["norm", "gemm", "act", "mm", "add"] * 6)]
    inner = scoped(run_of(kernels=launches), Options(cycle=3))
    assert inner.kernels.collect()["index"].to_list() == [10, 11, 12, 13, 14]
    assert scoped(inner, Options(cycle=3)).kernels.collect().height == 5


def test_annotations_that_take_turns_are_one_cycle_a_round() -> None:
    marks = []
    for start in range(0, 400, 100):
        marks += [host("forward", start, 30, "annotation"), host("attention", start + 5, 4, "annotation"),
                  host("backward", start + 35, 50, "annotation"), host("nccl:all_reduce", start + 60, 5, "annotation")]
    found = cycles_of(run_of(host=marks), Options()).select("label", "start_ns", "dur_ns").collect()
    assert found.rows() == [("forward", 0, 100), ("forward", 100, 100), ("forward", 200, 100), ("forward", 300, 85)]


def test_an_anchor_that_is_no_expression_is_refused_in_a_sentence() -> None:
    with pytest.raises(CannotAnswer, match="not a regular expression"):
        ask(VIEW, (run_of(host=[host("f", 0, 1)]),), Options(cycle_anchor="step["))


spans = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 300), st.integers(0, 2)), min_size=1, max_size=30)


@given(work=spans, seed=st.randoms())
def test_the_steps_are_the_whole_and_the_order_of_rows_does_not_matter(
    work: list[tuple[int, int, int]], seed: random.Random
) -> None:
    launches = [kernel(i, start, dur, device=f"GPU {gpu}") for i, (start, dur, gpu) in enumerate(work)]
    cycles = find_cycles(run_of(cycles=steps(*[100] * 12), kernels=launches), Options())
    parts = cycles.times.parts.with_columns(length=pl.col("to_ns") - pl.col("from_ns"))
    for (device,), own in cycles.times.devices.drop_nulls("step_ns").group_by("device"):
        assert own.select((pl.col("busy_ns") + pl.col("other_ns") + pl.col("idle_ns") - pl.col("step_ns")).abs().max()
                          ).item() == 0
        assert own.select(pl.min_horizontal("busy_ns", "other_ns", "idle_ns").min()).item() >= 0
        mine = parts.filter(pl.col("device").cast(pl.String) == str(device)).sort("from_ns")
        assert mine["from_ns"].to_list()[1:] == mine["to_ns"].to_list()[:-1]
    seed.shuffle(launches)
    again = cycles_of(run_of(cycles=steps(*[100] * 12), kernels=launches), Options()).collect()
    assert again.equals(cycles.frame)


def test_kinds_are_compared_each_for_itself() -> None:
    a = [dict(step, kind=kind) for step, kind in zip(steps(900_000, 100_000, 100_000),
                                                     ["prefill", "decode", "decode"], strict=True)]
    b = [dict(step, kind=kind) for step, kind in zip(steps(900_000, 150_000), ["prefill", "decode"], strict=True)]
    assert ask(VIEW, (run_of("a", cycles=a), run_of("b", cycles=b))).summary[3] == (
        "mean per kind: prefill 900.0 µs → 900.0 µs · decode 100.0 µs → 150.0 µs"
    )


def test_cycles_of_no_length_are_compared_without_dividing_by_it() -> None:
    table = ask(VIEW, (run_of("a", cycles=steps(0, 0, 0, 0)), run_of("b", cycles=steps(5, 5, 5, 5))))
    assert table.summary[1].startswith("Cycle time not judged")
    assert table.frame["delta_pct"].to_list() == [None] * 4


def test_device_time_ends_with_the_last_activity_launched_and_a_step_behind_takes_what_it_ran() -> None:
    calls = [host("cudaLaunchKernel", 10, 2, "runtime", correlation=1),
             host("cudaLaunchKernel", 110, 2, "runtime", correlation=2)]
    launches = [kernel(0, 50, 100, correlation=1), kernel(1, 150, 100, correlation=2)]
    found = cycles_of(run_of(cycles=steps(100, 100), kernels=launches, host=calls), Options()).collect()
    assert found.select("dur_ns", "from_ns", "to_ns", "lead_ns", "step_ns", "busy_ns", "idle_ns").rows() == [
        (100, 50, 150, 50, 150, 100, 50), (100, 150, 250, 0, 100, 100, 0),
    ]


def test_an_activity_without_a_launch_record_belongs_to_the_latest_step_that_had_begun_on_its_device() -> None:
    calls = [host("cudaLaunchKernel", at, 2, "runtime", correlation=at) for at in (90, 110)]
    launches = [kernel(0, 95, 25, correlation=90), kernel(1, 110, 5), kernel(2, 130, 5), kernel(3, 125, 5),
                kernel(4, 122, 1, correlation=110)]
    run = run_of(cycles=steps(100, 100), kernels=launches, host=calls)
    assert scoped(run, Options(cycle=0)).kernels.collect()["index"].to_list() == [0, 1]
    assert scoped(run, Options(cycle=1)).kernels.collect()["index"].to_list() == [2, 3, 4]


def test_a_kernel_recorded_before_its_launch_belongs_to_the_cycle_of_the_launch() -> None:
    calls = [host("cudaLaunchKernel", 110, 2, "runtime", correlation=1)]
    run = run_of(cycles=steps(100, 100), kernels=[kernel(0, 95, 3, correlation=1)], host=calls)
    assert cycles_of(run, Options()).collect()["records"].to_list() == [0, 1]


def test_a_correlation_of_zero_ties_nothing_to_the_first_call_that_has_it() -> None:
    calls = [host("cudaEventQuery", 10, 2, "runtime", correlation=0)]
    launches = [kernel(i, 20 + 100 * i, 10, correlation=0) for i in range(3)]
    found = cycles_of(run_of(cycles=steps(100, 100, 100), kernels=launches, host=calls), Options()).collect()
    assert found["records"].to_list() == [1, 1, 1]
    assert found["window_end_ns"].to_list() == [100, 200, 300]


def test_durations_longer_together_than_an_integer_are_still_shared_out() -> None:
    launches = [kernel(i, 10 if i % 2 else 5000, LONGEST_NS) for i in range(2000)]
    assert find_cycles(run_of(cycles=steps(100, 100), kernels=launches), Options()).held == 0.5


def test_what_belongs_to_no_cycle_is_counted_and_said() -> None:
    marks = [dict(step, start_ns=step["start_ns"] + 1000) for step in steps(100, 100)]
    launches = [kernel(0, 10, 50), kernel(1, 1010, 50), kernel(2, 1110, 50), kernel(3, 5000, 50)]
    cycles = find_cycles(run_of(cycles=marks, kernels=launches), Options())
    assert (cycles.before, cycles.elsewhere, cycles.held) == (1, 1, 0.5)
    assert homeless(cycles) == "2 activities lie outside the steps: 50.0% of the device time."


def test_one_rule_says_which_cycles_were_recorded_whole() -> None:
    def whole(*records: int, rank: int | None = None) -> list[bool]:
        launches = [
            kernel(100 * c + i, 1000 * c + i, 1, rank=rank) for c, count in enumerate(records) for i in range(count)
        ]
        run = run_of(cycles=steps(*[1000] * len(records), rank=rank), kernels=launches)
        return cycles_of(run, Options()).collect()["complete"].to_list()

    assert whole(0, 65, 99, 99, 99) == [False, False, True, True, True]  # a recording that began in the second one
    assert whole(99, 99, 90, 99, 99) == [True, True, False, True, True]  # records were lost
    assert whole(99, 90, 99, 90, 99, 99) == [True] * 6  # a pattern: lost records are not lost twice in one number
    assert whole(60, 99, 31, 45, 80) == [True] * 5  # a serving engine: no number is usual
    assert whole(60, 99, 31, 45, 8) == [True, True, True, True, False]  # but its last one was cut
    assert whole(99, 99, 120) == [True, True, True]


def test_ranks_that_hold_less_alike_lost_nothing() -> None:
    marks, launches = [], []
    for rank in range(3):
        marks += steps(1000, 1000, 1000, rank=rank)
        launches += [kernel(len(launches), 1000 * c + i, 1, rank=rank) for c, n in enumerate((99, 99, 97))
                     for i in range(n)]
    assert all(cycles_of(run_of(cycles=marks, kernels=launches), Options()).collect()["complete"])


def test_cycles_not_recorded_whole_count_in_the_cycle_time_and_not_in_device_figures() -> None:
    launches = [kernel(100 * c + i, 1000 * c + i, 1) for c, n in enumerate((0, 9, 9, 9)) for i in range(n)]
    run = run_of(cycles=steps(2000, 1000, 1000, 1000), kernels=launches)
    cycles = find_cycles(run, Options())
    assert left_out(cycles) == "1 of 4 steps was not recorded whole and is left out of device figures."
    assert ask(VIEW, (run,)).facts["mean_us"] == 1.25


def test_a_call_that_only_waits_is_no_cycle() -> None:
    slices = [host("block_until_ready", 100 * i, 99) for i in range(9)]
    slices += [host("train_one", 300 * i, 290, tid=2) for i in range(3)]
    for row in slices:
        row["kind"] = "python"
    found = find_cycles(run_of(host=slices), Options())
    assert (found.anchor, found.frame.height) == ("train_one", 3)
    assert find_cycles(run_of(host=slices[:9]), Options()).frame.is_empty()


def test_found_functions_that_hold_little_of_the_device_time_are_no_cycles_where_launches_repeat() -> None:
    slices = [host("tick", 1000 * i, 990) for i in range(6)]
    calls = [host("cudaLaunchKernel", 10_000 + 10 * i, 2, "runtime", correlation=i + 1, tid=2) for i in range(30)]
    names = ["norm", "gemm", "attention", "gemm2", "gelu"] * 6
    launches = [kernel(i, 10_005 + 60 * i, 50, name, correlation=i + 1, stream=7) for i, name in enumerate(names)]
    found = find_cycles(run_of(host=[*slices, *calls], kernels=launches), Options())
    assert found.source == "pattern"


def test_a_profile_without_a_list_of_cycles_still_tells_them() -> None:
    row = {"pid": 1, "function": "gemm", "kind": "kernel", "device": "GPU 7", "instances": 5, "dur_ns": 100,
           "anchor": "run_batch"}
    rows = [{**row, "cycle": c, "cycle_start_ns": 1000 * c, "cycle_ns": 900} for c in range(3)]
    found = find_cycles(run_of(profile=rows), Options())
    assert found.frame.select("cycle", "dur_ns", "records").rows() == [(0, 900, 5), (1, 900, 5), (2, 900, 5)]
    assert (found.source, found.anchor) == ("recorded", "run_batch")


def test_a_view_that_cannot_answer_still_says_which_cycles_the_run_has() -> None:
    run = run_of(host=[host("ProfilerStep#1", 0, 10, "annotation")], cycles=steps(10, 20))
    table = report("idle", (run,), Options())
    assert len(table) == 0 and "no launches" in table.notes[0]
    assert table.all_facts["cycles"]["count"] == 2


def test_cycles_found_ahead_are_those_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(cycles=steps(5, 5, 5), kernels=[kernel(0, 1, 2)])
    assert statement.find_ahead((run,), Options()) is None, "a small recording is not worth a thread"
    monkeypatch.setattr(statement, "LEAST_BYTES", 0)
    found: list[Trace] = []
    find = detection._find
    monkeypatch.setattr(detection, "_find", lambda trace, anchor: (found.append(trace), find(trace, anchor))[1])
    thread = statement.find_ahead((run,), Options())
    assert thread is not None
    first = find_cycles(run, Options())
    thread.join()
    assert find_cycles(run, Options()) is first and [trace is run for trace in found] == [True]


def test_a_step_inside_another_one_is_named_with_the_outer_one() -> None:
    inner = steps(1)[0] | {"cycle": 7, "start_ns": 12_000, "dur_ns": 5_000}
    run = run_of(cycles=[*steps(10_000, 10_000), inner], kernels=[kernel(0, 10, 5), kernel(1, 11_000, 5)])
    assert find_cycles(run, Options()).frame["cycle"].to_list() == [0, 1]
    with pytest.raises(CannotAnswer, match="cycle 7 lies inside cycle 1"):
        scoped(run, Options(cycle=7))


def test_what_is_unknown_of_a_step_is_said() -> None:
    def said(*spans: tuple[int, int, int]) -> str:
        calls = [host("cudaLaunchKernel", at, 2, "runtime", correlation=n + 1) for n, (at, _, _) in enumerate(spans)]
        launches = [kernel(n, start, dur, correlation=n + 1) for n, (_, start, dur) in enumerate(spans)]
        marks = [row | {"start_ns": row["start_ns"] + 1000} for row in steps(100, 100, 100)]
        return " ".join(cycle_notes(find_cycles(run_of(cycles=marks, host=calls, kernels=launches), Options())))

    assert "Step 1 launched nothing on GPU 0." in said((1010, 1020, 5), (1210, 1220, 5))
    assert "Step 0 began after its mark: the device was at work that was not recorded." in said(
        (1010, 1150, 5), (1110, 1160, 5), (1210, 1220, 5))
    assert "The work of steps 0 and 1 ended before their marks began: the clocks of host and device disagree." in said(
        (1010, 20, 5), (1110, 120, 5), (1210, 1220, 5))
    assert "No step launched anything on a device." in said((1510, 1520, 5))
    assert "Step 0 ran under work launched before the first step: its times are not known." in said(
        (900, 950, 170), (1010, 1020, 5), (1110, 1150, 5), (1210, 1220, 5))


def test_a_step_of_no_length_or_whose_work_no_clock_allows_is_never_whole() -> None:
    launches = [kernel(n, 100 * n + 5, 50) for n in range(3)]
    marks = [row | {"dur_ns": 0} for row in steps(100, 100, 100)]
    empty = find_cycles(run_of(cycles=marks, kernels=launches), Options())
    assert empty.frame.select("complete", "busy_ns").rows() == [(False, None)] * 3
    assert "No step mark has a length: how long a step took is unknown." in empty.notes
    late = [host("cudaLaunchKernel", 100 * n + 1, 2, "runtime", correlation=n + 1) for n in range(3)]
    early = [kernel(n, 100 * n - 10_000, 50, correlation=n + 1) for n in range(3)]
    frame = find_cycles(run_of(cycles=steps(100, 100, 100), host=late, kernels=early), Options()).frame
    assert frame.select("complete", "step_ns", "busy_ns").rows() == [(False, None, None)] * 3
