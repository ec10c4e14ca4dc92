"""Up to eight recordings stay open: O lists them and chooses A and B; the editor and the pager get the terminal."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from app_runs import app_on, press, screen_text, settled

from warplens.tui.session.programs import NoProgram, edited, paged
from warplens.tui.session.session import MOST_OPEN, Session


def test_the_ninth_recording_is_refused_and_a_folder_of_new_ones_pushes_the_oldest_out() -> None:
    session = Session()
    assert all(session.add([f"run{at}"]) for at in range(MOST_OPEN))
    assert not session.add(["one more"]) and len(session.recordings) == MOST_OPEN
    assert session.add(["run3"]), "an open one is no ninth"
    assert session.add(["one more"], in_place=True)
    assert session.recordings[-1] == "one more" and "run0" not in session.recordings


async def test_the_list_chooses_a_and_b_closes_one_and_shows_one_alone() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.open_runs(["b"])
        await settled(pilot)
        assert app.session.recordings == ["a", "b"] and [run.path for run in app.session.inputs] == ["b"]
        await press(pilot, "O")
        assert "Open recordings" in screen_text(app)
        await press(pilot, "b")  # a, under the cursor, becomes B beside the one shown
        await settled(pilot)
        assert [run.path for run in app.session.inputs] == ["b", "a"]
        await press(pilot, "a")
        await settled(pilot)
        assert [run.path for run in app.session.inputs] == ["a", "b"], "as A the two change places"
        await press(pilot, "x")
        await settled(pilot)
        assert app.session.recordings == ["b"] and [run.path for run in app.session.inputs] == ["b"]
        await press(pilot, "x")
        assert app.session.recordings == ["b"], "the last one stays open"
        await press(pilot, "escape")
        assert "Open recordings" not in screen_text(app)


def _program(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def test_the_editor_gets_the_text_and_gives_back_what_it_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", _program(
        "import sys, pathlib; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text().upper() + 'limit 3')"))
    assert edited("select 1", ".sql") == "SELECT 1\nlimit 3"
    monkeypatch.setenv("EDITOR", _program("raise SystemExit(3)"))
    with pytest.raises(NoProgram, match="status 3"):
        edited("select 1", ".sql")


def test_the_pager_reads_the_text_and_a_missing_one_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    to = tmp_path / "read"
    monkeypatch.setenv("PAGER", _program(
        f"import sys, pathlib; pathlib.Path({str(to)!r}).write_text(sys.stdin.read())"))
    paged("details\n")
    assert to.read_text() == "details\n"
    monkeypatch.setenv("PAGER", "no-such-pager-here")
    with pytest.raises(NoProgram, match="No no-such-pager-here is installed"):
        paged("details\n")
