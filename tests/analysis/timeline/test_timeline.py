"""The timeline holds exactly what ran: coverage at any zoom, no slice hidden by another, rows found again."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from runs import host, kernel, run_of, samples, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.query.ask import ask
from warplens.analysis.table.export import markdown, text
from warplens.analysis.timeline import lanes
from warplens.analysis.timeline.chrome_trace import sliced
from warplens.analysis.timeline.classes import CLASSES
from warplens.analysis.timeline.counters import strips
from warplens.analysis.timeline.coverage import class_times, coverage_of
from warplens.analysis.timeline.lanes import extent_of, timeline_of
from warplens.analysis.timeline.layout import layout
from warplens.analysis.timeline.picture import _eighths, axis, cycle_line, lines_of, minimap
from warplens.analysis.timeline.place import arrow, counterpart, describe, find, launcher
from warplens.analysis.timeline.queue_depth import queue_depths
from warplens.analysis.timeline.rows import levels
from warplens.analysis.timeline.window import (
    Window,
    at_moment,
    counts,
    cycle_at,
    fractions,
    gap_at,
    longest,
    same_name,
    wide,
)
from warplens.analysis.views import timeline as timeline_view
from warplens.analysis.views.timeline import VIEW, picture

SLICES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), min_size=1, max_size=30)


def arrays(slices):
    ordered = sorted((start, -dur) for start, dur in slices)
    starts = np.array([start for start, _ in ordered], dtype=np.int64)
    return starts, starts + np.array([-dur for _, dur in ordered], dtype=np.int64)


@given(SLICES, st.integers(-20, 250), st.integers(1, 300), st.integers(1, 40))
def test_a_column_holds_the_moments_at_which_anything_ran(slices, start, length, columns):
    starts, ends = arrays(slices)
    window = Window(start, start + length, columns)
    ran = {moment for a, b in zip(starts, ends, strict=True) for moment in range(a, b)}
    edges = window.edges
    want = [len(ran & set(range(a, b))) for a, b in pairwise(edges)]
    assert coverage_of(starts, ends).busy(edges).tolist() == want
    assert edges[0] == start and edges[-1] == start + length


def test_a_moment_has_the_column_it_falls_into_also_in_a_window_of_a_nanosecond():
    assert [Window(0, 10, 5).column(at) for at in (-1, 0, 1, 2, 9, 10)] == [-1, 0, 0, 1, 4, 5]
    assert [Window(7, 8, 4).column(7), Window(7, 8, 4).column(8), Window(7, 7, 4).column(7)] == [0, 4, 0]


@given(SLICES)
def test_in_one_row_no_slice_overlaps_another(slices):
    starts, ends = arrays(slices)
    level = levels(starts, ends, most=100)
    for row in range(int(level.max()) + 1):
        those = level == row
        assert (starts[those][1:] >= ends[those][:-1]).all()


def busy_run():
    return run_of(
        kernels=[
            kernel(0, 100, 50, "a", stream=7, correlation=1), kernel(1, 200, 100, "b", stream=7, correlation=2),
            kernel(2, 120, 100, "c", stream=8), kernel(3, 180, 20, "d", stream=8),
            kernel(4, 400, 100, "nccl", stream=7, kind="collective"), kernel(5, 420, 10, "wait", stream=7, kind="sync"),
        ],
        host=[
            host("step", 0, 600, "annotation"), host("aten::mm", 10, 100),
            host("cudaLaunchKernel", 20, 30, "runtime", correlation=2),
        ],
        cycles=steps(300, 300),
    )


def test_lanes_are_streams_and_nesting_depths_of_threads():
    timeline = timeline_of(busy_run(), Options())
    assert [lane.name for lane in timeline.lanes] == [
        "GPU 0 stream 7", "GPU 0 stream 8", "thread 1", "thread 1 depth 1", "thread 1 depth 2",
    ]
    assert (timeline.start, timeline.end) == (0, 600)
    assert len(timeline.drawn) == 6  # of stream 8 two overlap
    seven = timeline.lanes[0]
    assert len(seven.slices) == 3  # a wait is no work
    assert counts(seven, np.array([0, 150, 250, 450])).tolist() == [1, 1, 2]
    names = [None if at is None else timeline.names[int(seven.slices.names[at])]
             for at in longest(seven, np.array([0, 150, 200, 390, 600]))]
    assert names == ["a", None, "b", "nccl"]


def nested(deep):
    return run_of(host=[host(f"f{at}", at, 4_000 - 2 * at, "python") for at in range(deep - 1)] + [
        host("cudaLaunchKernel", 1_900, 10, "runtime")])


def test_what_the_scheduler_did_lies_under_the_calls_it_runs_across() -> None:
    calls = [host("poll", 100 * at, 95, "sched") for at in range(20)]
    run = run_of(host=[*calls, *(host("on CPU", 100 * at + 90, 20, "sched") for at in range(20))])
    lanes = timeline_of(run, Options()).lanes
    assert [(lane.name, len(lane.slices)) for lane in lanes] == [("thread 1", 20), ("thread 1 depth 1", 20)]


@pytest.mark.parametrize("deep", [55, 300])
def test_calls_are_shown_however_deep_they_are(deep):
    table = ask(VIEW, (nested(deep),), Options(columns=20))
    rows = table.frame.filter(table.frame["name"].cast(str) == "cudaLaunchKernel")
    assert rows["depth"].unique().to_list() == [deep - 1] and rows["busy_ns"].sum() == 10
    assert table.frame["depth"].n_unique() == deep and not table.notes


def test_what_no_lane_is_left_for_is_counted(monkeypatch):
    monkeypatch.setattr(lanes, "MOST_DEPTHS", 10)
    table = ask(VIEW, (nested(55),), Options(columns=20))
    assert table.notes == (
        "45 slices hidden at least in part: more overlap than a stream or thread has lanes.",)
    drawn = picture(timeline_of(nested(55), Options()), Window(1_000, 2_000, 20))
    assert any("python +45 hidden" in line for line in drawn)


def test_counters_that_have_no_line_are_counted():
    points = [sample for at in range(9) for sample in samples(f"counter {at}", "GPU 0", (0, 1.0), (10, 2.0), unit="W")]
    rows = layout(timeline_of(run_of(kernels=[kernel(0, 0, 10)], metrics=points), Options()), Window(0, 10, 20))
    assert [row.label for row in rows][-2:] == ["counter 5", "+3 counters"]


def test_the_report_says_the_same_as_the_lanes():
    table = ask(VIEW, (busy_run(),), Options(from_ns=100, to_ns=500, columns=4))
    rows = table.frame.filter(table.frame["lane"].cast(str) == "GPU 0 stream 7")
    assert rows["start_ns"].to_list() == [100, 200, 300, 400] and rows["end_ns"].to_list()[-1] == 500
    assert rows["busy_ns"].to_list() == [50, 100, 0, 100]
    assert rows["name"].cast(str).to_list() == ["a", "b", None, "nccl"]
    assert rows["stream"].to_list() == [7] * 4


def test_people_read_a_picture_in_which_kinds_differ_without_colour():
    table = ask(VIEW, (busy_run(),), Options(columns=60))
    for module in (text, markdown):
        shown = module.render([table]).decode()
        assert "GPU 0 stream 7" in shown and "▓" in shown and "thread 1" in shown
    drawn = picture(timeline_of(busy_run(), Options()), Window(380, 520, 40))
    line = next(line for line in drawn if "stream 7" in line)
    assert "[nccl" in line


def test_calls_that_take_the_whole_window_are_one_line():
    timeline = timeline_of(busy_run(), Options())
    rows = layout(timeline, Window(20, 50, 30))
    thread = next(row for row in rows if row.label == "thread 1")
    assert thread.crumbs == ("step", "aten::mm", "cudaLaunchKernel") and rows[-1] is thread


def test_what_is_under_a_moment():
    timeline = timeline_of(busy_run(), Options())
    seven = timeline.lanes[0]
    assert at_moment(seven, 210, 0) == 1 and at_moment(seven, 170, 5) is None and at_moment(seven, 152, 5) == 0
    assert gap_at(seven, 160) == (150, 200) and gap_at(seven, 210) is None and gap_at(seven, 50) is None
    assert describe(timeline, seven, None, 160).startswith("idle 50 ns")
    assert launcher(busy_run(), seven, 1) == "launched 180 ns before by cudaLaunchKernel on thread 1"
    assert launcher(busy_run(), seven, 0) == "launch not recorded"
    run = busy_run()
    pid, tid = run.host.select("pid", "tid").collect().row(0)
    run.info.facts["threads"] = {f"{pid} {tid}": "worker"}
    assert launcher(run, seven, 1).endswith("on thread 1 worker")


def test_a_lane_of_waits_for_the_system_is_not_called_the_scheduler():
    calls = [host("cudaLaunchKernel", 0, 90, "runtime"), host("poll", 10, 40, "sched"), host("on CPU", 5, 70, "sched")]
    rows = layout(timeline_of(run_of(host=calls), Options()), Window(0, 90, 30))
    assert [row.label.strip() for row in rows][1:] == ["system call", "scheduler"]


def test_a_row_of_another_view_is_found_again():
    timeline = timeline_of(busy_run(), Options())
    place = find(timeline, {"start_ns": 200, "dur_ns": 100, "name": "b", "device": "GPU 0", "stream": 7})
    assert place is not None and (place.start, place.end, place.lane, place.slice) == (200, 300, 0, 1)
    named = find(timeline, {"name": "c", "count": 1})
    assert named is not None and (named.start, named.end) == (120, 220)
    assert find(timeline, {"name": "nobody"}) is None


def test_the_next_of_the_same_name():
    run = run_of(kernels=[kernel(i, 10 * i, 5, "ab"[i % 2]) for i in range(6)])
    timeline = timeline_of(run, Options())
    lane = timeline.lanes[0]
    assert same_name(lane, 0, 1) == 2 and same_name(lane, 4, -1) == 2
    assert same_name(lane, 4, 1) is None


def test_wide_slices_are_found_among_very_many():
    run = run_of(kernels=[kernel(i, 10 * i, 900 if i == 9_000 else 5, "k") for i in range(9_001)])
    lane = timeline_of(run, Options()).lanes[0]
    assert [one.at for one in wide(lane, Window(0, 90_900, 101), 1)] == [9_000]


def test_two_runs_stand_at_the_same_place_by_their_first_cycle():
    a = run_of("a", kernels=[kernel(0, 100, 50)], cycles=steps(300))
    b = run_of("b", kernels=[kernel(0, 1100, 50)], cycles=[{**steps(300)[0], "start_ns": 1000}])
    table = ask(VIEW, (a, b), Options(columns=10))
    assert table.facts["offset_b_ns"] == 1000
    busy = {side: group["busy_ns"].to_list() for (side,), group in table.frame.group_by("run")}
    assert busy["A"] == busy["B"]
    assert len(table.picture) == 2


def test_the_ruler_and_the_map():
    timeline = timeline_of(busy_run(), Options())
    assert "╵200 ns" in axis(Window(0, 600, 60))
    assert axis(Window(4_860_123_000, 4_860_123_300, 60)).split("   ")[:3] == [
        "╵4,860,123,000 ns", "╵4,860,123,100 ns", "╵4,860,123,200 ns"], "long labels do not overlap"
    drawn, first, last = minimap(timeline, Window(0, 600, 60), Window(300, 600, 60))
    assert len(drawn) == 60 and (first, last) == (30, 59) and drawn[0] == " "


def test_a_run_without_times_says_so():
    with pytest.raises(CannotAnswer, match="no activity or call with a time"):
        ask(VIEW, (run_of(kernels=[kernel(0, None, 5)]),))


def test_times_at_the_ends_of_64_bits_are_drawn():
    run = run_of(kernels=[kernel(0, 0, 1), kernel(1, 2**62, 5)])
    table = ask(VIEW, (run,), Options(columns=3))
    assert table.frame["busy_ns"].to_list() == [1, 0, 5]


def test_what_began_before_the_window_is_in_it() -> None:
    table = ask(VIEW, (busy_run(),), Options(from_ns=250, to_ns=300, columns=1))
    busy = dict(zip(table.frame["lane"].cast(str).to_list(), table.frame["busy_ns"].to_list(), strict=True))
    assert busy["GPU 0 stream 7"] == 50


def test_a_window_in_which_nothing_begins_still_has_its_lanes_and_facts() -> None:
    table = ask(VIEW, (busy_run(),), Options(from_ns=305, to_ns=315, columns=1))
    assert set(table.frame["busy_ns"]) >= {0} and table.all_facts["cycles"]["count"] == 2


starts = st.integers(min_value=0, max_value=12)


@given(st.lists(st.tuples(starts, st.integers(0, 6), st.sampled_from([None, 7, 8]), st.sampled_from(["GPU 0", None])),
                min_size=1, max_size=40))
def test_slices_of_a_lane_come_by_start_the_outer_first(rows: list[tuple[int, int, int | None, str | None]]) -> None:
    run = run_of(kernels=[
        kernel(at, start, dur, f"k{at}", stream=stream, device=device)
        for at, (start, dur, stream, device) in enumerate(rows)
    ])
    timeline = timeline_of(run, Options())
    wanted: dict[object, list[tuple[int, int]]] = {}
    for start, dur, stream, device in rows:
        wanted.setdefault((device, stream), []).append((start, -start - dur))
    for lane in timeline.lanes:
        mine = wanted.pop((lane.device, lane.stream))
        assert [(int(a), -int(b)) for a, b in zip(lane.slices.starts, lane.slices.ends, strict=True)] == sorted(mine)
        assert {timeline.names[int(code)] for code in lane.slices.names} == {f"k{row}" for row in lane.slices.rows}
    assert not wanted and timeline.streams == len(timeline.lanes)


def test_a_slice_without_a_name_or_a_kind_is_drawn_all_the_same() -> None:
    run = run_of(kernels=[kernel(0, 0, 50, None, stream=7), kernel(1, 60, 20, "k", stream=7, kind=None)])
    timeline = timeline_of(run, Options())
    window = Window(0, 80, 8)
    lines = [line.text for line in lines_of(timeline, layout(timeline, window), window)]
    assert len(lines) == 1 and lines[0].strip()


def test_threads_with_numbers_of_any_size_are_lanes_of_their_own() -> None:
    threads = (-(2**63), -1, 0, 2**63 - 1, None)
    run = run_of(host=[host("f", 10 * at, 5) | {"tid": tid} for at, tid in enumerate(threads)])
    assert {lane.tid for lane in timeline_of(run, Options()).lanes} == set(threads)


def test_the_class_that_took_most_of_a_column_gives_its_colour() -> None:
    run = run_of(kernels=[
        kernel(0, 0, 30, stream=7), kernel(1, 30, 60, "copy", stream=7, kind="memcpy"), kernel(2, 100, 90, stream=7),
    ])
    lane = timeline_of(run, Options()).lanes[0]
    (busy,), (classes,) = fractions([lane], Window(0, 200, 2))
    assert busy.tolist() == [0.9, 0.9] and [CLASSES[code] for code in classes] == ["copy", "gemm"]


@given(SLICES, st.lists(st.sampled_from(["gemm", "softmax", "memcpy"]), min_size=30, max_size=30),
       st.integers(-20, 250), st.integers(1, 300), st.integers(1, 20))
def test_the_class_with_most_time_in_a_column_is_that_of_its_slices(slices, names, start, length, columns):
    starts, ends = arrays(slices)
    first = levels(starts, ends, most=100) == 0  # a lane: none of its slices overlaps another
    starts, ends = starts[first], ends[first]
    kinds = np.array([("gemm", "softmax", "memcpy").index(name) for name in names[: len(starts)]], dtype=np.uint8)
    times = class_times(starts, ends, kinds)
    edges = Window(start, start + length, columns).edges
    if times is None:
        assert len(set(kinds.tolist())) == 1
        return
    found = times.most(starts, ends, edges).tolist()
    for code, (a, b) in zip(found, pairwise(edges.tolist()), strict=True):
        spent = [sum(max(0, min(b, e) - max(a, s)) for s, e, k in zip(starts, ends, kinds, strict=True) if k == one)
                 for one in range(3)]
        assert spent[code] == max(spent)


def deep_python():
    calls = [host(f"f{at}", at, 3_000 - 2 * at, "python") for at in range(20)]
    calls += [host("aten::mm", 100, 500), host("cudaLaunchKernel", 200, 10, "runtime", correlation=1)]
    helpers = [host("wait", 0, 4_000, "python") | {"tid": 2}, host("once", 3_990, 5) | {"tid": 3}]
    return run_of(kernels=[kernel(0, 220, 900, stream=7, correlation=1)], host=calls + helpers)


def test_lanes_are_named_by_what_runs_in_them_and_fold_into_the_height_there_is():
    timeline, window = timeline_of(deep_python(), Options()), Window(0, 4_000, 80)
    rows = layout(timeline, window, 14)
    assert [row.label for row in rows] == [
        "GPU 0 stream 7", "thread 1", "  python +18", "  operator", "  runtime call", "thread 2", "thread 3"]
    assert rows[0].lines == 8 and sum(row.lines for row in rows) == 14
    tall = [row.label for row in layout(timeline, window, 18)]
    assert tall[1:5] == ["thread 1", "  python", "  python 2", "  python 3 +16"], "no more is folded than has to be"
    every = layout(timeline, window, 14, {("thread", None, 1, 1)})
    assert [row.label for row in every if row.group == ("thread", None, 1, 1)] == ["thread 1 +21"]
    assert len(layout(timeline, window)) == 1 + 22 + 2
    narrow = layout(timeline, Window(300, 320, 80), 14)
    assert [row.text for row in narrow][-1] == "idle here" and narrow[-1].label == "+1 thread"


def test_a_tall_stream_is_as_high_as_it_was_busy_and_says_the_family_of_each_bar():
    run = run_of(kernels=[kernel(0, 0, 50, "softmax"), kernel(1, 100, 25, "gemm"), kernel(2, 300, 100, "gemm")])
    timeline, window = timeline_of(run, Options()), Window(0, 400, 4)
    (row,) = layout(timeline, window, 4)
    (line,) = lines_of(timeline, [row], window)
    assert line.lines == ("   g", "n  █", "█g █", "██ █")
    assert line.named == ((0, 3, 3),), "over a bar that is full the letter stands in it"


def test_a_column_in_which_anything_ran_is_never_blank():
    assert _eighths(np.array([0, 1e-6, 0.5, 1])).tolist() == [0, 1, 4, 8]
    assert _eighths(np.array([0, 1e-6, 0.5, 1]), 2).tolist() == [0, 1, 8, 16]


@pytest.mark.parametrize("busy, said", [(3, "1 busy here: Space opens"), (2, "idle here: Space opens")])
def test_folded_streams_say_how_many_ran_and_how_many_did_not(busy, said):
    kernels = [kernel(at, at if at < busy else 500, 90, stream=at) for at in range(3)]
    kernels += [kernel(3, 500, 90, stream=3)] if busy < 3 else []
    rows = layout(timeline_of(run_of(kernels=kernels), Options()), Window(0, 100, 40), 6)
    assert rows[-1].text == said


@pytest.mark.parametrize("streams", [1, 3])
def test_the_streams_take_all_lines_there_are(streams):
    kernels = [kernel(at, 10 * at, 8, stream=at % streams) for at in range(12)]
    timeline = timeline_of(run_of(kernels=kernels), Options())
    assert sum(row.lines for row in layout(timeline, Window(0, 120, 40), 47)) == 47


def test_slices_of_no_known_thread_fill_a_tall_lane_as_wide_as_the_window_without_letters():
    calls = [host("aten::mm", 0, 50), host("aten::add", 100, 25), host("aten::layer_norm", 200, 200)]
    timeline = timeline_of(run_of(host=[{**call, "tid": None} for call in calls]), Options())
    window = Window(0, 400, 16)
    (row,) = layout(timeline, window, 3)
    (line,) = lines_of(timeline, [row], window)
    assert line.lines == ("██  █   [ate…rm]", "██  █   ████████", "██  █   ████████")


def test_a_counter_that_never_moved_has_a_lane_with_its_value_and_what_it_was_in_the_other_run():
    clock = [samples("gpu_sm_frequency", "GPU 0", (0, mhz), (10, mhz), unit="MHz") for mhz in (1155.0, 210.0)]
    runs = [timeline_of(run_of(kernels=[kernel(0, 0, 10)], metrics=one), Options()) for one in clock]
    a, b = strips([one.counters for one in runs], [one.device for one in runs])
    assert (a[0].name, a[0].value(0, 10), a[0].judgement) == ("SM clock", "1,155 MHz, constant", "")
    assert b[0].value(0, 10) == "▼ 210 MHz, constant; A 1,155 MHz" and b[0].judgement == "bad"
    window = Window(0, 10, 40)
    drawn = [lines_of(one, layout(one, window, 9, counters=each), window)[-1].text
             for one, each in zip(runs, (a, b), strict=True)]
    assert drawn[0].endswith("█") and drawn[1].endswith("▂")


def test_counters_of_two_runs_on_different_devices_have_the_same_order():
    read = [[*samples("memory_allocated", "Host", (0, host), unit="B"),
             *samples("memory_allocated", "GPU 0", (0, 100.0), (5, 200.0), unit="B")] for host in (8.0, 4.0)]
    runs = [timeline_of(run_of(kernels=[kernel(0, 0, 10) | {"device": device}], metrics=one), Options())
            for device, one in zip(("GPU 0", "GPU 2"), read, strict=True)]
    a, b = strips([one.counters for one in runs], [one.device for one in runs])
    assert [one.counter.device for one in a] == [one.counter.device for one in b] == ["GPU 0", "Host"]


def test_a_counter_stands_beside_what_the_other_run_had_at_the_same_place():
    read = [samples("gpu_sm_frequency", "GPU 0", *one, unit="MHz")
            for one in (((0, 100.0), (100, 300.0)), ((1000, 150.0), (1100, 150.0)))]
    runs = [timeline_of(run_of(kernels=[kernel(0, 0, 10)], metrics=one), Options()) for one in read]
    (b,) = strips([one.counters for one in runs], [one.device for one in runs])[1]
    assert b.value(1000, 1050, 1000) == "▲ 150 MHz, constant; A 100 MHz"
    assert b.value(1100, 1150, 1000) == "▼ 150 MHz, constant; A 300 MHz"
    assert b.value(1000, 1050, 2000) == "150 MHz, constant", "A had no sample yet"


def test_the_same_launch_of_two_runs_is_as_many_of_its_name_into_the_same_cycle():
    def recorded(start, slow):
        names = ("a", "b", "a", "a")
        return timeline_of(run_of(
            kernels=[kernel(at, start + 100 * at, 10 * slow, name) for at, name in enumerate(names)],
            cycles=[{**one, "start_ns": one["start_ns"] + start} for one in steps(150, 250)]), Options())

    runs = recorded(0, 1), recorded(1_000, 3)
    lane = runs[0].drawn[0]
    found = counterpart(runs, 0, lane, 3)
    assert found is not None and (found.start, found.end) == (1_300, 1_330)
    assert counterpart((runs[0], recorded(0, 1)), 1, lane, 0) is not None
    without = timeline_of(run_of(kernels=[kernel(0, 0, 5, "a")]), Options())
    assert counterpart((runs[0], without), 0, lane, 0) is None


TIMES = st.tuples(st.none() | st.integers(-50, 200), st.none() | st.integers(0, 60))


@given(st.lists(st.tuples(TIMES, st.sampled_from(["kernel", "sync", "memcpy", None]))), st.lists(TIMES),
       st.lists(st.integers(1, 90), max_size=3))
def test_the_extent_is_that_of_the_lanes(activities, slices, cycles):
    kernels = [kernel(i, start, dur, kind=kind, stream=i % 3) for i, ((start, dur), kind) in enumerate(activities)]
    threads = [host("f", start, dur, tid=i % 2) for i, (start, dur) in enumerate(slices)]
    tables = {"kernels": kernels, "host": threads, "cycles": steps(*cycles)}
    run = run_of(**{name: rows for name, rows in tables.items() if rows})
    whole = timeline_of(run, Options())
    assert extent_of(run, Options()) == (whole.extent if whole.drawn else None)


def test_two_runs_are_drawn_one_after_the_other_and_a_lane_that_is_missing_is_told_by_the_first():
    empty = run_of("nothing", kernels=[kernel(0, None, 5)])
    for runs in ((empty, busy_run()), (busy_run(), empty)):
        with pytest.raises(CannotAnswer, match=r"^nothing holds no activity"):
            ask(VIEW, runs)
    table = ask(VIEW, (busy_run(), busy_run()))
    alone = ask(VIEW, (busy_run(),))
    assert table.picture == alone.picture * 2
    for side in "AB":
        half = table.frame.filter(pl.col("run") == side).drop("run")
        assert half.to_dicts() == alone.frame.to_dicts()


def test_of_too_many_lanes_the_busiest_are_listed_in_their_order(monkeypatch):
    run = run_of(kernels=[kernel(at, 10 * at, dur, stream=at) for at, dur in enumerate((5, 1, 9, 2, 7))])
    every = ask(VIEW, (run,), Options(columns=10))
    assert len(every) == 50 and not every.notes and every.facts["lanes_left_out"] == 0
    monkeypatch.setattr(timeline_view, "MOST_ROWS", 30)
    some = ask(VIEW, (run,), Options(columns=10))
    assert some.frame["stream"].unique(maintain_order=True).to_list() == [0, 2, 4]
    assert some.facts["lanes_left_out"] == 2
    assert "run has 5 lanes; the table, in every format, holds the 3 busiest." in some.notes[0]
    assert every.frame.filter(pl.col("stream") == 2)["busy_ns"].sum() == 9


def test_the_arrow_leads_from_a_kernel_to_its_launch_and_back() -> None:
    run = busy_run()
    timeline = timeline_of(run, Options())
    there = arrow(run, timeline, timeline.drawn[0], 1)
    assert there is not None and (there.start, there.end) == (20, 50) and there.lane is not None
    call = timeline.drawn[there.lane]
    assert call.tid == 1 and there.slice is not None
    back = arrow(run, timeline, call, there.slice)
    assert back is not None and (back.start, back.end, back.lane) == (200, 300, 0)
    assert arrow(run, timeline, timeline.drawn[0], 0) is None, "its launch was not recorded"


@given(st.lists(st.tuples(st.integers(0, 80), st.integers(0, 60)), min_size=1, max_size=20), st.integers(1, 9))
def test_the_queue_is_as_deep_as_launches_have_not_begun(launches, columns):
    kernels = [kernel(at, start + wait, 5, correlation=at + 1, stream=at) for at, (start, wait) in enumerate(launches)]
    calls = [host("cudaLaunchKernel", start, 1, "runtime", correlation=at + 1)
             for at, (start, _) in enumerate(launches)]
    (depth,) = queue_depths(run_of(kernels=kernels, host=calls), {})
    edges = Window(0, 150, columns).edges
    want = [sum(min(b, s + w) - max(a, s) for s, w in launches if s < b and s + w > a) / (b - a)
            for a, b in pairwise(edges.tolist())]
    assert depth.means(edges).tolist() == pytest.approx(want)


def test_all_ranks_are_on_the_clock_of_the_first() -> None:
    ahead = 1_000_000

    def of_rank(rank):
        return [kernel(10 * rank + at, 1_000 * at + 200 + ahead * rank, 300, "ncclDevKernel_AllReduce_Sum_f32",
                       kind="collective", rank=rank, device=f"GPU {rank}", stream=1, correlation=at + 1)
                for at in range(6)]

    rows = [*of_rank(0), *of_rank(1)]
    run = run_of(kernels=rows, host=[host("f", 100 + ahead * rank, 50) | {"rank": rank} for rank in (0, 1)])
    files = {"files": {"0": "rank0.json", "1": "rank1.json"}}
    run = replace(run, info=replace(run.info, ranks=(0, 1), facts=files))
    timeline = timeline_of(run, Options())
    assert timeline.clocks == {0: 0, 1: ahead}
    device = [lane.slices.starts.tolist() for lane in timeline.drawn if lane.tid is None]
    threads = [lane.slices.starts.tolist() for lane in timeline.drawn if lane.tid is not None]
    assert device[0] == device[1] and threads == [[100], [100]]
    found = find(timeline, {"start_ns": 200 + ahead, "dur_ns": 300, "name": rows[0]["name"], "rank": 1,
                            "device": "GPU 1"})
    assert found is not None and found.start == 200
    assert extent_of(run, Options()) == timeline.extent
    calls = [host("cudaLaunchKernel", 150 + ahead * rank, 20, "runtime", correlation=1, rank=rank) for rank in (0, 1)]
    launched = run.with_tables(host=run_of(kernels=rows, host=calls).host)
    streams = [lane for lane in timeline.drawn if lane.tid is None]
    assert [launcher(launched, lane, 0) for lane in streams] == 2 * [
        "launched 50 ns before by cudaLaunchKernel on thread 1"]
    assert [one.moments.tolist() for one in queue_depths(launched, timeline.clocks)] == [[150, 200], [150, 200]]
    load = samples("load", "Host", *[(300 + ahead * rank, 10.0 + rank) for rank in (0, 1)])
    sampled = run.with_tables(metrics=run_of(metrics=[one | {"rank": at} for at, one in enumerate(load)]).metrics)
    assert [(one.device, one.moments.tolist(), one.mean) for one in timeline_of(sampled, Options()).counters] == [
        ("Host rank 0", [300], 10.0), ("Host rank 1", [300], 11.0)]
    part = json.loads(b"".join(sliced(sampled, Options(from_ns=100, to_ns=1_000))))["traceEvents"]
    assert sorted((event["ts"], event["ph"]) for event in part if event["ph"] != "M") == sorted(
        2 * [(0.1, "X"), (0.2, "X"), (0.3, "C")])


def test_a_kernel_that_begins_before_its_launch_says_so() -> None:
    run = run_of(kernels=[kernel(0, 100, 50, correlation=1)],
                 host=[host("launch", 160, 20, "runtime", correlation=1)])
    (lane,) = [one for one in timeline_of(run, Options()).drawn if one.tid is None]
    assert launcher(run, lane, 0) == "begins 60 ns before its launch by launch on thread 1"


def test_threads_of_one_number_in_two_processes_name_their_process() -> None:
    slices = [host("f", 0, 90, pid=1), host("g", 0, 80, pid=2), host("h", 0, 70, pid=2) | {"tid": 3}]
    drawn = timeline_of(run_of(kernels=[kernel(0, 0, 10)], host=slices), Options()).drawn
    assert [lane.name for lane in drawn if lane.tid is not None] == ["thread 1 pid 1", "thread 1 pid 2", "thread 3"]


def test_what_the_scheduler_did_is_in_lanes_of_its_own_however_it_crosses_calls() -> None:
    calls = [host(f"step {at}", 100 * at, 90) for at in range(20)]
    quanta = [host("on CPU", 50 + 100 * at, 95, "sched") for at in range(20)]
    made = timeline_of(run_of(kernels=[kernel(0, 0, 10)], host=[*calls, *quanta]), Options())
    threads = [lane for lane in made.lanes if lane.tid is not None]
    assert [(lane.depth, len(lane.slices)) for lane in threads] == [(0, 20), (1, 20)]


def test_neighbours_that_share_a_column_both_carry_their_names() -> None:
    slices = [host("forward", at * 1_000, 1_000, "annotation") for at in range(4)]
    made = timeline_of(run_of(kernels=[kernel(0, 0, 4_000)], host=slices), Options())
    (line,) = [one for one in picture(made, Window(0, 4_000, 42)) if "thread" in one]
    assert line.count("[forward") == 4


def test_a_cycle_that_is_no_room_for_its_name_has_its_number_or_nothing() -> None:
    edges = np.arange(0, 700, 100)
    marks = lanes.Marks(edges, edges + 100, tuple(f"cycle {9 + at}" for at in range(7)))
    assert [part.strip("─") for part in cycle_line(marks, Window(0, 700, 40)).split("├")[1:]] == [
        "9", "10", "11", "12", "13", "14", "15"]
    ranges = lanes.Marks(edges, edges + 100, tuple(f"Step {at} to {at + 10}" for at in range(7)))
    assert not cycle_line(ranges, Window(0, 700, 40)).strip("├─")


def test_the_cycle_at_a_moment_is_the_last_that_began_and_has_not_ended() -> None:
    timeline = timeline_of(run_of(kernels=[kernel(0, 0, 10, stream=7)], cycles=steps(100, 100, 50)), Options())
    found = [cycle_at(timeline, moment) for moment in (-1, 0, 99, 100, 249, 250)]
    assert [one and (one[0], one[1]) for one in found] == [None, (0, 100), (0, 100), (100, 200), (200, 250), None]
    assert found[3] is not None and "1" in found[3][2]
