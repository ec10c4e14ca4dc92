"""Operators as a tree in the app: s switches, + and − open and close, and the cursor stays on its row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from app_runs import Shelf, app_on, frame, press, said, screen_text, settled, small_run

from warplens.analysis.core import units
from warplens.loaders.ingest.call_tree import deferred
from warplens.loaders.trace import Trace
from warplens.tui.panes.tree import TreePane
from warplens.tui.session import resume


def with_calls() -> Trace:
    """The small run with an operator under a module around each of its launches."""
    run = small_run()
    slices: list[dict[str, Any]] = []
    for number, start in run.kernels.select("correlation", "start_ns").collect().rows():
        at = start - 1_500
        slices += [
            {"name": f"nn.Module: Layer_{number % 3}", "kind": "python", "start_ns": at, "dur_ns": 1_400},
            {"name": "aten::[red]mm", "kind": "op", "start_ns": at + 100, "dur_ns": 1_000},
            {"name": "cudaLaunchKernel", "kind": "runtime", "start_ns": at + 200, "dur_ns": 300,
             "correlation": number},
        ]
    return deferred(run.with_tables(host=frame("host", [{"pid": 1, "tid": 1, **one} for one in slices])))


async def test_the_tree_opens_and_closes_under_the_cursor() -> None:
    app = app_on("a", shelf=Shelf(a=with_calls()), view="ops")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "largest first" in screen_text(app)
        await press(pilot, "s")
        text = screen_text(app)
        assert "as a tree" in text and "▾ Layer_" in text and "aten::[red]mm" in text
        pane = app.main.pane
        assert pane is not None
        first = pane.row()["name"]
        whole = len(pane.rows.table or ())
        await press(pilot, "minus")
        assert len(pane.rows.table or ()) < whole and pane.row()["name"] == first and "▸ Layer_" in screen_text(app)
        await press(pilot, "plus", "down")
        assert pane.row()["name"] == "aten::[red]mm" and len(pane.rows.table or ()) == whole
        await press(pilot, "down", "minus")
        assert pane.row()["name"] == "aten::[red]mm", "what cannot be closed closes the row it stands under"
        await press(pilot, "s", "s")
        assert "largest first" in screen_text(app) and "▾" not in screen_text(app)


async def test_a_filter_and_a_sort_make_a_list_of_the_tree() -> None:
    app = app_on("a", shelf=Shelf(a=with_calls()), view="ops")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "s", "f", *"softmax", "enter")
        assert "▾" not in screen_text(app) and "softmax" in screen_text(app)
        await press(pilot, "plus", "escape")
        assert "▾ Layer_" in screen_text(app)
        await press(pilot, "u", "u")
        assert app.is_running


async def test_a_run_without_calls_says_why_there_is_no_tree_and_comes_back() -> None:
    sums = frame("operators", [{"name": "aten::mm", "calls": 3, "device_self_ns": 5_000, "host_self_ns": 1}])
    app = app_on("a", shelf=Shelf(a=small_run().with_tables(operators=sums)), view="ops")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "s")
        assert "sums per operator, not calls" in screen_text(app)
        await press(pilot, "s")
        assert "aten::mm" in screen_text(app)


async def test_each_shape_keeps_its_marks_and_its_cursor() -> None:
    app = app_on("a", shelf=Shelf(a=with_calls()), view="ops")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "space", "s", "down", "down", "space")
        pane = app.main.pane
        assert pane is not None
        tree = set(pane.rows.marks), pane.rows.cursor
        assert tree[0] == {2} and len(app.session.marked) == 2
        await press(pilot, "s", "s")
        assert pane.rows.marks == {0} and app.session.marked[0][0] == "ops"
        await press(pilot, "s")
        assert (set(pane.rows.marks), pane.rows.cursor) == tree
        await press(pilot, "i", *"slow", "enter", "s")
        resume.keep(app.session)
    again = app_on("a", shelf=Shelf(a=with_calls()), view="ops")
    async with again.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        pane = again.main.pane
        assert pane is not None and not pane.rows.marks
        await press(pilot, "s")
        assert pane.rows.marks == {3} and pane.state.notes == {3: "slow"}  # the marked row has no note


async def test_s_goes_on_to_the_flame_graph_whose_boxes_zoom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_on("a", shelf=Shelf(a=with_calls()), view="ops")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert " s tree " in screen_text(app)
        await press(pilot, "s")
        assert " s flame graph " in screen_text(app)
        await press(pilot, "s")
        pane = app.main.pane
        assert isinstance(pane, TreePane) and pane.flame.flame is not None
        text = screen_text(app)
        assert " / search " in text.splitlines()[-1] and " s list " in text.splitlines()[-1]
        assert "Flame graph" in text and "▏Layer_" in text and "level 1 of 3" in text
        assert f"device time, {units.duration(pane.flame.flame.total)}" in text
        await press(pilot, "right", "down", "enter")
        assert pane.flame.zoomed == pane.flame.selected and "▏aten::[red]mm" in screen_text(app)
        below = pane.flame.flame.frames[pane.flame.selected]
        assert below.name == "aten::[red]mm" and below.depth == 1
        await press(pilot, "equals_sign", "slash", *"LAYER_", "enter")
        assert pane.flame.flame.frames[pane.flame.selected].name.startswith("Layer_")
        before = pane.flame.selected
        await press(pilot, "slash", "enter")
        assert pane.flame.selected != before, "the next one"
        await press(pilot, "slash", *"zzz", "enter")
        assert "No match." in screen_text(app)
        await press(pilot, "escape", "f")
        assert "Only lists are filtered" in said(app)
        await press(pilot, "up", "equals_sign", "r")
        assert pane.flame.zoomed == -1 and "idle time before launches" in screen_text(app)
        await press(pilot, "e", "p", "e", "s")
        (speedscope,), (svg,) = tmp_path.glob("*.speedscope.json"), tmp_path.glob("*.svg")
        assert json.loads(speedscope.read_text())["profiles"] and "idle time" in svg.read_text()
        await press(pilot, "s")
        assert "largest first" in screen_text(app) and pane.rows.display and not pane.flame.display


async def test_the_times_over_a_flame_graph_of_two_runs_are_whole_at_any_width() -> None:
    a, b = with_calls(), with_calls()
    b = b.with_tables(kernels=b.kernels.with_columns(name=pl.lit("other"), dur_ns=pl.col("dur_ns") * 1_013))
    app = app_on("a", "b", shelf=Shelf(a=a, b=b), view="ops")
    async with app.run_test(size=(100, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", "s")
        for width in (60, 80, 120):
            before = screen_text(app)
            await pilot.resize_terminal(width, 24)
            while screen_text(app) == before:
                await settled(pilot)
            await settled(pilot)
            flame = app.main.pane.flame.flame
            (border,) = [line for line in screen_text(app).splitlines() if "Flame graph" in line]
            assert flame is not None and flame.before and flame.lost
            times = f"device time per cycle, {units.duration(flame.before)} → {units.duration(flame.total)}"
            assert times in border and "…" not in border
            assert (f"; {units.duration(flame.lost)} only in A" in border) == (width > 60)


def with_samples(often: int, label: str = "normal") -> Trace:
    """A run whose threads were sampled, ``often`` of the times in one function."""
    stacks = ["mul (libm)\nstep (app)\nmain (app)"] * often
    stacks += ["[libcuda.so.1]\nmain (app)", "idle (libc)\nstart (libc)"]
    rows = [{"start_ns": at, "pid": 1, "tid": 1 + (at == often + 1), "function": stack.split(" ")[0], "stack": stack}
            for at, stack in enumerate(stacks)]
    return small_run(label).with_tables(call_chains=frame("call_chains", rows))


async def test_the_functions_of_two_runs_show_the_change_they_are_sorted_by() -> None:
    app = app_on("a", "b", shelf=Shelf(a=with_samples(3), b=with_samples(8, "abnormal")), view="stacks")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        text = screen_text(app)
        assert "largest change first" in text and re.search(r"function +self % A +self % B +Δ self %", text)
        assert re.search(r"mul +60\.0% +80\.0% +\+20\.0 pt", text)


async def test_functions_of_samples_have_a_list_a_tree_and_a_flame_graph() -> None:
    app = app_on("a", shelf=Shelf(a=with_samples(3)), view="stacks")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        text = screen_text(app)
        assert "5 CPU samples on 2 threads" in text and "mul" in text and "60.0%" in text
        await press(pilot, "s")
        assert "▾ thread 1" in screen_text(app) and "▸ step" in screen_text(app).replace("▾", "▸")
        await press(pilot, "s")
        pane = app.main.pane
        assert isinstance(pane, TreePane) and pane.flame.flame is not None
        assert "CPU samples, 5 samples" in screen_text(app) and "device/idle" not in screen_text(app)
        await press(pilot, "r", "down", "enter")
        assert "main  4 samples, 80.0%" in screen_text(app)
        await press(pilot, "s")
        assert "largest first" in screen_text(app)
