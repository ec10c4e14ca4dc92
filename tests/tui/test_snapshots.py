"""Pictures of every screen at three sizes; ``pytest --snapshot-update`` takes new ones after a change meant to show."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from app_runs import Shelf, app_on, counted, press, screen_text, settled
from demo_app import run_of_the_demo
from history_runs import stepped
from made_ranks import job
from textual.widgets import Input

from warplens.analysis.history.runs import history_trace
from warplens.analysis.views import VIEWS
from warplens.tui.panes.picture import Picture
from warplens.tui.session.settings import Settings

SIZES = [(80, 24), (120, 40), (200, 60)]
WIDE = ("overview", "cycles", "kernels", "timeline", "diff")
"""Views that are seen at the largest size too."""
OF_TWO_RUNS = ("cycles", "diff", "pairs")


plotted = cache(counted)
warned = cache(lambda: run_of_the_demo("normal").warn("3 events were dropped"))  # what follows is found out once
late = cache(job)
many = cache(lambda: history_trace(stepped(40, "gemm_c", 1.1, 25)))


@pytest.fixture
def snap(snap_compare: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., bool]:
    """Compare the app on the bundled demo after these keys; ``a`` warns of something, ``b`` is its other run."""
    monkeypatch.chdir(tmp_path)

    def compare(*keys: str, view: str, size: tuple[int, int] = (120, 40), **more: Any) -> bool:
        shelf = Shelf(a=warned(), b=run_of_the_demo("abnormal"),
                      many=many(), counted=plotted(), slower=plotted("slower", 1200.0),
                      job=late(), later=late(420_000, "later"),
                      bad="bad.json: ends in the middle of an event.")
        runs = more.pop("runs", ("a", "b") if view in OF_TWO_RUNS else ("a",))
        app = app_on(*runs, shelf=shelf, view=view, **more)

        async def before(pilot: Any) -> None:
            await settled(pilot)
            await press(pilot, *keys)
            for typed in app.screen.query(Input):
                typed.cursor_blink = False  # it would be there in one picture and gone in the next
            seen: list[str] = []
            for picture in app.main.query(Picture):  # drawn again when all have their size, whatever came first
                picture.redraw()
            while len(seen) < 4 or len(set(seen[-4:])) > 1:  # layouts may take a few rounds on a busy machine
                await settled(pilot)
                seen.append(screen_text(app))

        return bool(snap_compare(app, terminal_size=size, run_before=before))

    return compare


@pytest.mark.parametrize(
    ("view", "size"),
    [(entry.name, size) for entry in VIEWS for size in SIZES if size != SIZES[-1] or entry.name in WIDE],
    ids=lambda part: part if isinstance(part, str) else f"{part[0]}x{part[1]}",
)
def test_the_user_opens_a_view(snap: Callable[..., bool], view: str, size: tuple[int, int]) -> None:
    assert snap(view=view, size=size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_two_runs_are_compared_kernel_by_kernel(snap: Callable[..., bool], size: tuple[int, int]) -> None:
    assert snap(view="kernels", size=size, runs=("a", "b"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_counters_are_plotted(snap: Callable[..., bool], size: tuple[int, int]) -> None:
    assert snap("j", "space", "j", view="metrics", runs=("counted",), size=size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_counters_of_two_runs_are_plotted_on_one_axis(snap: Callable[..., bool], size: tuple[int, int]) -> None:
    assert snap("tab", view="metrics", runs=("counted", "slower"), size=size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_user_opens_many_runs(snap: Callable[..., bool], size: tuple[int, int]) -> None:
    assert snap(view="", runs=("many",), size=size)


def test_the_user_filters_sorts_and_marks(snap: Callable[..., bool]) -> None:
    assert snap("f", *"total>1ms", "enter", ">", ">", "r", "space", view="kernels", size=(80, 24))


def test_the_user_types_a_filter_that_is_wrong(snap: Callable[..., bool]) -> None:
    assert snap("f", *"total>soon", "enter", view="kernels", size=(80, 24))


def test_the_user_asks_for_help(snap: Callable[..., bool]) -> None:
    assert snap("?", view="kernels")


def test_the_user_reads_the_warnings(snap: Callable[..., bool]) -> None:
    assert snap("w", view="kernels", size=(80, 24))


def test_the_user_marks_a_range_of_time(snap: Callable[..., bool]) -> None:
    assert snap("h", "h", "c", *"llllllll", "c", view="timeline", runs=("a", "b"), size=(80, 24))


def test_one_of_two_runs_cannot_be_read(snap: Callable[..., bool]) -> None:
    assert snap(view="kernels", runs=("a", "bad"), size=(80, 24))


def test_one_run_is_still_being_read(snap: Callable[..., bool]) -> None:
    assert snap(view="kernels", runs=("a", "never"), size=(80, 24))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_each_collective_is_seen_on_each_rank(snap: Callable[..., bool], size: tuple[int, int]) -> None:
    assert snap(view="collectives", runs=("job",), size=size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_ranks_of_two_runs_are_compared(snap: Callable[..., bool], size: tuple[int, int]) -> None:
    assert snap(view="ranks", runs=("job", "later"), size=size)


@pytest.mark.parametrize("size", SIZES[:2], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_page_for_a_ticket_accounts_for_the_change(snap: Callable[..., bool], size: tuple[int, int]) -> None:
    assert snap(view="triage", runs=("a", "b"), size=size)


@pytest.mark.parametrize("view", ["overview", "cycles", "kernels"])
def test_without_colour(snap: Callable[..., bool], view: str) -> None:
    assert snap(view=view, size=(80, 24), settings=Settings(theme="monochrome"))


@pytest.mark.parametrize("view", ["overview", "cycles", "kernels"])
def test_in_ascii(snap: Callable[..., bool], view: str) -> None:
    assert snap(view=view, size=(80, 24), settings=Settings(ascii=True))


def test_a_tiny_terminal(snap: Callable[..., bool]) -> None:
    assert snap(view="diff", size=(40, 12))
