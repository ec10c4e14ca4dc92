"""What fails to be painted is left out, and the app goes on; copies in tmux are answered by tmux."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from app_runs import Shelf, app_on, press, said, screen_text, settled, small_run
from runs import run_of, samples

from warplens.loaders import files
from warplens.tui.list import cells


async def test_a_cell_that_fails_is_a_dash_and_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPLENS_STRICT", raising=False)
    whole = cells.cell

    def fails(value: object, column: object, *rest: object) -> str:
        if getattr(column, "name", "") == "count":
            raise OverflowError("too large")
        return whole(value, column, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(cells, "cell", fails)
    app = app_on("run", shelf=Shelf(run=small_run()), view="kernels")
    async with app.run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        assert "gemm" in screen_text(app) and "–" in screen_text(app)
        await settled(pilot)
        await press(pilot, "w")
        await settled(pilot)
        assert screen_text(app).count("could not be drawn (OverflowError") == 1


async def test_a_picture_that_fails_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPLENS_STRICT", raising=False)
    app = app_on("run", shelf=Shelf(run=small_run()), view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.main.pane.drawing._draw = lambda width: 1 // 0
        app.main.pane.drawing.redraw()
        await settled(pilot)
        assert "could not be drawn" in screen_text(app) and "gemm" in screen_text(app)


async def test_values_at_the_ends_of_float64_are_shown_as_far_as_they_go() -> None:
    extreme = run_of(metrics=samples("ctr", "GPU 0", (0, 1e308), (10, 1e308), (20, -1e308), (30, 5.0)))
    app = app_on("run", shelf=Shelf(run=extreme), view="metrics")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "ctr" in screen_text(app) and app.return_code is None


@pytest.mark.parametrize(("status", "sentence"), [(0, "Copied 1 line to tmux's buffer"), (1, "1 line written to")])
async def test_in_tmux_its_own_command_copies_or_a_file_is_written(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, sentence: str) -> None:
    monkeypatch.chdir(tmp_path)
    tool = tmp_path / "tmux"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat > {tmp_path}/took\nexit {status}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMUX", "/tmp/tmux")
    app = app_on("run", shelf=Shelf(run=small_run()), view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "Y")
        await settled(pilot)
        assert sentence in said(app)
    if not status:
        assert (tmp_path / "asked").read_text() == "load-buffer -w -\n"
        assert (tmp_path / "took").read_text().startswith("warplens report")


def test_programs_are_found_in_absolute_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in (".", "", ":", f"../{tmp_path.name}"):
        monkeypatch.setenv("PATH", path)
        assert files.program("tool") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert files.program("tool") == str(tmp_path / "tool") and files.program("./tool") is None
