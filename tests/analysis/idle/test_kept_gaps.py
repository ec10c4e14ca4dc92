"""Gaps of a big recording stay on disk in parts: what is shown of them is what a small one has in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from warplens.analysis.core import derived
from warplens.analysis.query import ask as table
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.views import idle as view_of_gaps
from warplens.analysis.views import view
from warplens.loaders.ingest import store as files
from warplens.loaders.ingest.opening import open_run


def idle(path: str) -> Table:
    return ask(view("idle"), open_run(path))


@pytest.mark.parametrize("part", [700, pytest.param(20_000, marks=pytest.mark.deep), 1 << 30])
def test_gaps_left_on_disk_are_those_found_in_memory(
    samples: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    path = str(samples / "demo" / "normal.json.gz")
    fresh = idle(path)
    monkeypatch.setattr(derived, "LEAST_BYTES", 0)
    monkeypatch.setattr(files, "PART_BYTES", part)
    monkeypatch.setattr(table, "ON_DISK", 1)
    monkeypatch.setattr(view_of_gaps, "MANY", 1)
    for again in (idle(path), idle(path)):
        assert again.rows.on_disk and not fresh.rows.on_disk
        assert again.total_rows == fresh.total_rows > 20
        assert_frame_equal(again.frame, fresh.frame, categorical_as_str=True)
        assert_frame_equal(again.head(7).frame, fresh.head(7).frame, categorical_as_str=True)
        assert_frame_equal(
            again.sort("start_ns", False).head(9).frame, fresh.sort("start_ns", False).head(9).frame,
            categorical_as_str=True)
        assert (again.all_facts, again.notes, again.summary) == (fresh.all_facts, fresh.notes, fresh.summary)
