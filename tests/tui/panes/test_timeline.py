"""The timeline in the app: every key of it, two runs, the way there from a row and back, and what it exports."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from app_runs import PER_STEP, Shelf, app_on, counted, press, said, screen_text, settled, small_run
from demo_app import demo_app
from msgspec.structs import replace
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.pilot import Pilot
from textual.strip import Strip

from warplens import __version__
from warplens.analysis.core import units
from warplens.analysis.timeline import chrome_trace, place
from warplens.analysis.timeline.lanes import Marks
from warplens.analysis.timeline.window import Window
from warplens.loaders import files, schema
from warplens.tui.app.app import WarplensApp
from warplens.tui.panes.timeline import scene
from warplens.tui.panes.timeline.canvas import TimelineCanvas
from warplens.tui.panes.timeline.painter import Painter, brief
from warplens.tui.panes.timeline.view import LEAST_NS
from warplens.tui.session import exporting, resume
from warplens.tui.session.keys import KEYS
from warplens.tui.session.session import Session

Check = Callable[[TimelineCanvas, Pilot[Any]], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def key(name: str) -> Callable[[Check], Check]:
    def keep(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return keep


def canvas(app: WarplensApp) -> TimelineCanvas:
    found = app.main.pane.canvas
    assert isinstance(found, TimelineCanvas)
    return found


def under(c: TimelineCanvas) -> str:
    lane, at = c.lane, c.slice()
    assert lane is not None
    return "" if at is None else c.runs[c.run].names[int(lane.slices.names[at])]


@pytest.mark.parametrize("column", [0, 2, 4, 9])
def test_the_column_of_the_cursor_may_lie_beyond_a_short_line(column: int) -> None:
    """A terminal of a few columns has labels longer than its lanes; Textual's divide wants cuts within the line."""
    look = SimpleNamespace(base=Style(), cursor=Style(), cursor_blurred=Style())
    lit = Painter._lit(SimpleNamespace(look=look), [Segment("1.2"), Segment(" ▁")], column, True)  # type: ignore[arg-type]
    assert "".join(one.text for one in lit) == "1.2 ▁"


@pytest.mark.parametrize("name", [one.name for one in KEYS if one.place == "timeline"])
async def test_key(name: str) -> None:
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = canvas(app)
        await CHECKS[name](shown, pilot)
        begin, end = shown.window_ns
        assert end - begin >= LEAST_NS and begin <= shown.moment <= end, "the cursor is outside the picture"


async def test_the_cursor_stays_on_its_launch_when_the_terminal_gets_another_width() -> None:
    app = demo_app("timeline")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "home", "right", *["l"] * 9)
        shown = canvas(app)
        here = under(shown), shown.under_cursor()[:2]
        assert here[0]
        for size in ((200, 60), (120, 40), (80, 24)):
            columns = shown.window(0).columns
            await pilot.resize_terminal(*size)
            while shown.window(0).columns == columns:  # Textual waits for further changes of the size
                await pilot.pause()
            await settled(pilot)
            start, end = shown.span_here()
            column = (shown.window_ns[1] - shown.window_ns[0]) // shown.window(0).columns
            assert start - column <= sum(here[1]) // 2 <= end + column
        assert (under(shown), shown.under_cursor()[:2]) == here


async def test_a_place_asked_for_before_anything_is_drawn_is_refused() -> None:
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "g", *"1ms")
        app.main.pane._runs = ()  # another recording was opened meanwhile
        await press(pilot, "enter")
        assert app.is_running and "nothing is drawn yet" in screen_text(app)


async def test_the_palette_runs_the_keys_of_the_timeline_which_has_the_focus() -> None:
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        before = length(canvas(app))
        await press(pilot, "colon", *"closer")
        await settled(pilot)
        await press(pilot, "down", "enter")
        await settled(pilot)
        assert app.screen is app.main and length(canvas(app)) == before // 2


