"""What findings describe: the steps, with start-up apart; every moment of idle time in one part; one place a blame."""

from __future__ import annotations

from typing import Any

import pytest
from runs import Rows, host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.cycles.detection import find_cycles
from warplens.analysis.cycles.whole import steps_of
from warplens.analysis.idle.attribution import idle_of
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

MS = 1_000_000
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def launches(*starts: int, dur: int = 10 * MS, ahead: int = MS, first: int = 0) -> tuple[Rows, Rows]:
    """Kernels at these times, each launched by a call so long before it."""
    kernels = [kernel(first + i, at, dur, correlation=first + i + 1) for i, at in enumerate(starts)]
    calls = [host("cudaLaunchKernel", at - ahead, ahead, "runtime", correlation=first + i + 1)
             for i, at in enumerate(starts)]
    return kernels, calls


def training(**more: Any) -> Trace:
    """Four seconds of start-up, then five steps of 100 ms, in each of which the device waits 70 ms for input.

    In the start-up two kernels ran, between them one launch that loaded modules for 1.57 s.
    """
    kernels, calls = launches(100 * MS, 3000 * MS)
    calls[1] = host("cudaLaunchKernel", 1430 * MS, 1570 * MS, "runtime", correlation=2)
    loads = []
    for step in range(5):
        begin = 4000 * MS + 100 * step * MS
        some, made = launches(begin + 10 * MS, begin + 90 * MS, first=2 + 2 * step)
        kernels, calls = kernels + some, calls + made
        loads.append(host(LOADER, begin + 20 * MS, 69 * MS, "dataloader"))
    marks = [{**row, "start_ns": row["start_ns"] + 4000 * MS} for row in steps(*[100 * MS] * 5)]
    return run_of(cycles=marks, kernels=kernels, host=[*calls, *loads], **more)


def facts(run: Trace, name: str = "overview", options: Options | None = None) -> dict[str, Any]:
    return dict(ask(view(name), (run,), options).facts)


def test_findings_and_headlines_are_about_the_steps_and_start_up_has_a_sentence_of_its_own() -> None:
    answer = ask(view("overview"), (training(),))
    said = answer.facts["findings"]
    # five times 69 ms of input in 500 ms, of which kernels take 100 ms
    assert said[0] == (
        "Input-bound: GPU 0 waits 69.00 of 100.0 ms a step for the DataLoader."
    )
    assert (
        "Outside the steps: 3.90 s before the first whole step, 1.57 s of it one cudaLaunchKernel: modules were loaded."
    ) in said
    assert "GPU 0 busy 20% of a step" in answer.summary[0]
    assert "GPU 0 is busy 20% of a step; 2.7% of the 4.40 s recorded." in said


def test_figures_of_the_recording_stay_and_those_of_the_steps_stand_beside_them() -> None:
    run = training()
    whole, idle = facts(run), facts(run, "idle")
    assert whole["in_steps"] == idle["in_steps"]
    steps = whole["in_steps"]
    assert (steps["from_ns"], steps["to_ns"]) == (4000 * MS, 4500 * MS)
    one = steps["devices"][0]
    assert (one["window_ns"], one["busy_ns"], one["idle_ns"]) == (500 * MS, 100 * MS, 400 * MS)
    assert one["causes"] == {"input": 345 * MS, "launch": 10 * MS, "untraced": 45 * MS}
    assert idle["devices"][0]["window_ns"] == 4400 * MS
    assert whole["devices"][0]["busy"] == pytest.approx(120 / 4400)
    assert whole["devices"][0]["busy"] == idle["devices"][0]["busy"]


def test_a_gap_across_the_edge_of_the_steps_counts_with_what_of_it_lies_inside() -> None:
    kernels, calls = launches(0, 150 * MS, 250 * MS)
    marks = [{**row, "start_ns": 100 * MS} for row in steps(200 * MS)]
    run = run_of(cycles=marks, kernels=kernels, host=calls)
    idle = idle_of(run, run, steps_of(find_cycles(run, Options())))
    assert idle is not None
    inside = idle.scope[0].sums
    assert (inside.window_ns, inside.idle_ns) == (200 * MS, 180 * MS), "from the mark on, to its end"
    assert inside.causes == {"untraced": 48 * MS + 89 * MS + 41 * MS, "launch": 2 * MS}


