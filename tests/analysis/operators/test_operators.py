"""The ops view: time per operator as torch_tb_profiler counts it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.core.callers import launchers
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run


def op(name, start_ns, dur_ns, external_id=None, kind="op", tid=1):
    return {"name": name, "kind": kind, "start_ns": start_ns, "dur_ns": dur_ns, "external_id": external_id,
            "pid": 1, "tid": tid}


def call(start_ns, dur_ns, correlation, external_id=None, tid=1, kind="runtime", name="cudaLaunchKernel"):
    return {"name": name, "kind": kind, "start_ns": start_ns, "dur_ns": dur_ns, "correlation": correlation,
            "external_id": external_id, "pid": 1, "tid": tid}


def launch(dur_ns, correlation, name="gemm", kind="kernel"):
    return {"name": name, "kind": kind, "start_ns": 0, "dur_ns": dur_ns, "correlation": correlation}


def table(rows):
    return {r["name"]: (r["calls"], r["device_self_ns"], r["device_total_ns"], r["host_self_ns"], r["host_total_ns"])
            for r in rows}


def test_self_is_without_children_and_total_with_them(run_of, rows_of):
    run = run_of(
        host=[op("linear", 0, 100, 1), op("addmm", 10, 50, 2), call(20, 5, 7, 2), call(70, 10, 8, 1)],
        kernels=[launch(300, 7), launch(40, 8, "copy", "memcpy")],
    )
    assert table(rows_of("ops", run)) == {"addmm": (1, 300, 300, 45, 50), "linear": (1, 40, 340, 40, 100)}


def test_a_call_without_an_external_id_belongs_to_the_innermost_operator_around_it(run_of, rows_of):
    run = run_of(
        host=[op("outer", 0, 100), op("inner", 10, 50), call(20, 5, 7), call(90, 5, 8, tid=2)],
        kernels=[launch(300, 7), launch(9, 8)],
    )
    assert table(rows_of("ops", run))["inner"][1] == 300
    assert table(rows_of("ops", run))["outer"][1:3] == (0, 300)


def test_a_call_belongs_to_the_operator_around_it_whatever_its_external_id_says(run_of, asked):
    run = run_of(host=[op("outer", 0, 100, 1), call(20, 5, 7, 0)], kernels=[launch(300, 7)])
    answer = asked("ops", run)
    assert table(answer.frame.to_dicts()) == {"outer": (1, 300, 300, 95, 100)}
    assert answer.facts["unclaimed_device_ns"] == 0 and not answer.notes


def test_what_an_annotation_among_the_operators_launched_was_launched_by_no_operator(run_of, asked):
    run = run_of(
        host=[op("Optimizer.step#SGD.step", 0, 100, kind="annotation"), op("add_", 50, 20), call(10, 5, 7),
              call(55, 5, 8)],
        kernels=[launch(300, 7), launch(100, 8)],
    )
    facts = asked("ops", run).facts
    assert (facts["device_ns"], facts["device_self_ns"], facts["unclaimed_device_ns"]) == (400, 100, 300)


def test_ids_that_only_repeat_the_correlation_are_not_believed(run_of, rows_of):
    run = run_of(
        host=[op("early", 0, 100, 7), op("late", 200, 50, 3), call(210, 5, 7, 7)], kernels=[launch(300, 7)])
    assert {name: row[1] for name, row in table(rows_of("ops", run)).items()} == {"late": 300, "early": 0}


def test_an_only_child_of_the_same_name_is_one_with_its_parent(run_of, rows_of):
    run = run_of(
        host=[op("to", 0, 100, 1), op("to", 10, 80, 2), op("copy", 20, 30, 3), call(60, 10, 7, 2)],
        kernels=[launch(300, 7)],
    )
    assert table(rows_of("ops", run)) == {"to": (1, 300, 300, 60, 100), "copy": (1, 0, 0, 30, 30)}


def test_two_children_of_the_same_name_are_calls_of_their_own(run_of, rows_of):
    run = run_of(host=[op("to", 0, 100, 1), op("to", 10, 20, 2), op("to", 40, 20, 3)])
    assert table(rows_of("ops", run))["to"] == (3, None, None, 100, 140)


def test_steps_loaders_and_optimizers_are_no_operators(run_of, rows_of):
    run = run_of(host=[
        op("ProfilerStep#3", 0, 1000), op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 90),
        op("aten::stack", 10, 20), op("Optimizer.step#SGD.step", 200, 50, kind="annotation"), op("mul_", 210, 10),
        op("DistributedDataParallel.forward", 300, 50), op("Optimizer.zero_grad#SGD.zero_grad", 400, 50),
    ])
    assert set(table(rows_of("ops", run))) == {"aten::stack", "mul_"}


def test_tensor_core_time_is_told_by_kernel_names(run_of, rows_of):
    run = run_of(
        host=[op("aten::linear", 0, 100, 1), op("aten::addmm", 10, 50, 2), call(20, 1, 7, 2), call(30, 1, 8, 2)],
        kernels=[launch(30, 7, "volta_fp16_s884gemm_fp16_128x128"), launch(10, 8, "splitKreduce_kernel")],
    )
    rows = {r["name"]: (r["tc_eligible"], r["tc_self_ratio"], r["tc_total_ratio"]) for r in rows_of("ops", run)}
    assert rows == {"aten::addmm": (True, 0.75, 0.75), "aten::linear": (True, 0.0, 0.75)}


def test_what_a_triton_kernel_ran_on_is_unknown(run_of, rows_of):
    run = run_of(
        host=[op("aten::mm", 0, 90, 1), call(20, 1, 7, 1), op("mine", 100, 90, 2), call(120, 1, 8, 2),
              op("aten::add", 200, 90, 3), call(220, 1, 9, 3)],
        kernels=[launch(30, 7, "triton_tem_fused_mm_2"), launch(20, 8, "matmul_kernel"), launch(10, 9, "add")],
    )
    rows = {r["name"]: (r["tc_eligible"], r["tc_self_ratio"], r["tc_total_ratio"]) for r in rows_of("ops", run)}
    assert rows == {"aten::mm": (True, None, None), "mine": (None, None, None), "aten::add": (False, 0.0, 0.0)}


def test_a_call_inside_a_call_is_not_taken_off_twice(run_of, rows_of):
    run = run_of(host=[op("mm", 0, 100, 1), call(20, 30, 7, 1), call(25, 10, 8, 1, kind="driver")])
    assert table(rows_of("ops", run))["mm"][3] == 70


def test_a_recorded_operator_table_is_shown_as_it_is(run_of, rows_of):
    run = run_of(operators=[{"name": "a", "calls": 3, "device_self_ns": 5, "host_self_ns": 1},
                            {"name": "b", "calls": 1, "device_self_ns": 9, "host_self_ns": 1}])
    rows = rows_of("ops", run)
    assert [(r["name"], r["calls"], r["device_total_ns"]) for r in rows] == [("b", 1, None), ("a", 3, None)]


def test_nothing_to_show_is_said(run_of, asked):
    with pytest.raises(CannotAnswer, match="no operators"):
        asked("ops", run_of(kernels=[launch(1, 1)]))


def test_two_runs_stand_side_by_side(run_of, rows_of):
    a, b = run_of("a", host=[op("x", 0, 10), op("y", 20, 5)]), run_of("b", host=[op("x", 0, 30), op("z", 50, 2)])
    assert [(r["name"], r["host_self_ns_a"], r["host_self_ns_b"], r["calls_delta"]) for r in rows_of("ops", a, b)] == [
        ("x", 10, 30, 0), ("y", 5, 0, -1), ("z", 0, 2, 1)]


def test_operators_that_cross_are_counted_in_a_note(run_of, asked) -> None:
    rows = [{"name": name, "kind": "op", "start_ns": start, "dur_ns": 50_000, "pid": 1, "tid": 1}
            for name, start in (("aten::a", 0), ("aten::b", 30_000))]
    assert any("1 host call ends after its caller" in note for note in asked("ops", run_of(host=rows)).notes)
    assert not asked("ops", run_of(host=rows[:1])).notes


def test_a_run_whose_calls_no_operator_made_has_none_that_launched(run_of) -> None:
    """The diff of two devices, one recorded without operators, ended with an IndexError."""
    run = run_of(host=[call(0, 10, 7)], kernels=[launch(300, 7)])
    found = launchers(run, run.kernels.collect()["index"], ("op", "call"))
    assert found.rows() == [(None, -1)]


def test_operators_and_what_is_unclaimed_add_up_to_the_launches(data: Path, deep: bool) -> None:
    """To the nanosecond, on real recordings: small ones, in ``make test-deep`` all up to 3 MB."""
    most, tested = 3_000_000 if deep else 40_000, 0
    for path in sorted((data / "traces/kineto").rglob("*.json*")):
        if path.stat().st_size > most:
            continue
        try:
            runs = open_run(str(path), use_cache=False)
        except Unreadable:
            continue
        for run in runs:
            if not run.has("kernels") or not run.has("host.kind=op"):
                continue
            answer = ask(view("ops"), (run,), Options())
            at = [column.name for column in answer.columns].index("device_self_ns")
            own = sum(row[at] or 0 for row in answer.window(0, answer.total_rows))
            work = run.kernels.filter(pl.col("kind") != "sync").select(pl.col("dur_ns").sum()).collect().item()
            assert own + answer.facts["unclaimed_device_ns"] == work, path
            tested += 1
    assert tested
