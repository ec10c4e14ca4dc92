"""Cycles that nobody marked: what makes them, that they are labelled, and when nothing is said by them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.analysis.runs import host, kernel, run_of, steps
from warplens.analysis.contract.options import Options
from warplens.analysis.cycles.detection import counted_cycles, find_cycles
from warplens.analysis.cycles.scope import scoped_any_cycle
from warplens.analysis.cycles.statement import cycle_facts, homeless
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

NAMES = ("embed", "norm", "qkv", "attention", "out", "mlp", "logits", "sample")


def repeated(*starts: int, apart: int = 10, **more: Any) -> list[dict[str, Any]]:
    """The same eight kernels from each start on, the kernels of a repetition so far apart."""
    return [
        kernel(8 * r + i, start + apart * i, 5, name, stream=1, **more)
        for r, start in enumerate(starts) for i, name in enumerate(NAMES)
    ]


def test_a_pattern_of_kernels_is_a_guess_and_recorded_steps_are_a_fact() -> None:
    run = run_of(kernels=repeated(0, 100, 200, 300, 400))
    told = cycle_facts([run], Options())["cycles"]
    assert (told["source"], told["count"], told["guessed"], told["ignored"]) == ("pattern", 5, True, None)
    assert "guessed: 8 launches" in ask(view("cycles"), (run,)).summary[0]
    assert "5 repetitions" in ask(view("overview"), (run,)).summary[0]
    marked = cycle_facts([run_of(cycles=steps(100, 100), kernels=repeated(0, 100))], Options())["cycles"]
    assert (marked["guessed"], marked["ignored"]) == (False, None)


def test_a_host_function_that_repeats_is_a_guess_but_one_that_was_asked_for_is_none() -> None:
    run = run_of(host=[host("train", 100 * i, 100) for i in range(5)])
    assert find_cycles(run, Options()).guessed
    assert not find_cycles(run, Options(cycle_anchor="train")).guessed
    assert find_cycles(scoped_any_cycle(run, Options(from_ns=100)), Options(from_ns=100)).guessed


def with_others(*counts: int) -> Trace:
    """The eight kernels as often as there are counts, so many other kernels after each."""
    launches, at = [], 0
    for count in counts:
        names = [*NAMES, *(f"other{at + i}" for i in range(count))]
        launches += [kernel(at + i, 10 * (at + i), 5, name, stream=1) for i, name in enumerate(names)]
        at += len(names)
    return run_of(kernels=launches)


def called(starts: tuple[int, ...], after: int = 0) -> Trace:
    """A function that is called at each start and launches one kernel of 50 ns; another one of ``after`` ns follows."""
    calls, launches = [], []
    for number, start in enumerate(starts):
        calls += [host("train", start, 90, "python"),
                  host("cudaLaunchKernel", start, 2, "runtime", correlation=number + 1)]
        launches.append(kernel(number, start + 5, 50, correlation=number + 1))
    if after:
        calls.append(host("cudaLaunchKernel", starts[-1] + 200, 2, "runtime", correlation=99))
        launches.append(kernel(99, starts[-1] + 210, after, "other", correlation=99))
    return run_of(host=calls, kernels=launches)


@pytest.mark.parametrize(("run", "why"), [
    (with_others(0, 2, 2, 2, 2), "0 of 4 launch the same kernels"),
    (called((0, 100, 200)), "3 of 3 were recorded whole, 4 are needed"),
    (called((0, 100, 1_200, 1_300, 2_400, 2_500)), "they cover 540 ns of the 2.59 µs from the first to the last one"),
    (called((0, 100, 200, 300, 400), after=251), "the device works 250 ns in them and 251 ns after them"),
])
def test_a_guess_that_explains_little_is_listed_and_describes_nothing(run: Trace, why: str) -> None:
    cycles = find_cycles(run, Options())
    count = cycles.frame.height
    assert (count >= 3, cycles.guessed, cycles.ignored) == (True, True, why)
    assert counted_cycles(run, Options()).frame.is_empty()
    overview = ask(view("overview"), (run,))
    assert overview.summary[0].startswith("one recording of")
    assert any(f"No step was recorded; {count} repetitions are ignored: {why}." in note for note in overview.notes)
    assert ask(view("cycles"), (run,)).frame.height == count


@pytest.mark.parametrize("run", [
    run_of(kernels=repeated(0, 100, 5_000_000, 5_000_100, 5_000_200)),
    run_of(kernels=[kernel(100, 0, 5_000, "load", stream=1), *repeated(20_000, 20_100, 20_200, 20_300)]),
    with_others(0, 0, 0, 0, 0, 6), called((0, 100, 200, 300, 400), after=249),
])
def test_neither_a_pause_nor_what_came_before_discards_a_repetition(run: Trace) -> None:
    cycles = find_cycles(run, Options())
    assert (cycles.guessed, cycles.ignored, cycles.frame.height >= 4) == (True, None, True)


def test_every_third_repetition_that_launches_more_ends_a_longer_cycle() -> None:
    calls, launches = [], []
    for number in range(15):
        calls.append(host("forward", 100 * number, 90, "python"))
        for i in range(5 if number % 3 == 2 else 3):
            at, index = 100 * number + 10 * i, len(launches)
            calls.append(host("cudaLaunchKernel", at, 2, "runtime", correlation=index + 1))
            launches.append(kernel(index, at + 5, 8, f"k{i}", correlation=index + 1))
    cycles = find_cycles(run_of(host=calls, kernels=launches), Options())
    assert (cycles.anchor, cycles.ignored, cycles.frame["records"].to_list()) == ("3 × forward", None, [11] * 5)
    assert cycles.frame["dur_ns"].to_list() == [290] * 5


def test_repetitions_in_a_graph_capture_are_ignored_and_say_so() -> None:
    calls = [host("cudaStreamBeginCapture", 0, 1, "runtime"), host("cudaStreamEndCapture", 990, 1, "runtime")]
    calls += [host("layer", 5 + 100 * number, 95, "python") for number in range(9)]
    cycles = find_cycles(run_of(host=calls, kernels=[kernel(0, 2_000, 5)]), Options())
    assert cycles.why_guessed == "No step was recorded; 9 repetitions are ignored: they lie in a graph capture."
    later = [host("layer", 5_000 + 100 * number, 95, "python") for number in range(5)]
    cycles = find_cycles(run_of(host=[*calls, *later]), Options())
    assert (cycles.frame.height, cycles.ignored) == (5, None)
    assert cycles.notes == ("9 repetitions lie in a graph capture and are left out.",)


def test_of_two_series_of_step_marks_the_outer_one_counts_else_the_longer_one() -> None:
    inner = [host(f"iter {n}", 50 * n, 45, "annotation") for n in range(8)]
    outer = [host(f"step {n}", 100 * n, 98, "annotation") for n in range(4)]
    evaluated = [host(f"eval_step {n}", 1_000 + 10 * n, 9, "annotation") for n in range(9)]
    cycles = find_cycles(run_of(host=[*inner, *outer, *evaluated]), Options())
    assert (cycles.frame["label"].to_list(), cycles.guessed) == ([f"step {n}" for n in range(4)], False)
    most = [host(f"iter {n}", 10 * n, 9, "annotation") for n in range(10)]  # most of them in the one step, but longer
    cycles = find_cycles(run_of(host=[*most, host("step 0", 0, 62, "annotation")]), Options())
    assert cycles.frame["label"].to_list() == [f"iter {n}" for n in range(10)]


def test_where_a_guess_is_not_used_the_run_is_not_said_to_have_no_cycles() -> None:
    guessed = with_others(0, 2, 2, 2)
    alone = run_of(kernels=[kernel(0, 0, 5)])
    for runs, said in (((guessed, alone), "A has repetitions that are ignored and B has no whole cycles"),
                       ((alone, alone), "neither run has whole cycles")):
        assert f"Sums are not per cycle: {said}." in ask(view("kernels"), runs).notes


def test_recorded_steps_count_however_they_differ() -> None:
    run = run_of(cycles=steps(100, 100, 5000), kernels=repeated(0, 100, 200))
    assert find_cycles(run, Options()).ignored is None
    assert counted_cycles(run, Options()).frame.height == 3


def test_a_last_repetition_that_lacks_launches_is_not_whole() -> None:
    layers = [f"layer{i}" for i in range(40)]
    launches = [kernel(40 * r + i, 1000 * r + 20 * i, 5, name) for r in range(10) for i, name in enumerate(layers)]
    frame = find_cycles(run_of(kernels=launches[:-1]), Options()).frame
    assert frame["complete"].to_list() == [True] * 9 + [False]


def executions(call: str, starts: tuple[int, ...], kind: str = "runtime", inner: bool = False) -> Trace:
    """Each call launches the eight kernels, which run later; a small program runs once in each."""
    calls, launches = [], []
    for number, start in enumerate(starts):
        calls.append(host(call, start, 10, kind, correlation=None if inner else number + 1))
        if inner:
            calls.append(host("cuLaunchKernel", start + 1, 2, "driver", correlation=number + 1))
        launches += [dict(row, index=9 * number + i, correlation=number + 1)
                     for i, row in enumerate(repeated(1000 + 200 * number))]
        calls.append(host("cudaLaunchKernel", start + 20, 2, "runtime", correlation=100 + number))
        launches.append(kernel(9 * number + 8, 1150 + 200 * number, 5, f"odd{number}", stream=1,
                               correlation=100 + number))
    return run_of(host=calls, kernels=launches)


@pytest.mark.parametrize(("call", "kind", "inner"), [
    ("cudaGraphLaunch", "runtime", False), ("hipGraphLaunch", "runtime", False),
    ("PJRT_LoadedExecutable_Execute", "annotation", True), ("PjitFunction(train_step)", "annotation", True),
])
def test_executions_of_a_compiled_program_come_before_any_pattern(call: str, kind: str, inner: bool) -> None:
    cycles = find_cycles(executions(call, (0, 30, 60, 90, 120), kind, inner), Options())
    assert (cycles.source, cycles.anchor, cycles.guessed) == ("execution", call, True)
    assert cycles.frame.select("start_ns", "dur_ns").rows() == [(start, 10) for start in (0, 30, 60, 90, 120)]
    assert cycles.frame["records"].to_list() == [8] * 5
    assert cycles.frame.select("from_ns", "to_ns").rows() == [(at, at + 75) for at in range(1000, 2000, 200)]


def test_a_graph_that_is_a_small_part_of_each_step_is_no_cycle() -> None:
    run = executions("cudaGraphLaunch", (0, 30, 60, 90, 120))
    assert find_cycles(run, Options()).source == "execution"
    odd = pl.col("name").cast(pl.String).str.starts_with("odd")
    longer = run.with_tables(kernels=run.kernels.with_columns(dur_ns=pl.when(odd).then(60).otherwise("dur_ns")))
    assert find_cycles(longer, Options()).source != "execution"


def test_what_was_launched_before_the_recording_belongs_to_no_cycle_and_is_counted() -> None:
    calls = [host("cudaLaunchKernel", 20, 2, "runtime", correlation=7)]
    launches = [kernel(0, 10, 30, stream=1), kernel(1, 45, 10, stream=1), kernel(2, 60, 10, stream=1, correlation=7),
                kernel(3, 75, 10, stream=1), kernel(4, 15, 10, stream=2)]
    cycles = find_cycles(run_of(cycles=steps(100), host=calls, kernels=launches), Options())
    # of stream 2 no launch was recorded at all: its work stands before any that has one
    assert (cycles.frame["records"].to_list(), cycles.earlier, cycles.before, cycles.elsewhere) == ([2], 3, 0, 0)
    assert homeless(cycles) == "3 activities were launched before the recording; they belong to no step."


@pytest.mark.parametrize(("kind", "counts", "why"), [
    ("decode", (), "the runs have no kind of cycle in common"),
    (None, (0, 2, 2, 2), "B has repetitions that are ignored"),
])
def test_every_view_compares_a_pair_per_recording_if_one_does(
    kind: str | None, counts: tuple[int, ...], why: str
) -> None:
    at = (0, 1_000, 2_000)
    a, b = (run_of(cycles=[row | {"kind": one} for row in steps(1_000, 1_000, 1_000)], kernels=repeated(*at))
            for one in ("step", kind))
    b = b if kind else with_others(*counts)
    tables = {name: ask(view(name), (a, b)) for name in ("overview", "kernels", "diff")}
    assert [tables[name].per for name in ("overview", "kernels")] == ["recording"] * 2
    assert f"Sums are not per cycle: {why}." in tables["kernels"].notes
    assert f"Launches and ms are per recording: {why}." in tables["diff"].notes
    kernels = tables["overview"].frame.filter(pl.col("category") == "Kernel")
    assert kernels["time_ns_a"].to_list() == [3 * 8 * 5]
    assert tables["diff"].frame["a_ms"].sum() == pytest.approx(3 * 8 * 5 / 1e6)
