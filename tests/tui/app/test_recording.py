"""The app beside a recorder: R records again, and each new recording is shown beside the one before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from app_runs import Shelf, app_on, press, said, settled, small_run

from warplens.tui.app import background


class Recorder:
    """Records when the test says so."""

    def __init__(self) -> None:
        self.wishes, self.reason, self.stopped = 0, "", False
        self.tell: Callable[[Path | None, str], None] = lambda path, reason: None

    def start(self, on_recorded: Callable[[Path | None, str], None]) -> None:
        self.tell = on_recorded

    def again(self) -> str:
        self.wishes += not self.reason
        return self.reason

    def stop(self) -> None:
        self.stopped = True


def shelf() -> Shelf:
    return Shelf(**{name: small_run(name) for name in ("first", "second", "third")})


def opened(app: object) -> list[str]:
    return [run.path for run in app.session.inputs]  # type: ignore[attr-defined]


async def test_each_recording_is_shown_beside_the_one_before() -> None:
    recorder = Recorder()
    app = app_on("first", shelf=shelf(), recorder=recorder)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        assert recorder.wishes == 1 and "Recording again" in said(app)
        recorder.tell(Path("second"), "")
        await settled(pilot)
        assert opened(app) == ["first", "second"] and app.session.current == "diff"
        await press(pilot, "3", "f", *"gemm", "enter")
        recorder.tell(Path("third"), "process 7 ended before it wrote")
        await settled(pilot)
        assert opened(app) == ["second", "third"] and "New recording: third" in said(app)
        assert app.session.current == "kernels" and app.main.pane.state.arrangement.filter == "gemm"
        assert "process 7 ended before it wrote" in said(app)


async def test_a_recording_waits_while_an_overlay_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_HANDS_OFF", 0.005)
    recorder = Recorder()
    app = app_on("first", shelf=shelf(), recorder=recorder)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "question_mark")
        recorder.tell(Path("second"), "")
        await settled(pilot)
        assert opened(app) == ["first"]
        await press(pilot, "escape")
        while len(opened(app)) < 2:
            await pilot.pause(0.005)
        assert opened(app) == ["first", "second"]


async def test_why_nothing_is_recorded_is_said() -> None:
    recorder = Recorder()
    app = app_on("first", shelf=shelf(), recorder=recorder)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        recorder.reason = "the job has ended"
        await press(pilot, "R")
        recorder.tell(None, "the disk of /out is full")
        await settled(pilot)
        assert "Not recorded: the job has ended" in said(app) and "the disk of /out is full" in said(app)
        assert opened(app) == ["first"]


async def test_without_a_recorder_the_key_says_where_it_works() -> None:
    app = app_on("first", shelf=shelf())
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        assert "warplens record … --open" in said(app)