async def test_the_cursor_begins_on_the_stream_that_ran_most_which_has_the_height() -> None:
    usual = small_run()
    rows = usual.kernels.collect().with_columns(pl.lit(7).cast(pl.Int64).alias("stream"))
    late = rows.tail(1).with_columns(
        pl.lit(1).cast(pl.Int64).alias("stream"), pl.lit(500).cast(rows["dur_ns"].dtype).alias("dur_ns"))
    run = usual.with_tables(kernels=schema.conform("kernels", pl.concat([rows, late]).lazy()))
    async with app_on("a", shelf=Shelf(a=run), view="timeline").run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        shown = canvas(pilot.app)  # type: ignore[arg-type]
        named = {row.label: row.lines for _, row in shown.rows()}
        assert next(iter(named)) == "GPU 0 stream 1" and named["GPU 0 stream 1"] == 1 < named["GPU 0 stream 7"]
        assert shown.lane is not None and shown.lane.name == "GPU 0 stream 7"


async def test_a_stream_was_busy_in_its_overlapping_rows_too() -> None:
    rows = small_run().kernels.collect().head(2)
    spans = (pl.Series("start_ns", [0, 5_000]), pl.Series("dur_ns", [10_000, 15_000]))
    overlapping = schema.conform("kernels", rows.with_columns(*spans).lazy())
    run = small_run().with_tables(kernels=overlapping, cycles=schema.conform("cycles", pl.LazyFrame()))
    async with app_on("a", shelf=Shelf(a=run), view="timeline").run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = screen_text(pilot.app)
        assert "overlap 1" in shown and "20.00 µs busy" in shown and "100.0%" in shown


def length(c: TimelineCanvas) -> int:
    return c.window_ns[1] - c.window_ns[0]


