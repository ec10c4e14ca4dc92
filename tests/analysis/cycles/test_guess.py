"""Cycles that nobody marked: what makes them, that they are labelled, and when nothing is said by them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.analysis.runs import host, kernel, run_of, steps
from warplens.analysis.contract.options import Options
from warplens.analysis.cycles.detection import counted_cycles, find_cycles, homeless
from warplens.analysis.cycles.scope import scoped_any_cycle
from warplens.analysis.cycles.statement import cycle_facts
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
    assert "5 guessed steps" in ask(view("overview"), (run,)).summary[0]
    marked = cycle_facts([run_of(cycles=steps(100, 100), kernels=repeated(0, 100))], Options())["cycles"]
    assert (marked["guessed"], marked["ignored"]) == (False, None)


def test_a_host_function_that_repeats_is_a_guess_but_one_that_was_asked_for_is_none() -> None:
    run = run_of(host=[host("train", 100 * i, 100) for i in range(5)])
    assert find_cycles(run, Options()).guessed
    assert not find_cycles(run, Options(cycle_anchor="train")).guessed
    assert find_cycles(scoped_any_cycle(run, Options(from_ns=100)), Options(from_ns=100)).guessed


@pytest.mark.parametrize(("starts", "why"), [
    ((0, 100, 5_000_000, 5_000_100, 5_000_200), "they take from 75 ns to 5.00 ms"),
    ((2_000, 2_100, 2_200, 2_300, 2_400), "they cover 19% of the time from the first to the last activity"),
])
def test_a_guess_that_explains_little_is_listed_and_describes_nothing(starts: tuple[int, ...], why: str) -> None:
    first = [kernel(100, 0, 5, "load", stream=1)]
    run = run_of(kernels=[*first, *repeated(*sorted(starts))])
    cycles = find_cycles(run, Options())
    count = cycles.frame.height
    assert (count >= 4, cycles.guessed, cycles.ignored) == (True, True, why)
    assert counted_cycles(run, Options()).frame.is_empty()
    overview = ask(view("overview"), (run,))
    assert overview.summary[0].startswith("one recording of")
    assert any(f"{count} guessed cycles are not used for findings, headlines and gauges: {why}." in note
               for note in overview.notes)
    assert ask(view("cycles"), (run,)).frame.height == count


def test_where_a_guess_is_not_used_the_run_is_not_said_to_have_no_cycles() -> None:
    guessed = run_of(kernels=repeated(0, 100, 5_000_000, 5_000_100, 5_000_200))
    alone = run_of(kernels=[kernel(0, 0, 5)])
    for runs, said in (((guessed, alone), "A has guessed cycles that are not used and B has no whole cycles"),
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
    # in device time, for the host is done long before the device has begun the second one
    assert cycles.frame["start_ns"].to_list() == [1000, 1200, 1400, 1600, 1800]
    assert cycles.frame["dur_ns"].to_list() == [200, 200, 200, 200, 75]
    assert cycles.frame["records"].to_list() == [9, 9, 9, 9, 8]


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
    assert homeless(cycles) == "3 activities were launched before the recording and belong to no cycle."


@pytest.mark.parametrize(("kind", "starts", "why"), [
    ("decode", (), "the runs have no kind of cycle in common"),
    (None, (0, 100, 5_000_000, 5_000_100, 5_000_200), "B has guessed cycles that are not used"),
])
def test_every_view_compares_a_pair_per_recording_if_one_does(
    kind: str | None, starts: tuple[int, ...], why: str
) -> None:
    at = (0, 1_000, 2_000)
    a, b = (run_of(cycles=[row | {"kind": one} for row in steps(1_000, 1_000, 1_000)], kernels=repeated(*at))
            for one in ("step", kind))
    b = b if kind else run_of(kernels=repeated(*starts))
    tables = {name: ask(view(name), (a, b)) for name in ("overview", "kernels", "diff")}
    assert [tables[name].per for name in ("overview", "kernels")] == ["recording"] * 2
    assert f"Sums are not per cycle: {why}." in tables["kernels"].notes
    assert f"Launches and ms are per recording: {why}." in tables["diff"].notes
    kernels = tables["overview"].frame.filter(pl.col("category") == "Kernel")
    assert kernels["time_ns_a"].to_list() == [3 * 8 * 5]
    assert tables["diff"].frame["a_ms"].sum() == pytest.approx(3 * 8 * 5 / 1e6)
