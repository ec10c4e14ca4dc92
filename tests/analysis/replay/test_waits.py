"""What waited for what, one by one: the simulator knows, and the inference has to find each of them."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from runs import host, kernel, run_of
from simulator import KINDS, RETURN, simulate

from warplens.analysis.contract.options import Options
from warplens.analysis.replay.accuracy import _MOST, _aligned
from warplens.analysis.replay.answer import _place, why
from warplens.analysis.replay.critical_path import Path, Step
from warplens.analysis.replay.loop import NEVER
from warplens.analysis.replay.model import Model, _between
from warplens.analysis.replay.path_rows import WIDTH, facts, path_of, picture
from warplens.analysis.replay.recording import Recording, recording_of
from warplens.analysis.replay.waits import AFTER_EVENT_NS, Order, _Inference, order_of
from warplens.loaders.trace import Trace


def recording(run: Trace) -> Recording:
    result = recording_of(run, Options())
    assert isinstance(result, Recording), result
    return result


def launches(*begins: int, tid: int = 1, first: int = 1) -> list[dict[str, object]]:
    """Launch calls of 5 µs, with correlations from ``first``."""
    return [host("cudaLaunchKernel", at, 5_000, "runtime", correlation=first + n) | {"tid": tid}
            for n, at in enumerate(begins)]


def waits_for(order: Order, row: int) -> list[int]:
    """The activities of other streams that an activity waits for."""
    return order.cross.on[order.cross.to[row] : order.cross.to[row + 1]].tolist()


def test_a_stream_wait_belongs_to_the_next_launch_of_its_thread_and_to_no_other() -> None:
    calls = [
        *launches(0, 40_000, 60_000), *launches(10_000, 50_000, tid=2, first=4),
        host("cudaStreamWaitEvent", 20_000, 1_000, "runtime") | {"tid": 1},
        host("cudaStreamWaitEvent", 70_000, 1_000, "runtime") | {"tid": 1},  # nothing is launched after it
    ]
    kernels = [kernel(n, 100_000 + 10_000 * n, 5_000, f"k{call}", correlation=call, pid=1, stream=7)
               for n, call in enumerate((1, 4, 2, 5, 3))]
    inference = _Inference(recording(run_of(kernels=kernels, host=calls)))
    asked = inference.called_stream_wait()
    names = [inference.a.name.texts[number] for number in inference.a.name.number]
    assert {name for name, one in zip(names, asked, strict=True) if one} == {"k2"}


def two_streams(waits: bool, late: int = 0) -> Trace:
    """Ten kernels of 200 µs on stream 7, and after each one on stream 20, begun 2 µs after it ended."""
    calls, kernels = list[dict[str, object]](), list[dict[str, object]]()
    for n in range(10):
        at = 400_000 * n
        calls += launches(at, at + 20_000, first=2 * n + 1)
        if waits:
            calls.append(host("cudaStreamWaitEvent", at + 10_000, 1_000, "runtime") | {"tid": 1})
        end = at + 209_000
        kernels += [kernel(2 * n, at + 9_000, 200_000, "gemm", correlation=2 * n + 1, pid=1, stream=7),
                    kernel(2 * n + 1, end + 2_000 + late, 50_000, "reduce", correlation=2 * n + 2, pid=1, stream=20)]
    return run_of(kernels=kernels, host=calls)


@pytest.mark.parametrize(("waits", "late", "bound"), [
    (True, 0, True), (False, 0, True), (False, 10_000, False), (True, 10_000, True), (False, 40_000, False)])
def test_work_that_starts_right_after_other_work_waited_for_it(waits: bool, late: int, bound: bool) -> None:
    """Without a recorded stream wait within 5 µs, with one within 25 µs; later, it was something else."""
    order = order_of(recording(two_streams(waits, late)))
    for n in range(10):
        assert waits_for(order, 2 * n) == []
        assert waits_for(order, 2 * n + 1) == ([2 * n] if bound else [])
    if bound:
        assert order.cross.lag.tolist() == [2_000 + late] * 10


def test_a_recorded_wait_that_cost_nothing_still_holds() -> None:
    """The work waited for had ended long before the launch: the last launched of the only other stream is taken."""
    calls, kernels = list[dict[str, object]](), list[dict[str, object]]()
    for n in range(6):
        at = 400_000 * n
        calls += [*launches(at, at + 100_000, first=2 * n + 1),
                  host("cudaStreamWaitEvent", at + 90_000, 1_000, "runtime") | {"tid": 1}]
        kernels += [kernel(2 * n, at + 9_000, 20_000, "gemm", correlation=2 * n + 1, pid=1, stream=7),
                    kernel(2 * n + 1, at + 109_000, 50_000, "reduce", correlation=2 * n + 2, pid=1, stream=20)]
    order = order_of(recording(run_of(kernels=kernels, host=calls)))
    assert [waits_for(order, 2 * n + 1) for n in range(6)] == [[2 * n] for n in range(6)]
    assert order.cross.lag.tolist() == [AFTER_EVENT_NS] * 6


def test_the_last_launched_is_the_last_before_the_moment_on_that_stream() -> None:
    inference = _Inference(recording(two_streams(False)))
    stream = {str(inference.a.name.texts[inference.a.name.number[row]]): int(inference.a.stream[row])
              for row in range(inference.count)}
    at = 400_000 * 3
    assert inference.last_launched(stream["gemm"], at) == 4  # launched then, not before
    assert inference.last_launched(stream["gemm"], at + 1) == 6
    assert inference.last_launched(stream["reduce"], at + 20_001) == 7
    assert inference.last_launched(stream["gemm"], 0) == -1


@pytest.mark.parametrize("pace", KINDS)
def test_every_collective_waits_for_the_backward_kernel_before_it_and_the_optimizer_for_the_last(pace: str) -> None:
    run, _ = simulate(3, pace)
    work = recording(run)
    order, a = order_of(work), work.activities
    names = [a.name.texts[number] or "" for number in a.name.number]
    called = work.calls.start[a.call]
    for row, name in enumerate(names):
        if "AllReduce" in name:
            of = [at for at, other in enumerate(names) if "gemm" in other and called[at] < called[row]]
            assert waits_for(order, row) == [max(of, key=lambda at: called[at])]
        elif name == "adam":
            of = [at for at, other in enumerate(names) if "AllReduce" in other and called[at] < called[row]]
            assert waits_for(order, row) == [max(of, key=lambda at: called[at])]
        elif "gemm" in name or name == "norm":
            assert waits_for(order, row) == []


@pytest.mark.parametrize("pace", KINDS)
def test_a_host_wait_waits_for_what_its_stream_had_been_given(pace: str) -> None:
    run, _ = simulate(3, pace)
    work = recording(run)
    order, a, c = order_of(work), work.activities, work.calls
    main = a.stream[[a.name.texts[number] == "adam" for number in a.name.number]][0]
    waits = [call for call in range(len(c.start)) if "Synchronize" in c.names[c.name[call]]]
    assert waits
    for call in waits:
        given = np.flatnonzero((a.stream == main) & (c.start[a.call] < c.start[call]))
        assert order.waits.on[order.waits.to[call] : order.waits.to[call + 1]].tolist() == [given[-1]]
        assert order.wait_lag[call] == RETURN or a.end[given[-1]] + RETURN < c.end[call]
    others = set(range(len(c.start))) - set(waits)
    assert not any(order.waits.to[call + 1] > order.waits.to[call] for call in others
                   if "LaunchKernel" in c.names[c.name[call]])


@pytest.mark.parametrize("pace", KINDS)
def test_an_unchanged_replay_starts_everything_when_it_started(pace: str) -> None:
    """To what an inferred latency may be off: no activity and no call is anywhere else, and none is kept in place."""
    work = recording(simulate(3, pace)[0])
    model = Model(work)
    outcome = model.replay()
    assert (model.order.fixed == NEVER).all() and not any(model.order.unexplained_ns.values())
    off = np.concatenate((outcome.start - work.activities.start, outcome.end - work.activities.end,
                          outcome.begin - work.calls.start, outcome.finish - work.calls.end))
    assert np.abs(off).max() <= 2_000


@pytest.mark.parametrize("pace", KINDS)
def test_replays_that_share_a_pass_are_those_made_alone(pace: str) -> None:
    model = Model(recording(simulate(4, pace)[0]))
    recorded = model.recorded
    longer = np.where(recorded.gap > 0, recorded.gap // 4 * 6, recorded.gap)
    knobs = replace(recorded, dur=recorded.dur // 2, gap=longer)
    peak = model.recorded.dur * 2
    halved = replace(knobs, gap=np.where(knobs.gap > 0, np.round(knobs.gap / 2).astype(np.int64), knobs.gap))
    alone = [model.cycle_ns(model.replay(one)) for one in (knobs, halved, replace(knobs, dur=peak, gap=model.gap))]
    assert model.cycles_with(knobs) == alone[:1]
    assert model.cycles_with(knobs, half_host=True) == alone[:2]
    assert model.cycles_with(knobs, at_peak=peak) == alone


@pytest.mark.parametrize("pace", KINDS)
def test_plain_python_replays_what_compiled_code_replays(pace: str) -> None:
    work = recording(simulate(4, pace)[0])
    model, plain = Model(work), Model(work)
    plain._native = None
    ours, theirs = model.replay(), plain.replay()
    for name in ("begin", "finish", "start", "end"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


def test_cycles_are_compared_call_by_call_where_nearly_all_calls_match() -> None:
    one = np.arange(100)
    same = _aligned(one, one)
    assert same is not None and same[0].tolist() == same[1].tolist() == one.tolist()
    longer = _aligned(one, np.insert(one, 40, 1_000))
    assert longer is not None and longer[0].tolist() == one.tolist()
    assert longer[1].tolist() == [*range(40), *range(41, 101)]
    assert _aligned(one, one[::-1].copy()) is None and _aligned(one, one + 50) is None
    many = np.arange(_MOST + 1)
    assert _aligned(many, many) is not None and _aligned(many, many[1:]) is None, "too many to align"


def test_a_change_is_placed_where_it_cuts_most() -> None:
    model = Model(recording(two_streams(False)))
    a, c = model.recording.activities, model.recording.calls
    assert _place(model, None) == (None, None)
    assert _place(model, ("dur", 2)) == (400_000 + 9_000, 200_000)
    assert _place(model, ("gap", 3)) == (int(c.start[3] - model.gap[3]), int(model.gap[3]))
    assert _place(model, ("length", 3)) == (int(c.start[3]), 5_000) and len(a.start) == 20


def test_a_row_without_a_change_or_of_a_run_that_cannot_be_replayed_has_no_path() -> None:
    run = two_streams(True)
    assert why({"change": None}, run, Options()) == []
    assert why({"change": "kernel=0.5"}, run_of(kernels=[kernel(0, 0, 10), kernel(1, 20, 10)]), Options()) == []
    row = {"change": "kernel=0.5", "name": "all kernels"}
    assert why(row, run, Options())[0].title == "Critical path of a recording"


def test_the_path_of_a_run_that_waits_for_its_host_is_call_by_call_and_ends_in_the_last_kernel() -> None:
    kernels = [kernel(n, 40_000 * n + 9_000, 3_000, f"gemm{n}", correlation=n + 1, pid=1, stream=7) for n in range(3)]
    path = path_of(run_of(host=launches(0, 40_000, 80_000), kernels=kernels), Options())
    assert path is not None
    assert [(one.kind, one.begin, one.end, one.call, one.activity) for one in path.steps] == [
        ("call", 0, 5_000, 0, -1), ("host", 5_000, 40_000, 1, -1), ("call", 40_000, 45_000, 1, -1),
        ("host", 45_000, 80_000, 2, -1), ("launch", 80_000, 89_000, 2, 2), ("kernel", 89_000, 92_000, 2, 2)]
    parts = facts(path, ["one"] * len(path.steps))["parts"]
    assert [part["ns"] for part in parts] == [70_000, 10_000, 9_000, 3_000]
    assert [part["share"] for part in parts] == [part["ns"] / 92_000 for part in parts]


def test_a_path_is_a_line_of_letters_per_lane_over_a_scale_of_its_length() -> None:
    path = Path(None, 1_000, 5_000, (Step("kernel", "gemm", 1_000, 2_900, 0, 0, -1),
                                     Step("host", "loop", 2_900, 5_000, 0, -1, 0)))
    assert path.strip(["GPU 0", "thread 1"], 4) == {"GPU 0": "gg  ", "thread 1": "  HH"}
    drawn = picture({"strip": path.strip(["GPU 0", "thread 1"], WIDTH), "length_ns": 4_000, "legend": {"H": "host"}})
    assert [line.split() for line in drawn] == [
        ["GPU", "0", "g" * 48], ["thread", "1", "H" * 52], ["0", "2.00", "µs", "4.00", "µs"], ["H", "host"]]
    assert drawn[2].index("2.00") - drawn[2].index("0") == WIDTH // 4


def test_moments_between_marks_move_with_them_and_those_outside_keep_their_distance() -> None:
    recorded, replayed = np.array([100, 200, 300]), np.array([1_000, 1_400, 1_500])
    moments = np.array([50.0, 100, 150, 250, 300, 340])
    every = np.ones(3, dtype=bool)
    assert _between(moments, recorded, every, replayed).tolist() == [950, 1_000, 1_200, 1_450, 1_500, 1_540]


def test_marks_of_one_moment_count_once_as_the_last_that_comes_no_earlier_in_the_replay() -> None:
    recorded, later = np.array([100, 200, 200, 300]), np.array([True, True, False, True])
    forward = _between(np.array([250.0]), recorded, later, np.array([0, 100, 200, 400]))
    backward = _between(np.array([250.0]), recorded, later, np.array([0, 100, 50, 400]))
    assert forward.tolist() == [300] and backward.tolist() == [250]


def graph_run() -> Trace:
    """A graph of three kernels on two streams, launched four times: the second 5, the third 8 µs after the first."""
    calls, kernels = list[dict[str, object]](), list[dict[str, object]]()
    for n in range(4):
        at = 100_000 * n
        calls.append(host("cudaGraphLaunch", at, 4_000, "runtime", correlation=n + 1))
        kernels += [kernel(len(kernels) + k, at + 10_000 + begin, 3_000, name, correlation=n + 1, pid=1, stream=stream)
                    for k, (begin, name, stream) in enumerate([(0, "a", 7), (5_000, "b", 7), (8_000, "c", 8)])]
    return run_of(kernels=kernels, host=calls)


def test_a_kernel_of_a_graph_keeps_its_gap_to_the_one_before_it_or_its_offset_to_the_first() -> None:
    order = order_of(recording(graph_run()))
    assert order.base.tolist() == [-1, -1, 0, -1, -1, 3, -1, -1, 6, -1, -1, 9]
    assert order.base_lag.tolist() == [0, 0, 8_000] * 4
    assert order.before_lag[1::3].tolist() == [2_000] * 4
    assert (order.launch_lag[0::3] > 0).all() and (order.launch_lag[1::3] == NEVER).all()


def test_host_code_before_a_call_begins_where_the_call_before_it_returned() -> None:
    work = recording(run_of(host=launches(0, 40_000, 60_000), kernels=[
        kernel(n, 100_000 + 10_000 * n, 5_000, correlation=n + 1, pid=1, stream=7) for n in range(3)]))
    model = Model(work)
    assert model.events.gap.tolist() == [0, 35_000, 15_000] and model.events.anchor.tolist() == [-1, 0, 1]


@pytest.mark.parametrize("dur", [15_000, 45_000])
def test_a_call_that_covers_its_own_copy_waited_for_it_and_one_that_returned_before_did_not(dur: int) -> None:
    calls, kernels = list[dict[str, object]](), list[dict[str, object]]()
    for n in range(4):
        calls.append(host("cudaMemcpyAsync", 100_000 * n, 30_000, "runtime", correlation=n + 1))
        kernels.append(kernel(n, 100_000 * n + 10_000, dur, "Memcpy DtoH (Device -> Pinned)", kind="memcpy",
                              correlation=n + 1, pid=1, stream=7))
    order = order_of(recording(run_of(kernels=kernels, host=calls)))
    assert np.diff(order.waits.to).tolist() == [int(dur == 15_000)] * 4
    assert order.waits.on.tolist() == ([0, 1, 2, 3] if dur == 15_000 else [])