def test_steps_begin_with_the_first_whole_one_that_is_not_warm_up() -> None:
    marks = steps(400 * MS, *[20 * MS] * 7)
    kernels, calls = launches(*(row["start_ns"] + 5 * MS for row in marks))
    # the last one lacks one of the two that the others have
    some, others = launches(*(row["start_ns"] + 17 * MS for row in marks[:-1]), dur=MS, first=9)
    run = run_of(cycles=marks, kernels=[*kernels, *some], host=[*calls, *others])
    found = steps_of(find_cycles(run, Options()))
    assert found is not None and found.bounds == (400 * MS, 520 * MS)


def test_without_steps_sentences_are_about_the_whole_recording_and_do_not_say_steps() -> None:
    kernels, calls = launches(100 * MS, 1000 * MS)
    run = run_of(kernels=kernels, host=calls)
    told = facts(run)
    assert told["in_steps"] is None
    assert not any("step" in sentence for sentence in told["findings"])


def test_the_parts_of_the_idle_time_of_the_steps_are_its_causes_and_sum_to_it() -> None:
    kernels, calls = launches(*(20 * MS * i for i in range(1, 30)))
    waits = [host("cudaStreamSynchronize", 20 * MS * i, 12 * MS, "runtime") for i in range(1, 29, 3)]
    mallocs = [host("cudaMalloc", 20 * MS * i + 13 * MS, 4 * MS, "runtime") for i in range(1, 29, 2)]
    run = run_of(kernels=kernels, host=[*calls, *waits, *mallocs])
    idle = idle_of(run, run)
    assert idle is not None
    (scope,) = idle.scope
    causes, parts = scope.sums.causes, scope.parts
    assert sum(part.idle_ns for part in parts.values()) == scope.sums.idle_ns == sum(causes.values())
    assert parts["allocation"].idle_ns == causes["allocation"]
    assert parts["drained"].idle_ns >= causes["sync"] > 0


def test_a_place_that_is_blamed_counts_alone() -> None:
    """Two operators on one Python line: the sentence names one of them with its own time."""
    kernels, calls = launches(*(20 * MS * i for i in range(1, 31)), dur=MS)
    ops = [host("aten::addmm" if i % 3 else "aten::relu", row["start_ns"] - 15 * MS, 17 * MS)
           for i, row in enumerate(calls)]
    lines = [host("vit.py(252): forward", row["start_ns"] - MS, row["dur_ns"] + 2 * MS, "python") for row in ops]
    run = run_of(kernels=kernels, host=[*calls, *ops, *lines])
    (said,) = (one for one in facts(run)["findings"] if "vit.py" in one)
    rows = ask(view("idle"), (run,)).frame.to_dicts()
    mine = [row for row in rows if row["op"] == "aten::addmm"]
    assert len(mine) == 20 and "before aten::addmm" in said


def test_of_one_cycle_nothing_is_said_of_the_others() -> None:
    kernels, calls = launches(*(100 * MS * i + 10 * MS for i in range(10)))
    marks = steps(*[100 * MS] * 9, 900 * MS)
    run = run_of(cycles=marks, kernels=kernels, host=calls)
    assert any("is an outlier: #9" in one for one in facts(run)["findings"])
    assert ask(view("cycles"), (run,)).facts["outliers"] == 1
    of_one = facts(run, options=Options(cycle=3))
    assert not any("outlier" in one or "Outside the steps" in one for one in of_one["findings"])
    assert of_one["in_steps"]["from_ns"] == 300 * MS


def test_every_view_says_the_same_of_how_busy_devices_are() -> None:
    run = training()
    said = [" ".join(ask(view(name), (run,)).summary) for name in ("overview", "cycles", "idle")]
    assert "GPU 0 busy 20% of a step" in said[0] and "GPU 0 busy 20% of a step" in said[1]
    assert "GPU 0 idles 80.00 of 100.0 ms a step" in said[2]


def test_the_mean_of_the_headline_leaves_warm_up_out_and_says_so() -> None:
    marks = steps(900 * MS, *[100 * MS] * 7)
    kernels, calls = launches(*(row["start_ns"] + 10 * MS for row in marks))
    headline = ask(view("overview"), (run_of(cycles=marks, kernels=kernels, host=calls),)).summary[0]
    assert headline.startswith("8 steps, mean 100.0 ms without 1 of warm-up")


