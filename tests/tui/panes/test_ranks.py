"""The ranks on the screen: who is late, and when the others waited for whom."""

from __future__ import annotations

from typing import Any

import polars as pl
from app_runs import Shelf, app_on, screen_text, settled

from warplens.loaders import schema
from warplens.loaders.trace import Info, Trace
from warplens.tui.panes.ranks import heat_strip, pipeline_picture


def job() -> Trace:
    """Four ranks at 24 all-reduces in six cycles; rank 2 comes 300 µs later in the first four."""
    rows: list[dict[str, Any]] = []
    for number in range(24):
        for rank in range(4):
            start = number * 1_000_000 + rank * 7_000 + (300_000 if rank == 2 and number < 16 else 0)
            rows.append({
                "index": len(rows), "start_ns": start, "dur_ns": number * 1_000_000 + 500_000 - start,
                "name": "ncclDevKernel_AllReduce", "kind": "collective", "device": f"GPU {rank}", "rank": rank,
                "seq": number, "process_group": "0",
            })
    cycles = [
        {"cycle": n, "start_ns": 4_000_000 * n, "dur_ns": 4_000_000, "label": "step", "kind": "step", "rank": rank,
         "source": "recorded", "complete": True}
        for rank in range(4) for n in range(6)
    ]
    frames = {"kernels": pl.DataFrame(rows), "cycles": pl.DataFrame(cycles)}
    info = Info(source="/traces/job", label="job", format="kineto", ranks=(0, 1, 2, 3))
    return Trace(info).with_tables(**{name: schema.conform(name, frame.lazy()) for name, frame in frames.items()})


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
