"""Names of two runs: which are one function, and which are not."""

from __future__ import annotations

import polars as pl
import pytest
from runs import kernel, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.core.names.same_function import function_key, same_functions
from warplens.analysis.query.report import report
from warplens.loaders import schema
from warplens.loaders.trace import Trace

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array<char*, 3ul> >(int)"


@pytest.mark.parametrize(("a", "b"), [
    ("_ZN3foo3barILi4EEEvPf", "void foo::bar<4>(float*)"),
    ("_ZN3foo3barILi4EEEvPf.kd", "void foo::bar<(int)4>(float*) [clone .kd]"),
    ("gemm.kd", "gemm"),
    (ADD, ADD.replace("<4,", "<(int)4,").replace("3ul> >", "(unsigned long)3>>")),
    ("k<true>(int)", "k<(bool)1>(int)"),
    ("f<g()::{lambda(float)#1}>(int)", "f<g()::{lambda(float)#3}>(int)"),
    ("f<g()::{lambda(float)#1}>(int)", "f<g()::[lambda(float) (instance 2)]>(int)"),
    ("f<g()::{lambda(float)#1}>(int)", "f<g()::'lambda0'(float)>(int)"),
    ("(anonymous namespace)::f<4>(int)", "<unnamed>::f<4>(int)"),
])
def test_one_function_written_in_two_ways(a: str, b: str) -> None:
    assert function_key(a) == function_key(b)


@pytest.mark.parametrize(("a", "b"), [
    ("f<4>(int)", "f<8>(int)"), ("f<float>()", "f<double>()"), ("f<true>()", "f<false>()"), ("gemm_1", "gemm_2"),
    ("f<g()::{lambda(float)#1}>(int)", "f<g()::{lambda(double)#1}>(int)"),
])
def test_other_arguments_are_another_function(a: str, b: str) -> None:
    assert function_key(a) != function_key(b)


def test_what_both_have_is_left_alone_and_the_rest_is_matched_where_nothing_else_fits() -> None:
    a = {("f<{lambda()#1}>()", ()): 3.0, ("f<{lambda()#2}>()", ()): 5.0, ("ns::mul<4>(int)", ()): 1.0, ("old", ()): 1.0}
    b = {("f<{lambda()#1}>()", ()): 3.0, ("f<{lambda()#3}>()", ()): 5.0, ("mul", ()): 1.0, ("new", ()): 1.0}
    assert same_functions(a, b) == {("f<{lambda()#3}>()", ()): "f<{lambda()#2}>()", ("mul", ()): "ns::mul<4>(int)"}
    made = "void at::native::vectorized_elementwise_kernel<{}, at::native::CUDAFunctor_{}<float>, A>(int)"
    old, new = ({(made.format(width, what), ()): often for what, often in some} for width, some in (
        (4, [("add", 1.0), ("mul", 2.0)]), (8, [("add", 2.0), ("mul", 1.0)])))
    pairs = same_functions(old, new)
    assert len(pairs) == 2 and all(("add" in now) == ("add" in was) for (now, _), was in pairs.items())
    assert same_functions({("f<4>()", ("GPU 0",)): 1.0}, {("f<8>()", ("GPU 1",)): 1.0}) == {}
    assert same_functions({("a::f", ()): 1.0, ("b::f", ()): 1.0}, {("c::f", ()): 1.0, ("d::f", ()): 1.0}) == {}


def traced() -> Trace:
    return run_of("trace", kernels=[kernel(0, 0, 100, "f<4>(int)"), kernel(1, 200, 50, "g(int)")])


def summed() -> Trace:
    """The same run as a table of sums that names no device."""
    rows = [{"name": "void f<(int)4>(int)", "kind": "kernel", "count": 1, "total_ns": 100, "mean_ns": 100.0},
            {"name": "g(int)", "kind": "kernel", "count": 1, "total_ns": 50, "mean_ns": 50.0}]
    assert {"name", "kind", "count", "total_ns"} <= {field.name for field in schema.TABLES["kernel_stats"]}
    return run_of("sums", kernel_stats=rows)


@pytest.mark.parametrize("view", ["kernels", "diff"])
@pytest.mark.parametrize("first", [True, False])
def test_a_table_without_devices_matches_the_trace_of_the_same_run(view: str, first: bool) -> None:
    runs = (traced(), summed()) if first else (summed(), traced())
    frame = report(view, runs, Options()).frame
    count = "count" if view == "kernels" else "launches"
    assert frame["device"].cast(pl.String).to_list() == ["GPU 0", "GPU 0"]
    assert frame[f"{count}_a"].to_list() == frame[f"{count}_b"].to_list() == [1, 1]


def test_activities_without_a_name_are_no_function_of_the_other_run() -> None:
    a = run_of("a", kernels=[kernel(0, 0, 100, "f()"), {**kernel(1, 200, 50), "name": None}])
    b = run_of("b", kernels=[kernel(0, 0, 100, "g()")])
    for view in ("kernels", "diff"):
        assert report(view, (a, b), Options()).frame.height == 3
        assert report(view, (b, a), Options()).frame.height == 3


def test_kernels_and_diff_pair_the_same_names_on_other_devices() -> None:
    a = run_of("a", kernels=[kernel(0, 0, 100, "_ZN3foo3barILi4EEEvPf.kd", device="GPU 0")])
    b = run_of("b", kernels=[kernel(0, 0, 300, "void foo::bar<4>(float*)", device="GPU 2")])
    for view in ("kernels", "diff"):
        assert report(view, (a, b), Options()).frame.height == 1
