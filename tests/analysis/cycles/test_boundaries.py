"""What begins exactly where a cycle, a window or an execution does belongs to it; what begins at its end does not."""

from __future__ import annotations

import polars as pl
from runs import host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.cycles.assignment import begins_in, in_cycles
from warplens.analysis.cycles.detection import find_cycles
from warplens.analysis.cycles.launch_runs import executed
from warplens.analysis.cycles.scope import scoped, scoped_any_cycle


def test_host_slices_begin_in_the_cycles_that_are_selected_the_first_among_them() -> None:
    run = run_of(host=[host("op", at, 5) for at in (0, 99, 100, 199, 200, 299, 300)], cycles=steps(100, 100, 100))
    cycles = find_cycles(run, Options()).frame
    for chosen, want in (([True, False, False], [0, 99]), ([False, True, True], [100, 199, 200, 299])):
        some = run.host.filter(begins_in(cycles, pl.Series(chosen))).select("start_ns").collect()
        assert some["start_ns"].to_list() == want


def test_an_activity_belongs_to_the_cycle_that_launched_it() -> None:
    begins = (0, 99, 100, 299, 300)
    calls = [host("cudaLaunchKernel", at, 1, "runtime", correlation=n + 1) for n, at in enumerate(begins)]
    kernels = [kernel(n, 1_000 + 10 * n, 5, correlation=n + 1) for n in range(5)]
    run = run_of(host=calls, kernels=kernels, cycles=steps(100, 100, 100))
    placed = in_cycles(run, find_cycles(run, Options()).frame, device_time=False).select("index", "cycle").collect()
    assert placed.rows() == [(0, 0), (1, 0), (2, 1), (3, 2)]
    assert scoped(run, Options(cycle=0)).kernels.select("index").collect()["index"].to_list() == [0, 1]


def test_memory_is_held_in_a_window_from_its_first_nanosecond_to_before_its_last() -> None:
    allocations = [{"start_ns": start, "dur_ns": dur, "bytes": start, "pid": 1, "tid": 1, "rank": None}
                   for start, dur in ((0, 100), (0, 101), (150, 10), (200, 10), (199, 10))]
    run = run_of(allocations=allocations, host=[host("op", 0, 300)], kernels=[kernel(0, 150, 10)])
    window = scoped_any_cycle(run, Options(from_ns=100, to_ns=200))
    held = window.allocations.select("start_ns", "dur_ns").collect()
    assert sorted(held.rows()) == [(100, 1), (150, 10), (199, 10)]


def executions(count: int, **more: int) -> list[dict[str, object]]:
    return [host("PjitFunction(step)", 1_000 * at, 100, correlation=0) for at in range(count)]


def test_three_executions_are_a_rhythm_and_two_are_none() -> None:
    for count, repeats in ((2, False), (3, True), (5, True)):
        calls = [*executions(count), *(host("cudaLaunchKernel", 1_000 * at + 10, 5, "runtime", correlation=at + 1)
                                       for at in range(count))]
        kernels = [kernel(at, 1_000 * at + 50, 800, correlation=at + 1) for at in range(count)]
        cycles = executed(run_of(host=calls, kernels=kernels))
        assert bool(cycles) == repeats, count
        for one in cycles:
            assert one.frame["start_ns"].to_list() == [1_000 * at for at in range(count)]
            assert one.frame["dur_ns"].to_list() == [100] * count