@key("zoom_in")
async def zoom_in(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    before, moment = length(c), c.moment
    await press(pilot, "+")
    assert length(c) == before // 2 and abs(c.moment - moment) <= before // 50
    await press(pilot, *"+" * 40)
    assert length(c) == LEAST_NS


@key("zoom_out")
async def zoom_out(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    whole = c.window_ns
    await press(pilot, "+", "+", "-")
    assert length(c) == (whole[1] - whole[0]) // 4 * 2
    await press(pilot, "-", "-", "-")
    assert c.window_ns == whole


@key("fit")
async def fit(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    whole = c.window_ns
    await press(pilot, "+", "+", "right", "=")
    assert c.window_ns == whole


@key("zoom_to")
async def zoom_to(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "g", *"#4", "enter", "-", "-")
    name, at = under(c), c.slice()
    await press(pilot, "enter")
    assert under(c) == name and c.slice() == at
    lane = c.lane
    assert lane is not None and at is not None
    assert c.window_ns[0] < int(lane.slices.starts[at]) < int(lane.slices.ends[at]) < c.window_ns[1]
    assert length(c) <= 1.3 * int(lane.slices.ends[at] - lane.slices.starts[at])


@key("fold_lanes")
async def fold_lanes(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    before = [row.label for _, row in c.rows()]
    await press(pilot, "space", "space")
    assert [row.label for _, row in c.rows()] == before


@key("arrow")
async def arrow(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "g", *"#4", "enter", "a")
    assert "No launch was recorded" in said(pilot.app)


@key("critical_path")
async def critical_path(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "s")
    assert "No critical path: " in said(pilot.app) and c.runs[0].path is None


@key("range")
async def mark_a_range(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    session = pilot.app.main.session
    await press(pilot, "g", *"#4", "enter", "c")
    assert c.ranges[0] is not None and session.ranges == (None, None) and "The range begins here" in said(pilot.app)
    await press(pilot, "escape")
    assert c.ranges == (None, None)
    await press(pilot, "c", "g", *"#6", "enter", "c")
    rows = session.traces[0].kernels.collect()
    assert session.ranges[0] == (rows["start_ns"][4], rows["start_ns"][6] + rows["dur_ns"][6])
    await press(pilot, "4")
    assert pilot.app.main.pane.table.total_rows == 3
    await press(pilot, "6", "c")
    assert session.ranges == (None, None) and session.scope_text == ""


@key("goto")
async def goto(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "+", "+", "g", *"#4", "enter")
    lane = c.lane
    assert lane is not None and c.slice() == 4
    await press(pilot, "g", *"0.5ms", "enter")
    assert c.window_ns[0] < 500_000 < c.window_ns[1]
    await press(pilot, "g", *"nonsense", "enter")
    assert "a time, as 12.5ms" in screen_text(pilot.app)


@key("same_next")
async def same_next(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "g", *"#1", "enter")
    assert c.slice() == 1
    await press(pilot, "n")
    assert c.slice() == 7


@key("same_previous")
async def same_previous(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "g", *"#7", "enter", "N")
    assert c.slice() == 1


@key("earlier")
async def earlier(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "+", "+")
    before = c.window_ns
    await press(pilot, "left")
    assert c.window_ns[0] == before[0] - (before[1] - before[0]) // 8


@key("later")
async def later(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "+", "+")
    before = c.window_ns
    await press(pilot, "right")
    assert c.window_ns[0] == before[0] + (before[1] - before[0]) // 8


@key("column_left")
async def column_left(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    before, window = c.column, c.window_ns
    await press(pilot, "h", "h")
    assert c.column == before - 2 and c.window_ns == window


@key("column_right")
async def column_right(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    before, window = c.column, c.window_ns
    await press(pilot, "l")
    assert c.column == before + 1 and c.window_ns == window


@key("lane_down")
async def lane_down(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "j")
    assert c.selected == min(1, len(c.rows()) - 1)


@key("lane_up")
async def lane_up(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "j", "k")
    assert c.selected == 0


@key("lanes_down")
async def lanes_down(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "pagedown")
    assert c.selected == len(c.rows()) - 1


@key("lanes_up")
async def lanes_up(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    await press(pilot, "pagedown", "pageup")
    assert c.selected == 0


@key("beginning")
async def beginning(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    start = c.window_ns[0]
    await press(pilot, "+", "+", "home")
    assert c.window_ns[0] == start and c.column == 0


@key("ending")
async def ending(c: TimelineCanvas, pilot: Pilot[Any]) -> None:
    end = c.window_ns[1]
    await press(pilot, "+", "+", "end")
    assert c.window_ns[1] == end


async def test_the_screen_says_what_is_under_the_cursor() -> None:
    app = app_on("a", view="timeline")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "g", *"#0", "enter")
        shown = screen_text(app)
        assert "GPU 0 stream 7" in shown and "gemm bf16" in shown and "launch not recorded" in shown
        assert "ProfilerStep#1" in shown


async def test_from_a_row_to_its_place_and_back() -> None:
    app = app_on("a", view="launches")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "j", "t")
        assert app.main.pane.entry.name == "timeline" and canvas(app).slice() == 2
        await press(pilot, "backspace")
        assert app.main.pane.entry.name == "launches" and app.main.pane.rows.cursor == 2
        await press(pilot, "3", "t")
        assert under(canvas(app)) == app.main.pane.session.inputs[0].traces[0].kernels.collect()["name"][5]


async def test_two_runs_are_above_one_another_at_the_same_step() -> None:
    shelf = Shelf(a=small_run("normal"), b=small_run("abnormal", slow=3.0))
    app = app_on("a", "b", shelf=shelf, view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        c = canvas(app)
        assert [run for run, row in c.rows() if row.lane is not None] == [0, 1]
        shown = screen_text(app)
        assert "A GPU 0 stream 7" in shown and "B GPU 0 stream 7" in shown
        assert "Both recordings" in shown and "aligned at the first cycle" in shown
        await press(pilot, "g", *"2ms", "enter", "=")
        assert c.aligned_at and f"aligned at the start of {c.runs[0].marks.labels[c.aligned_at]} " in screen_text(app)
        none = Marks(np.zeros(0, np.int64), np.zeros(0, np.int64), ())
        c.show(tuple(replace(one, label=f"other {one.label}", marks=none) for one in c.runs), (0, 0))
        await press(pilot, "=")
        assert "aligned at the first activity" in screen_text(app)


@pytest.mark.parametrize("runs", [("a",), ("a", "b")])
async def test_the_ruler_and_the_slice_count_from_the_start_of_the_recording(runs: tuple[str, ...]) -> None:
    app = app_on(*runs, view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "g", *"#56", "enter")
        c, text = canvas(app), screen_text(app)
        cycle, start = c.cycle_shown(), app.main.session.traces[0].kernels.collect()["start_ns"][56]
        assert cycle and c.window_ns[0] <= start < c.window_ns[1]
        of = "of A" if len(runs) > 1 else "of the recording"
        assert f" {units.span_text(*c.window_ns)} {of}, {c.runs[0].marks.labels[cycle]} " in text
        line = next(line for line in text.splitlines() if "╵" in line)
        ruler = [(one.start(), float(one[1].replace(",", "")) * {"ns": 1, "µs": 1e3, "ms": 1e6}[one[2]])
                 for one in re.finditer(r"╵([\d,]+) (\ws)", line)]
        assert ruler and all(c.window(0).column(round(ns)) + c.painter().label + 2 == column for column, ns in ruler)
        length = app.main.session.traces[0].kernels.collect()["dur_ns"][56]
        assert len(runs) > 1 or f"at {units.when(start, length)} · GPU 0 stream 7" in text


@pytest.mark.parametrize("runs", [("a",), ("a", "b")])
async def test_the_cycle_that_all_views_are_limited_to_is_what_it_shows(runs: tuple[str, ...]) -> None:
    app = app_on(*runs, view="cycles")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "j", "c", "6")
        session, c = app.main.session, canvas(app)
        for _ in range(2):
            wanted = [run.cycles.collect().row(by_predicate=pl.col("cycle") == cycle, named=True)
                      for run, cycle in zip(session.traces, (session.cycle, session.cycle_b), strict=False)]
            assert [c.window(at).start for at in range(len(runs))] == [one["start_ns"] for one in wanted]
            assert c.window_ns[1] - c.window_ns[0] == max(one["dur_ns"] for one in wanted)
            assert session.scope_text in screen_text(app)
            recorded, shown = wanted[0]["dur_ns"], c.window_ns[1] - c.window_ns[0]
            title = f"Cycle {units.duration(recorded)}" + (
                f" · {units.duration(shown)} shown" if shown > recorded else " ")
            assert title in screen_text(app)
            await press(pilot, "+", "]")
        await press(pilot, "C")
        assert c.window_ns == c.whole()


async def test_a_cycle_in_scope_is_named_although_its_device_work_ends_in_later_ones() -> None:
    run = small_run()
    length = run.cycles.collect()["dur_ns"][0]
    calls = run.kernels.collect().select("start_ns", "correlation", pl.lit("cudaLaunchKernel").alias("name"),
                                         pl.lit("runtime").alias("kind"), pl.lit(1_000).alias("dur_ns"))
    late = run.with_tables(kernels=run.kernels.with_columns(pl.col("start_ns") + 3 * length),
                           host=schema.conform("host", calls.lazy()))
    app = app_on("a", shelf=Shelf(a=late), view="cycles")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "c", "6")
        cycle = app.main.session.cycle
        assert cycle is not None and canvas(app).window_ns[1] > 3 * length
        text = screen_text(app)
        assert f"of the recording, ProfilerStep#{cycle} " in text
        assert f"Cycle {units.duration(late.cycles.collect()['dur_ns'][cycle - 1])} · " in text


async def test_a_range_of_each_run_is_compared() -> None:
    spans = ((20, 29), (56, 65))
    app = app_on("a", "b", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for first, last in spans:
            await press(pilot, "g", *f"#{first}", "enter", "c", "g", *f"#{last}", "enter", "c", "G", "pagedown")
        pane, session = app.main.pane, app.main.session
        assert pane.entry.name == "diff" and pane.table is not None
        ns = []
        for run, (first, last), at in zip(session.traces, spans, session.ranges, strict=True):
            rows = run.kernels.collect()[first : last + 1]
            assert at == (rows["start_ns"][0], rows["start_ns"][-1] + rows["dur_ns"][-1])
            ns.append({name: rows.filter(rows["name"] == name)["dur_ns"].sum() for name in rows["name"].unique()})
        told = {row["function"]: (row["a_ms"], row["b_ms"]) for row in pane.exported.frame.to_dicts()}
        assert told == {name: pytest.approx((ns[0].get(name, 0) / 1e6, ns[1].get(name, 0) / 1e6))
                        for name in {*ns[0], *ns[1]}}
        (a, b), command = session.ranges, pane.command
        assert a is not None and b is not None and session.scope_text in screen_text(app)
        assert f"--view diff --from {a[0]}:{b[0]} --to {a[1]}:{b[1]}" in command
        await press(pilot, "u")
        assert session.ranges == (a, None) and not session.scope_text
        await press(pilot, "C")
        assert session.ranges == (None, None)


async def test_the_window_as_it_stands_is_what_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "g", *"#4", "enter", "e")
        assert "m  markdown" in screen_text(app) and "c  Chrome trace of ProfilerStep#1" in screen_text(app)
        await press(pilot, "m")
        (written,) = tmp_path.glob("*.md")
        text = written.read_text()
        assert "softmax" in text and "GPU 0 stream 7" in text and "```text" in text
        start, end = canvas(app).window_ns
        assert f"--view timeline --from {start} --to {end}" in text and f"warplens {__version__}" in text
        await press(pilot, "e", "s", "e", "s")
        assert len([one for one in tmp_path.glob("*.svg") if one.read_text().startswith("<svg")]) == 2
        await press(pilot, "e", "escape")
        assert app.screen is app.main


async def test_a_window_and_a_cycle_leave_as_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "g", *"#20", "enter", "e", "t", "e", "c")
        window, cycle = (json.loads(gzip.decompress(one.read_bytes()))["traceEvents"] for one in sorted(
            tmp_path.glob("*.json.gz"), key=lambda path: len(path.name)))
        kernels = [[event for event in events if event.get("cat") in ("kernel", "gpu_memcpy")]
                   for events in (window, cycle)]
        assert 1 <= len(kernels[0]) < len(kernels[1]) == PER_STEP
        assert "Written to" in said(app)


async def test_a_trace_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def sliced(*args: object) -> Iterator[bytes]:
        yield b"{"
        raise ValueError("the disk is [red]full")

    monkeypatch.setattr(chrome_trace, "sliced", sliced)
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "e", "t")
        assert "the disk is [red]full" in said(app) and not list(tmp_path.iterdir())


async def test_each_choice_is_one_line_where_there_is_room() -> None:
    async with app_on("a", view="timeline").run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "e")
        assert "t  Chrome trace of this window, which Perfetto opens" in screen_text(pilot.app)


def test_a_trace_that_is_half_written_when_the_app_ends_leaves_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writing, over = threading.Event(), threading.Event()

    def pieces() -> Iterator[bytes]:
        yield b"{"
        writing.set()
        over.wait()

    def write() -> None:
        with suppress(OSError):
            exporting.new_trace(pieces(), "run")

    thread = threading.Thread(target=write)
    thread.start()
    writing.wait()
    assert len(list(tmp_path.iterdir())) == 1
    files.drop_unfinished()
    over.set()
    thread.join()
    assert not list(tmp_path.iterdir())


async def test_the_lanes_of_two_runs_may_hold_different_numbers_of_slices() -> None:
    app = demo_app("timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        rows = canvas(app).rows()
        of = [run for run, _ in rows]
        assert set(of) == {0, 1} and of == sorted(of), "all of run A is above all of run B"


async def test_the_same_rows_of_two_runs_are_in_sight_wherever_the_cursor_is() -> None:
    app = demo_app("timeline")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        c, seen = canvas(app), set()
        for _ in c.rows():
            lines = [line[2:19] for line in screen_text(app).splitlines()[7:19]]
            a, b = ([line[2:].partition(" +")[0].rstrip() for line in lines if line.startswith(side)]
                    for side in ("A ", "B "))
            name = c.rows()[c.selected][1].label.partition(" +")[0].rstrip()
            assert len(a) == len(b) == 4 and name in a and name in b, (name, a, b)
            assert sum("cycles" in line for line in lines) == 2, "each run keeps its cycles in sight"
            seen |= {*a}
            await press(pilot, "j")
        assert {"GPU 7 stream 7", "SM clock"} <= seen


@pytest.mark.parametrize(("label", "room", "shown"), [
    ("rank 1 thread 59812 +10", 17, "r1 th 59812 +10"), ("rank 0 GPU 0 stream 84", 15, "r0 GPU 0 s84"),
    ("rank 0 GPU 0 stream 84", 22, "rank 0 GPU 0 stream 84"), ("thread 12 thread 3", 16, "th 12 thread 3"),
    ("GPU 0 stream ?", 12, "GPU 0 stream ?"), ("rank 0 thread -247463936", 16, "r0 th -247463936"),
    ("queue depth rank 12", 16, "queue depth r12"),
])
def test_a_label_keeps_the_numbers_that_tell_lanes_apart(label: str, room: int, shown: str) -> None:
    assert brief(label, room) == shown


async def test_a_search_goes_to_the_next_slice_of_that_name() -> None:
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        c, kernels = canvas(app), app.main.session.traces[0].kernels.collect()
        await press(pilot, "g", *"#0", "enter")
        starts = kernels.filter(kernels["name"].cast(pl.String).str.contains("softmax"))["start_ns"].to_list()
        await press(pilot, "slash", *"SOFTmax", "enter")
        visited = []
        for _ in starts:
            lane, at = c.lane, c.slice()
            assert lane is not None and at is not None and "softmax" in under(c)
            visited.append(int(lane.slices.starts[at]))
            await press(pilot, "slash", "enter")
        assert visited == sorted(starts) and len(starts) > 3
        assert int(c.lane.slices.starts[c.slice()]) == min(starts), "after the last one comes the first"
        await press(pilot, "slash", *"zzz", "enter")
        assert "No match." in screen_text(app)
        await press(pilot, "escape", "f")
        assert "Only lists are filtered" in said(app)
        assert " / search " in screen_text(app).splitlines()[-1]


async def test_what_is_found_in_a_column_of_many_slices_is_zoomed_to() -> None:
    app = demo_app("timeline")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        c = canvas(app)
        for _ in range(3):
            await press(pilot, "equals_sign", "slash", *"norm", "enter")
            assert "norm" in under(c).lower() and c.window_ns != c.whole()


async def test_what_is_told_of_a_slice_leaves_the_lanes_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, real = [], scene.draw

    def draw(*given: Any) -> tuple[list[Strip], list[int | None]]:
        drawn.append(given)
        return real(*given)

    monkeypatch.setattr(scene, "draw", draw)
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "g", *"#0", "enter")
        drawn.clear()
        canvas(app).show_text("launched 3 µs before")
        await pilot.pause()
        assert "launched 3 µs before" in screen_text(app) and not drawn
        await press(pilot, "j", "k")
        assert drawn


async def test_launchers_are_looked_up_only_where_the_cursor_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = [], place.launcher

    def launcher(*given: Any) -> str:
        asked.append(given)
        return real(*given)

    monkeypatch.setattr(place, "launcher", launcher)
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "g", *"#0", "enter")
        asked.clear()
        c = canvas(app)
        for _ in range(20):  # faster than any key repeats
            c.action_step(1)
        c.go(found(c, 0))
        await settled(pilot)
        assert len(asked) == 1


def found(c: TimelineCanvas, number: int) -> place.Place:
    row = {"start_ns": int(c.runs[0].lanes[0].slices.starts[number]), "dur_ns": 1}
    there = place.find(c.runs[0], row)
    assert there is not None
    return there


async def test_keys_before_there_are_lanes_do_nothing() -> None:
    app = app_on("never", shelf=Shelf(), view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        before = canvas(app)
        for binding in before.BINDINGS:  # the canvas has no focus here, but has it while lanes are made
            assert isinstance(binding, Binding)
            await app.run_action(binding.action, before)
        assert not before.runs and before.slice() is None


async def test_the_arrow_and_the_critical_path_of_the_demo() -> None:
    app = demo_app("timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        c = canvas(app)
        assert "queue depth" in screen_text(app)
        await press(pilot, "g", *"#200", "enter")
        launch = c.slice()
        await press(pilot, "a")
        lane = c.lane
        assert lane is not None and lane.tid is not None and under(c) == "cudaLaunchKernel"
        await press(pilot, "a")
        assert c.lane is not None and c.lane.tid is None and c.slice() == launch
        await press(pilot, "s")
        assert c.runs[c.run].path is not None and "critical path" in screen_text(app)
        assert ", the cycle of median length." in said(app)
        await press(pilot, "s", "j", "j")
        c.column = next(at for at in range(c.window(0).columns) if setattr(c, "column", at) or c.slice() is not None)
        assert c.lane is not None and c.lane.tid is not None
        await press(pilot, "a")
        assert "This slice launches nothing itself" in said(app)
        await press(pilot, "s")
        run, path = c.run, c.runs[c.run].path
        assert path is not None
        names = [c.runs[run].names[int(code)] for code in path.slices.names]
        call = names.index("cudaLaunchKernel")
        begun, ended = int(path.slices.starts[call]), int(path.slices.ends[call])
        c.go(place.Place(begun, ended), run)
        c.select(run, path)
        c.changed()
        await press(pilot, "a")
        assert c.lane is not None and c.lane.tid is not None and under(c) == "cudaLaunchKernel"
        assert int(c.lane.slices.starts[c.slice() or 0]) == begun, "from the path to the same slice in its lane"
        await press(pilot, "s")
        assert all(one.path is None for one in c.runs)


async def test_a_note_on_a_time_is_seen_kept_and_carried_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "g", *"#4", "enter", "i", *"look [here]", "enter")
        text = screen_text(app)
        assert "◆look [here]" in text and "◆ look [here]" in text
        note = app.session.time_notes[0]
        lane = canvas(app).lane
        assert lane is not None and (note.start, note.end) == (int(lane.slices.starts[4]), int(lane.slices.ends[4]))
        await press(pilot, "e", "m")
        (page,) = tmp_path.glob("*.md")
        assert "Note on " in page.read_text() and ": look " in page.read_text()
        assert app.session.marked[-1][0] == "timeline" and app.session.marked[-1][2] == "look [here]"
        resume.keep(app.session)
        again = Session(inputs=app.session.inputs)
        resume.restore_notes(again)
        assert again.time_notes == [note]
        await press(pilot, "i", *["backspace"] * 11, "enter")
        assert not app.session.time_notes and "◆" not in screen_text(app)


@pytest.mark.parametrize("first, drawn", [
    ("a long note", "  ◆a …te◆second"), ("長い長いノート", "  ◆長…ト◆second"), ("b", "  ◆b    ◆second"),
])
async def test_a_note_ends_where_the_next_begins(first: str, drawn: str) -> None:
    async with app_on("a", view="timeline").run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        c = canvas(pilot.app)  # type: ignore[arg-type]
        line = c.painter().notes([(800, "second"), (200, first)], None, Window(0, 5_000, 50)).text
        assert drawn in line and cell_len(line) == 80


@pytest.mark.parametrize("height", [40, 42, 44, 46])
async def test_the_cursor_stays_on_its_lane_when_notes_or_the_terminal_take_room_from_lanes(height: int) -> None:
    usual = small_run()
    deep = pl.DataFrame([
        {"start_ns": at, "dur_ns": 2_000_000 - 2 * at, "name": f"op {at}", "kind": "op", "pid": 1, "tid": 2}
        for at in range(8)
    ])
    shelf = Shelf(a=usual.with_tables(host=schema.conform("host", deep.lazy())), b=counted("abnormal"))
    app = app_on("a", "b", shelf=shelf, view="timeline")
    async with app.run_test(size=(120, height)) as pilot:
        await settled(pilot)
        c = canvas(app)
        while not (c.run == 1 and c.lane is not None):
            await press(pilot, "j")
        lane = c.lane
        await press(pilot, "i", "x", "enter")
        assert c.run == 1 and c.lane is lane and [note.run for note in c.notes] == [1]
        await pilot.resize_terminal(120, 30)
        await settled(pilot)
        assert c.run == 1 and c.lane is lane, "fewer lines of run A are above it"


async def test_a_launch_to_go_to_is_looked_up_in_a_worker_and_what_is_none_is_said(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, launch_row = list[threading.Thread](), place.launch_row
    monkeypatch.setattr(
        place, "launch_row", lambda *asked: threads.append(threading.current_thread()) or launch_row(*asked))
    app = app_on("a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "g", *"#4", "enter")
        assert canvas(app).slice() == 4 and app.focused is canvas(app)
        await press(pilot, "g", *"#9999", "enter")
        assert "no such launch" in screen_text(app) and canvas(app).slice() == 4
    assert len(threads) == 2 and threading.main_thread() not in threads
