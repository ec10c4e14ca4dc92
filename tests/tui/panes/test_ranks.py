"""The ranks on the screen: who is late, and when the others waited for whom."""

from __future__ import annotations

from app_runs import Shelf, app_on, screen_text, settled
from made_ranks import job

from warplens.tui.panes.collectives import matrix
from warplens.tui.panes.ranks import heat_strip, in_order, pipeline_picture


async def test_the_screen_names_the_late_rank_and_shows_when() -> None:
    app = app_on("job", shelf=Shelf(job=job()), view="ranks")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        text = screen_text(app)
        assert "Rank 2 (GPU 2) comes last at 16 of 24" in " ".join(text.split())
        assert "waits caused by each rank, one cell per cycle" in text
        strip = next(line for line in text.splitlines() if "rank 2  █" in line)
        assert strip.rstrip("│ ").endswith("rank 2  ████")


async def test_a_small_screen_leaves_the_strip_out() -> None:
    app = app_on("job", shelf=Shelf(job=job()), view="ranks")
    async with app.run_test(size=(80, 18)) as pilot:
        await settled(pilot)
        assert "waits caused by each rank" not in screen_text(app)


def test_more_cycles_than_cells_are_summed() -> None:
    heat = {"ranks": ["rank 1", "rank 0"], "parts": "cycle", "caused_ns": [[5] * 100, [1] * 50 + [0] * 50]}
    head, first, second = (line.plain for line in heat_strip(heat, 28, 4))
    assert "up to 25 ns" in head
    assert first == "rank 1  " + "█" * 20
    assert second == "rank 0  " + "░" * 10 + " " * 10
    assert heat_strip(None, 80, 4) == []


def test_a_pipeline_is_a_line_per_stage_with_the_share_of_its_bubble() -> None:
    lines = [{"rank": 4 * stage, "stage": stage, "cells": cells, "bubble": bubble}
             for stage, (cells, bubble) in enumerate((("FFFFWWBB" * 30, 0.25), ("WWFFBBBB" * 30, 0.253)))]
    title, *drawn = [one.plain for one in pipeline_picture(
        {"picture": {"cycle": 3, "length_ns": 31_000_000, "lines": lines}}, 60)]
    assert "one cycle of 31.00 ms" in title and "F forward, B backward, W waits" in title
    assert [line[:15] for line in drawn] == ["stage 0 rank 0 ", "stage 1 rank 4 "]
    assert all(len(line) == 60 for line in drawn) and [line[-3:] for line in drawn] == ["25%", "25%"]
    assert pipeline_picture(None, 60) == pipeline_picture({"picture": None}, 60) == []


def test_two_runs_have_the_same_ranks_in_the_same_lines() -> None:
    heat = {"ranks": ["rank 1"], "parts": "cycle", "caused_ns": [[5, 0]]}
    both = ["rank 0", "rank 1"]
    assert in_order(heat, both) == {**heat, "ranks": both, "caused_ns": [[0, 0], [5, 0]]}
    assert in_order(None, ["rank 0"]) is None


CALLS = {
    "count": 3, "ranks": 2,
    "calls": [{"kind": "allreduce", "wait_ns": wait, "shortest_ns": 1_000_000, "last": "rank 1"}
              for wait in (200_000, 100_000, 7_000_000)],
    "rows": [{"name": "rank 0", "dur_ns": [1_200_000, 1_100_000, 8_000_000], "comm_ns": 10_300_000,
              "wait_ns": 7_300_000, "step_ns": 20_600_000},
             {"name": "rank 1", "dur_ns": [1_000_000, None, 1_000_000], "comm_ns": 3_000_000, "wait_ns": 0,
              "step_ns": 20_600_000}],
}


def test_the_matrix_has_a_line_per_rank_and_a_column_per_call() -> None:
    lines, unit, left = matrix(CALLS, 80, 8)
    assert unit == "ms" and left == "3 of 3 calls"
    text = [line.plain.split() for line in lines]
    assert text[1][2:] == ["1.20", "1.10", "8.00", "10.30", "20.60", "C" * 7 + "c" * 3]
    assert text[2][2:7] == ["1.00", "–", "1.00", "3.00", "20.60"]
    assert text[3] == ["shortest", *["1.00"] * 3] and text[4][-3:] == ["1", "1", "1"]


def test_a_matrix_without_room_has_the_longest_waits_and_says_what_is_left_out() -> None:
    lines, _, left = matrix(CALLS, 40, 4)
    assert left == "2 of 3 calls by longest wait · 1 of 2 ranks"
    assert lines[1].plain.split()[2:4] == ["1.20", "8.00"]
