"""Who launched it: operator, module and Python line of a launch, and the forward operator of a backward one."""

from __future__ import annotations

from typing import Any

import numpy as np
from runs import host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.core.call_tree import nearest, parent_within, sum_below
from warplens.analysis.core.callers import callers_of
from warplens.analysis.details.row_details import details
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view


def call(start: int, dur: int, correlation: int, name: str = "cudaLaunchKernel", **more: Any) -> dict[str, Any]:
    return host(name, start, dur, "runtime", correlation=correlation, **more)


def told(run: Any, *names: str) -> list[tuple[Any, ...]]:
    callers = callers_of(run)
    assert callers is not None
    return callers.frame.select(names).rows()


FORWARD = [
    host("train.py(41): main", 0, 1000, "python"), host("nn.Module: Linear_0", 10, 400, "python"),
    host("torch/nn/modules/linear.py(114): forward", 20, 300, "python"), host("aten::linear", 30, 200, external_id=5),
    host("aten::addmm", 40, 100, external_id=6, sequence=7), call(50, 10, 1),
]


def test_the_innermost_operator_around_the_launch_call_launched_it() -> None:
    run = run_of(host=FORWARD, kernels=[kernel(0, 100, 5, correlation=1)])
    assert told(run, "op", "module", "frame", "launch_ns") == [("aten::addmm", "Linear_0", "train.py(41): main", 50)]


def test_the_external_id_of_the_activity_says_it_before_time_does() -> None:
    run = run_of(host=FORWARD, kernels=[kernel(0, 100, 5, correlation=1, op_id=5)])
    assert told(run, "op") == [("aten::linear",)]


def test_the_framework_s_own_line_is_taken_only_where_there_is_no_other() -> None:
    run = run_of(host=FORWARD[2:], kernels=[kernel(0, 100, 5, correlation=1)])
    assert told(run, "frame") == [("torch/nn/modules/linear.py(114): forward",)]


def test_a_backward_operator_has_the_line_of_its_forward_operator() -> None:
    backward = [
        host("autograd::engine::evaluate_function: AddmmBackward0", 2000, 100, tid=2, sequence=7, forward_tid=1),
        host("AddmmBackward0", 2010, 80, tid=2, sequence=7, forward_tid=1), host("aten::mm", 2020, 50, tid=2),
        call(2030, 5, 2, tid=2),
    ]
    earlier = host("aten::add", 35, 2, sequence=7)
    run = run_of(host=[*FORWARD, earlier, *backward], kernels=[kernel(0, 2100, 5, correlation=2)])
    assert told(run, "op", "op_forward", "module", "frame") == [
        ("aten::mm", "aten::addmm", "Linear_0", "train.py(41): main")]


def test_a_graph_s_kernels_have_the_operator_around_the_replay_and_nobody_knows_who_captured_them() -> None:
    replay = [host("aten::linear", 0, 100), call(10, 20, 1, name="cudaGraphLaunch")]
    run = run_of(host=replay, kernels=[kernel(0, 50, 5, correlation=1), kernel(1, 60, 5, correlation=1)])
    assert told(run, "op", "frame", "launch_ns") == [("aten::linear", None, 10)] * 2
    assert run.links["op"] == {"replay": 2}
    table = ask(view("launches"), (run,))
    assert table.notes == ("2 launches came from graph replays; the capturing operators were not recorded.",)


def test_launches_carry_their_caller_and_cycle_and_a_scope_keeps_frames_that_began_before() -> None:
    run = run_of(
        host=[*FORWARD, call(1990, 2, 9)],
        kernels=[kernel(0, 100, 5, correlation=1), kernel(1, 2000, 5, correlation=9)],
        cycles=[{**one, "start_ns": one["start_ns"] + 25} for one in steps(100, 3000)],
    )
    rows = ask(view("launches"), (run,)).frame.to_dicts()
    assert [(r["op"], r["frame"], r["cycle"]) for r in rows] == [
        ("aten::addmm", "train.py(41): main", 0), (None, None, 1)]
    (one,) = ask(view("launches"), (run,), Options(cycle=0)).frame.to_dicts()
    assert (one["op"], one["frame"], one["module"]) == ("aten::addmm", "train.py(41): main", "Linear_0")


def test_a_kernel_names_the_operator_behind_most_of_its_launches() -> None:
    other = [host("aten::mul", 500, 100), call(510, 5, 2), call(520, 5, 3)]
    run = run_of(host=[*FORWARD, *other], kernels=[kernel(n, 600 + n, 5, correlation=n + 1) for n in range(3)])
    (row,) = ask(view("kernels"), (run,)).frame.to_dicts()
    assert row["op"] == "aten::mul" and row["count"] == 3


def test_a_kernel_opens_into_its_callers_and_an_operator_into_its_kernels() -> None:
    run = run_of(host=FORWARD, kernels=[kernel(0, 600, 5, correlation=1)])
    opened = {}
    for name in ("kernels", "ops"):
        opened |= {s.title: s.rows for s in details(view(name), ask(view(name), (run,)), 0, (run,), Options()).sections}
    assert opened["Launched by"][0] == ("aten::addmm", "Linear_0", "train.py:41 main", "1", "5 ns")
    assert opened["Kernels it launched"] == (("gemm", "1", "5 ns"),)


def test_launches_without_a_host_have_no_caller() -> None:
    run = run_of(kernels=[kernel(0, 100, 5, correlation=1)])
    assert callers_of(run) is None
    (row,) = ask(view("launches"), (run,)).frame.to_dicts()
    assert row["op"] is None and row["launch_ns"] is None


def test_a_chain_deeper_than_anybody_calls_is_climbed_all_the_same() -> None:
    parent = np.arange(-1, 4999)
    wanted = np.zeros(5000, dtype=bool)
    wanted[[0, 17]] = True
    rows = np.array([4999, 17, 16, -1])
    assert nearest(parent, rows, wanted).tolist() == [17, 17, 0, -1]
    assert parent_within(parent, wanted).tolist() == [-1, 0]


def test_sums_below_count_every_level() -> None:
    parent, depth = np.array([-1, 0, 1, 1, -1]), np.array([0, 1, 2, 2, 0])
    assert sum_below(parent, depth, np.array([1, 2, 4, 8, 16])).tolist() == [15, 14, 4, 8, 16]
