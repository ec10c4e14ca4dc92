"""Gaps as small timelines: the device is idle exactly between the ends, and the host's slices cover the columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.details.gap_pictures import GapPicture, gap_pictures
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run

COLUMNS = 60


@pytest.fixture(scope="module")
def pictures() -> list[GapPicture]:
    demo, = open_run(str(Path(__file__).resolve().parents[3] / "samples" / "demo" / "normal.json.gz"))
    table = ask(view("idle"), (demo,), Options())
    names = [column.name for column in table.columns]
    return gap_pictures(demo, [dict(zip(names, row, strict=True)) for row in table.window(0, 5)], COLUMNS)


def test_the_device_runs_nothing_in_the_gap_and_something_right_beside_it(pictures: list[GapPicture]) -> None:
    for one in pictures:
        assert len(one.busy) == COLUMNS and all(share == 0 for share in one.busy[one.first + 1 : one.last])
        assert max(one.busy[: one.first + 1]) > 0 and max(one.busy[one.last :]) > 0


def test_what_the_host_did_stands_from_left_to_right_and_names_what_took_most(pictures: list[GapPicture]) -> None:
    for one in pictures:
        ends = [stretch.last for stretch in one.host]
        assert all(stretch.first > last for stretch, last in zip(one.host[1:], ends, strict=False))
        within = [stretch for stretch in one.host if one.first <= stretch.first <= one.last]
        longest = max(within, key=lambda stretch: stretch.last - stretch.first)
        assert longest.cause == one.row["cause"]