def test_what_also_runs_in_the_steps_explains_neither_what_came_before_nor_what_came_after() -> None:
    marks = [{**row, "start_ns": row["start_ns"] + 1000 * MS} for row in steps(*[100 * MS] * 5)]
    kernels, calls = launches(*(row["start_ns"] + 10 * MS for row in marks))
    around = [host("train.py(3): main", 0, 3000 * MS, "python"), host("build", 100 * MS, 700 * MS, "annotation"),
              *(host("save", (2000 + 200 * i) * MS, 150 * MS, "op", depth=1) for i in range(4))]
    said = facts(run_of(cycles=marks, kernels=kernels, host=[*around, *calls]))["findings"]
    assert (
        "Outside the steps: 1.00 s before the first whole step, 700.0 ms of it one build; "
        "1.50 s after the last whole step, 600.0 ms of it 4 calls of save."
    ) in said


def test_start_up_of_a_recording_without_steps_is_told_apart_from_its_idle_time() -> None:
    kernels, calls = launches(*(4000 * MS + at * MS for at in (0, 30, 70)))
    begin = host("cudaDeviceGetStreamPriorityRange", 0, 3900 * MS, "runtime")
    said = ask(view("overview"), (run_of("run", host=[begin, *calls], kernels=kernels),)).facts["findings"]
    assert ("No device work: 4.00 s before the first device activity, 3.90 s of it one "
            "cudaDeviceGetStreamPriorityRange.") in said


def test_a_launch_that_loads_a_module_is_told_of_in_the_steps_too() -> None:
    kernels, calls = launches(0, 20 * MS, 40 * MS)
    calls[1] = host("cudaLaunchKernel", 11 * MS, 9 * MS, "runtime", correlation=2)
    calls[2] = host("cudaLaunchKernel", 31 * MS, 9 * MS, "runtime", correlation=3)
    run = run_of("run", host=calls, kernels=kernels, cycles=steps(50 * MS))
    said = ask(view("overview"), (run,)).facts["findings"]
    assert "90% of that the driver loads modules, at the first call of each kernel." in said[0]


def test_a_graph_capture_is_no_host_bound_run() -> None:
    kernels, calls = launches(10 * MS, 95 * MS)
    inside = [host("cudaLaunchKernel", at * MS, MS // 10, "runtime") for at in range(15, 85)]
    calls.append(host("model", 11 * MS, 82 * MS))
    marks = [host(f"cudaStream{what}Capture", at * MS, MS, "runtime") for what, at in (("Begin", 12), ("End", 90))]
    host_bound = run_of(kernels=kernels, host=calls)
    capture = run_of(kernels=kernels, host=[*calls, *inside, *marks])
    replay = host("cudaGraphLaunch", 92 * MS, MS, "runtime")
    replayed = run_of(kernels=kernels, host=[*calls, *inside, *marks, replay])
    assert any(one.startswith("Host-bound") for one in facts(host_bound)["findings"])
    assert facts(capture)["findings"][0].startswith(
        "Graph capture, not a run: 70 of 72 launch calls are captured into a graph instead of being run, and no replay")
    assert "replay" not in facts(replayed)["findings"][0]
    assert not any("bound" in one for run in (capture, replayed) for one in facts(run)["findings"])
    assert "Graph capture, not a run" in ask(view("idle"), (capture,)).notes[0]


def test_a_capture_beside_idle_time_of_another_cause_does_not_hide_it() -> None:
    kernels, calls = launches(10 * MS, 95 * MS)
    marks = [host(f"cudaStream{what}Capture", at * MS, MS, "runtime") for what, at in (("Begin", 12), ("End", 20))]
    calls += [host("cudaLaunchKernel", 15 * MS, MS, "runtime"), host("model", 11 * MS, 82 * MS)]
    assert any("Host-bound" in one for one in facts(run_of(kernels=kernels, host=[*calls, *marks]))["findings"])


def test_the_step_that_was_cut_off_is_no_reason_for_itself() -> None:
    kernels, calls = launches(110 * MS, 150 * MS)
    marks = [host(f"ProfilerStep#{n}", 100 * n * MS, 100 * MS, "annotation") for n in range(2)]
    cycles = steps(100 * MS, 100 * MS)
    cycles[0]["complete"] = False
    run = run_of("run", host=[*marks, *calls], kernels=kernels, cycles=cycles)
    said = ask(view("overview"), (run,)).facts["findings"]
    assert "Outside the steps: 100.0 ms before the first whole step." in said
