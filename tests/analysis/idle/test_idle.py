"""Idle: every nanosecond in which a device ran nothing has one cause, told by the thread that launched what came."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from runs import host, kernel, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.details.row_details import details
from warplens.analysis.idle.attribution import idle_of
from warplens.analysis.idle.cause_meanings import CAUSES, LABELS
from warplens.analysis.idle.causes import cause_of_call
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

US = 1_000


def call(start: int, dur: int, correlation: int | None, name: str = "cudaLaunchKernel", **more: Any) -> dict[str, Any]:
    return host(name, start, dur, "runtime", correlation=correlation, **more)


def causes(run: Trace) -> dict[str, int]:
    idle = idle_of(run, run)
    assert idle is not None
    (device,) = idle.devices
    assert sum(device.causes.values()) == device.idle_ns == idle.gaps.select(pl.col("dur_ns").sum()).collect().item()
    assert device.busy_ns + device.idle_ns == device.window_ns
    return device.causes


def gap(*slices: dict[str, Any], launch: tuple[int, int] = (80 * US, 10 * US), until: int = 100 * US) -> Trace:
    """A device idle from 10 to ``until`` µs, what ended it launched at ``launch``, with these slices on the host."""
    return run_of(
        host=[*slices, call(launch[0], launch[1], 2), call(0, US, 1)],
        kernels=[kernel(0, 0, 10 * US, correlation=1), kernel(1, until, 5 * US, "late", correlation=2)],
    )


def test_before_the_launch_it_is_what_the_launching_thread_did_innermost() -> None:
    run = gap(
        host("train.py(3): loop", 0, 200 * US, "python"), host("aten::item", 20 * US, 30 * US),
        call(25 * US, 20 * US, None, "cudaStreamSynchronize"), call(60 * US, 5 * US, None, "cudaMalloc"),
        call(66 * US, 2 * US, None, "cudaMemcpyAsync"), call(70 * US, 3 * US, None, "cudaFuncGetAttributes"),
    )
    assert causes(run) == {
        "python": 10 * US + 10 * US + US + 2 * US + 7 * US, "op": 10 * US, "sync": 20 * US, "allocation": 5 * US,
        "copy": 2 * US, "runtime": 3 * US, "launch": 10 * US, "dispatch": 10 * US,
    }


def test_inside_of_a_data_loader_everything_is_input() -> None:
    run = gap(
        host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 5 * US, 45 * US, "dataloader"),
        host("aten::stack", 20 * US, 10 * US), call(22 * US, 2 * US, None, "cudaStreamSynchronize"),
    )
    assert causes(run) == {"input": 40 * US, "untraced": 30 * US, "launch": 10 * US, "dispatch": 10 * US}


def test_launched_long_before_it_is_the_device_s_switch_and_then_a_queue() -> None:
    assert causes(gap(launch=(2 * US, 3 * US))) == {"dispatch": 20 * US, "queued": 70 * US}


def test_a_profiler_at_work_on_any_thread_comes_first() -> None:
    run = gap(host("aten::mul", 0, 200 * US), host("Activity Buffer Request", 40 * US, 45 * US, "overhead", tid=9))
    assert causes(run) == {"op": 30 * US, "profiler": 45 * US, "launch": 5 * US, "dispatch": 10 * US}


def test_between_kernels_of_one_graph_it_is_the_graph_and_without_a_launch_nobody_knows() -> None:
    run = run_of(
        host=[call(0, US, 7, "cudaGraphLaunch")],
        kernels=[kernel(0, 0, 10, correlation=7), kernel(1, 50, 10, correlation=7), kernel(2, 100, 10)],
    )
    assert causes(run) == {"graph": 40, "unknown": 40}


def test_a_gap_says_what_came_before_what_ended_it_and_what_drained_the_queue() -> None:
    run = gap(
        host("train.py(3): loop", 0, 200 * US, "python"), host("aten::item", 5 * US, 30 * US),
        call(8 * US, 20 * US, None, "cudaStreamSynchronize"), host("aten::mul", 75 * US, 20 * US, external_id=4),
    )
    (row,) = ask(view("idle"), (run,)).frame.to_dicts()
    assert {key: row[key] for key in ("start_ns", "dur_ns", "cause", "before", "after", "call", "op", "frame")} == {
        "start_ns": 10 * US, "dur_ns": 90 * US, "cause": "python", "before": "gemm", "after": "late",
        "call": "cudaLaunchKernel", "op": "aten::mul", "frame": "train.py(3): loop",
    }
    assert row["drained_by"] == "aten::item, train.py:3 loop"


def test_a_gap_opens_into_the_host_s_stack_over_it_and_the_launches_around() -> None:
    run = gap(host("train.py(3): loop", 0, 200 * US, "python"), call(10 * US, 45 * US, None, "cudaStreamSynchronize"))
    table = ask(view("idle"), (run,))
    stack, around = details(view("idle"), table, 0, (run,), Options()).sections[1:3]
    assert [(row[0].strip(), row[1], row[2]) for row in stack.rows] == [
        ("train.py:3 loop", "█" * 28, "90.00 µs"), ("cudaStreamSynchronize", "█" * 14 + "·" * 14, "45.00 µs"),
        ("cudaLaunchKernel", "·" * 21 + "░" + "█" * 3 + "·" * 3, "10.00 µs")]
    assert [(row[0], row[1]) for row in around.rows] == [("#0", "gemm"), ("#1", "late")]


def test_a_wait_that_was_over_before_the_gap_began_drained_nothing() -> None:
    (row,) = ask(view("idle"), (gap(call(2 * US, 3 * US, None, "cudaStreamSynchronize")),)).frame.to_dicts()
    assert row["drained_by"] is None


def test_what_a_wait_cost_is_the_wait_and_the_code_after_it_that_it_held_up() -> None:
    run = gap(call(8 * US, 20 * US, None, "cudaStreamSynchronize"), host("step", 0, 200 * US, "python"))
    idle = idle_of(run, run)
    assert idle is not None and causes(run)["sync"] == 18 * US  # of the 20 µs it took, what lies in the gap
    assert {name: part.idle_ns for name, part in idle.scope[0].parts.items()} == {
        "drained": 20 * US, "behind": 70 * US, "emptied": 70 * US}


def test_a_wait_of_another_thread_that_launches_emptied_nothing() -> None:
    """Thread 2 waits while the device runs dry, but what ends the gap comes from thread 1."""
    run = run_of(
        host=[call(2 * US, 20 * US, None, "cudaStreamSynchronize", tid=2), call(180 * US, US, 3, tid=2),
              call(80 * US, 10 * US, 2), call(0, US, 1)],
        kernels=[kernel(0, 0, 10 * US, correlation=1), kernel(1, 100 * US, 5 * US, correlation=2),
                 kernel(2, 200 * US, 5 * US, correlation=3)],
    )
    gaps = ask(view("idle"), (run,)).frame.sort("start_ns")
    assert gaps["start_ns"].to_list() == [10 * US, 105 * US] and gaps["drained_by"].to_list() == [None, None]


def test_the_wait_that_was_on_when_the_gap_began_emptied_the_queue_not_the_one_after_it() -> None:
    copying = call(2 * US, 20 * US, None, "cudaMemcpy")
    (row,) = ask(view("idle"), (gap(copying, call(25 * US, US, None, "cudaStreamSynchronize")),)).frame.to_dicts()
    assert row["drained_by"] == "cudaMemcpy"


def test_a_gap_names_functions_without_the_version_that_nsight_systems_adds() -> None:
    line = host("train.py(3): loop", 0, 200 * US, "python")
    (row,) = ask(view("idle"), (gap(line, call(2 * US, 20 * US, None, "cudaMemcpy_v3020")),)).frame.to_dicts()
    assert row["drained_by"] == "cudaMemcpy, train.py:3 loop"


def test_streams_count_together_and_devices_apart() -> None:
    run = run_of(kernels=[
        kernel(0, 0, 50, stream=1), kernel(1, 40, 30, stream=2), kernel(2, 90, 10, stream=1),
        kernel(3, 0, 10, device="GPU 1"), kernel(4, 30, 10, device="GPU 1"),
    ])
    devices = ask(view("idle"), (run,)).facts["devices"]
    assert [(d["device"], d["window_ns"], d["busy_ns"], d["idle_ns"]) for d in devices] == [
        ("GPU 0", 100, 80, 20), ("GPU 1", 40, 20, 20)]


def test_without_launch_calls_it_says_that_nobody_can_tell() -> None:
    table = ask(view("idle"), (run_of(kernels=[kernel(0, 0, 10), kernel(1, 50, 10)]),))
    assert "No launch calls were recorded" in table.notes[0]
    assert table.facts["devices"][0]["causes"] == {"unknown": 40}


def test_graphs_replayed_without_their_kernels_are_not_called_idle_silently() -> None:
    run = gap(call(30 * US, 5 * US, 99, "cudaGraphLaunch"))
    assert any("1 graph launches have no recorded kernels" in note for note in ask(view("idle"), (run,)).notes)


def test_launches_without_times_cannot_tell() -> None:
    with pytest.raises(CannotAnswer, match="launches without times"):
        ask(view("idle"), (run_of(kernels=[kernel(0, None, 10)]),))


def test_of_two_runs_the_causes_are_compared() -> None:
    a, b = gap(launch=(2 * US, 3 * US)), gap(launch=(2 * US, 3 * US), until=130 * US)
    rows = {row["cause"]: row for row in ask(view("idle"), (a, b)).frame.to_dicts()}
    assert {cause: row["total_ns_delta"] for cause, row in rows.items()} == {"queued": 30 * US, "dispatch": 0}
    assert next(iter(rows)) == "queued"


def test_a_scope_to_a_cycle_leaves_its_gaps_and_the_idle_time_that_the_cycles_view_has() -> None:
    run = run_of(
        host=[call(5 * n, 2, n + 1) for n in range(4)],
        kernels=[kernel(n, 100 * n, 50, correlation=n + 1) for n in range(4)],
        cycles=[{"cycle": n, "start_ns": 10 * n, "dur_ns": 10, "kind": "step", "complete": True} for n in range(2)],
    )
    every = ask(view("idle"), (run,), Options()).frame
    limited = ask(view("idle"), (run,), Options(cycle=1))
    same = ["start_ns", "dur_ns", "cause", "cycle"]
    assert limited.frame[same].rows() == every.filter(pl.col("cycle") == 1)[same].rows()
    assert limited.frame["start_ns"].to_list() == [150, 250], "the gap before its first launch is its own"
    cycles = ask(view("cycles"), (run,), Options()).frame
    [device] = limited.facts["devices"]
    assert device["idle_ns"] == cycles.filter(pl.col("cycle") == 1)["idle_ns"].item() == 100
    assert ask(view("overview"), (run,), Options(cycle=1)).facts["devices"][0]["busy"] == 0.5


def test_a_gap_over_the_end_of_a_cycle_counts_in_both_and_each_lists_its_own_part() -> None:
    run = run_of(
        host=[call(at, 2, n + 1) for n, at in enumerate((10, 50, 120, 170))],
        kernels=[kernel(n, at, 20, correlation=n + 1) for n, at in enumerate((10, 50, 120, 170))],
        cycles=[{"cycle": n, "start_ns": 100 * n, "dur_ns": 100, "kind": "step", "complete": True} for n in range(2)],
    )
    cycles = dict(ask(view("cycles"), (run,)).frame.select("cycle", "idle_ns").rows())
    for cycle, parts in enumerate((
            [(0, 10), (30, 20), (70, 30)], [(100, 20), (140, 30), (190, 10)])):
        table = ask(view("idle"), (run,), Options(cycle=cycle))
        assert table.frame.sort("start_ns").select("start_ns", "dur_ns").rows() == parts
        assert table.frame["cycle"].to_list() == [cycle] * 3
        assert sum(length for _, length in parts) == table.facts["devices"][0]["idle_ns"] == cycles[cycle]
        assert table.facts["devices"][0]["gaps"] == 3
    whole = ask(view("idle"), (run,)).frame.sort("start_ns").select("start_ns", "dur_ns", "cycle").rows()
    assert whole == [(30, 20, 0), (70, 50, 0), (140, 30, 1)], "the longer part decides"


@pytest.mark.parametrize(("name", "cause"), [
    ("cudaDeviceSynchronize", "sync"), ("hipStreamWaitEvent", "sync"), ("cudaEventQuery", "sync"),
    ("cudaFree", "allocation"), ("cuModuleLoadData", "allocation"), ("cudaHostRegister", "allocation"),
    ("cudaMemcpyAsync", "copy"), ("hipMemsetAsync", "copy"), ("cudaLaunchKernel", "runtime"),
    ("hsa_executable_freeze", "runtime"), ("hsa_amd_memory_pool_free", "allocation"),
])
def test_calls_are_told_by_name(name: str, cause: str) -> None:
    assert cause_of_call(name) == cause


STEP = 2_000
"""Longer than what two clocks round by, so that slices which cross do so in earnest."""


def by_definition(run: Trace) -> dict[str, int]:
    """Step by step, straight from the words of the definition; all times are whole steps, of one device."""
    acts = run.kernels.collect().sort("start_ns", "dur_ns").to_dicts()
    slices = run.host.collect().to_dicts()
    calls = sorted((s for s in slices if s["correlation"]), key=lambda s: s["start_ns"])
    ends = {a["index"]: a["start_ns"] + a["dur_ns"] for a in acts}
    recorded = {a["correlation"] for a in acts}
    last = max((c["start_ns"] for c in calls if c["correlation"] in recorded), default=10**18)
    lost = [c["start_ns"] for c in calls if c["correlation"] not in recorded and c["start_ns"] <= last]
    out = dict.fromkeys(CAUSES, 0)
    for at in range(min(a["start_ns"] for a in acts if a["dur_ns"]), max(ends.values()), STEP):
        if any(a["start_ns"] <= at < ends[a["index"]] for a in acts):
            continue
        after = next((a for a in acts if a["start_ns"] > at and a["dur_ns"]), None)
        if after is None:  # behind the last activity
            break
        after = next(a for a in acts if a["start_ns"] == after["start_ns"])
        launch = next((s for s in calls if s["correlation"] == after["correlation"]), None)
        began = max(ends[a["index"]] for a in acts if ends[a["index"]] <= at and a["dur_ns"])
        before = [a for a in acts if ends[a["index"]] == began][-1]
        if any(began <= moment < after["start_ns"] for moment in lost):
            out["lost"] += STEP
        elif launch is None:
            out["unknown"] += STEP
        elif before["correlation"] == after["correlation"]:
            out["graph"] += STEP
        elif at >= (done := max(launch["start_ns"] + launch["dur_ns"], began)):
            out["dispatch" if at < done + 20_000 else "queued"] += STEP
        elif any(s["kind"] == "overhead" and s["start_ns"] <= at < s["start_ns"] + s["dur_ns"] for s in slices):
            out["profiler"] += STEP
        elif at >= launch["start_ns"]:
            out["launch"] += STEP
        else:
            out[_innermost(slices, launch["tid"], at)] += STEP
    return {cause: total for cause, total in out.items() if total}


def _innermost(slices: list[dict[str, Any]], tid: int, at: int) -> str:
    stack = [s for s in slices if s["tid"] == tid and s["kind"] != "overhead"
             and s["start_ns"] <= at < s["start_ns"] + s["dur_ns"]]
    if not stack:
        return "untraced"
    if any(s["kind"] == "dataloader" for s in stack):
        return "input"
    top = sorted(stack, key=lambda s: (s["start_ns"], -s["dur_ns"]))[-1]
    if top["kind"] == "runtime":
        return cause_of_call(top["name"])
    return "python" if top["kind"] == "python" else "op"


KINDS = (("aten::mul", "op"), ("a.py(1): f", "python"), ("cudaMalloc", "runtime"), ("cudaStreamSynchronize", "runtime"),
         ("DataLoader next", "dataloader"), ("buffer", "overhead"))
slices = st.tuples(st.sampled_from(KINDS), st.integers(0, 120), st.integers(0, 60), st.integers(1, 2))


@given(
    st.lists(slices, max_size=8),
    st.lists(st.tuples(st.integers(0, 150), st.integers(0, 20), st.integers(1, 4)), min_size=2, max_size=6),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 140), st.integers(0, 10), st.integers(1, 2)), max_size=5),
)
def test_causes_are_those_of_the_definition_step_by_step(
    around: list[Any], ran: list[tuple[int, int, int]], launched: list[tuple[int, int, int, int]]
) -> None:
    rows = [host(name, start * STEP, dur * STEP, kind, tid=tid) for (name, kind), start, dur, tid in around]
    numbers = {correlation: one for one in launched[::-1] if (correlation := one[0])}  # two launches: neither is known
    rows += [call(start * STEP, dur * STEP, number, tid=tid) for number, (_, start, dur, tid) in numbers.items()]
    kernels = [kernel(n, start * STEP, dur * STEP, correlation=its) for n, (start, dur, its) in enumerate(ran)]
    if not rows or not any(dur for _, dur, _ in ran):
        return
    run = run_of(host=rows, kernels=kernels)
    assert causes(run) == by_definition(run)


def test_causes_that_are_not_named_are_summed():
    from warplens.analysis.idle.attribution import DeviceIdle, Idle
    from warplens.analysis.views.idle import _summary

    causes = {"op": 40, "untraced": 25, "allocation": 15, "sync": 12, "input": 8}
    one = Idle(pl.LazyFrame(), (DeviceIdle("GPU 0", None, 200, 100, 100, causes, 9),), ())
    assert _summary(one, None)[0].endswith(
        "host operators 40 ns, untraced host code 25 ns, allocation 15 ns, host sync 12 ns, other 8 ns")


def test_the_name_of_a_cause_holds_the_word_that_lists_and_filters_have():
    assert list(LABELS) == list(CAUSES)
    assert [cause for cause, name in LABELS.items() if cause not in name.lower()] == []


def test_of_many_devices_one_sentence_names_those_that_waited_most():
    def busy(rank: int) -> list[dict[str, Any]]:
        own = {"rank": rank, "device": f"GPU {rank}"}
        return [kernel(at, at * (1000 + 100 * rank), 1000) | own for at in range(3)]

    few, many = (run_of(kernels=[row for rank in range(ranks) for row in busy(rank)]) for ranks in (4, 8))
    runs = [replace(run, info=replace(run.info, ranks=tuple(range(count)))) for run, count in ((few, 4), (many, 8))]
    assert len(ask(view("idle"), (runs[0],)).summary) == 4
    assert ask(view("idle"), (runs[1],)).summary == (
        "8 devices idle 700 ns of 3.70 µs (mean; most GPU 7 of rank 7 32%, GPU 6 of rank 6 29%, GPU 5 of rank 5 25%): "
        "unknown launches 700 ns.",)
    pair = ask(view("idle"), (runs[1], runs[1])).summary
    assert [line[:13] for line in pair if "devices idle" in line] == ["A: 8 devices ", "B: 8 devices "]
