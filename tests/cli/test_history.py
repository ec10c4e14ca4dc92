"""``warplens history``: which runs it takes in which order, what it keeps, and what it exits with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from history_runs import write_run

from warplens.cli.main import main
from warplens.loaders.ingest import summaries
from warplens.loaders.ingest.job import pool

RUNS, AT = 8, 4


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Some runs; gemm_c takes a tenth longer from a run on."""
    place = tmp_path_factory.mktemp("made")
    return [
        write_run(place / f"{number}.json", {"gemm_c": 1.1 if number >= AT else 1.0}, number).read_bytes()
        for number in range(RUNS)
    ]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked is what becomes of the runs: the processes have tests of their own."""

    def run(task: Callable[[Any, Any], Any], work: Sequence[Any], workers: int) -> Iterator[pool.TaskOutcome]:
        for number, one in enumerate(work):
            try:
                yield pool.TaskOutcome(number, value=task(one, lambda told: None))
            except Exception as error:
                yield pool.TaskOutcome(number, error=error)

    monkeypatch.setattr(pool, "run", run)


def written(folder: Path, recordings: list[bytes]) -> list[str]:
    folder.mkdir()
    for number, content in enumerate(recordings):
        (folder / f"night-{number:02}.json").write_bytes(content)
    return [str(folder / f"night-{number:02}.json") for number in range(len(recordings))]


@pytest.fixture
def own_nights(tmp_path: Path, recordings: list[bytes]) -> list[str]:
    """Files that a test may change, and nothing known of them."""
    return written(tmp_path / "nights", recordings)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, recordings: list[bytes]) -> list[str]:
    return written(tmp_path_factory.mktemp("shared") / "nights", recordings)


@pytest.fixture
def nights(shared: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files that no test changes, in a cache of their own, so that most tests find them read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path(shared[0]).parents[1] / "cache"))
    return shared


def _facts(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> dict[str, Any]:
    assert main(["history", *words, "--format", "json"]) == status
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)["facts"]
    return facts


def _names(facts: dict[str, Any]) -> list[str]:
    return [run["run"] for run in facts["runs"]]


def test_runs_are_in_the_order_given_and_a_step_is_found(
    nights: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    facts = _facts(capsys, *nights)
    (step,) = [one for one in facts["steps"] if one["kind"] == "kernel"]
    assert (step["name"], step["index"], step["run"]) == ("gemm_c", AT, f"night-{AT:02}")
    assert _names(_facts(capsys, *reversed(nights))) == [f"night-{number:02}" for number in reversed(range(RUNS))]


def test_a_run_is_read_once(
    own_nights: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    some = own_nights[:4]
    first = _facts(capsys, *some)
    monkeypatch.setattr(summaries, "open_run", lambda *a, **k: pytest.fail("opened again"))
    assert _facts(capsys, *some) == first


def test_a_folder_is_in_the_order_of_time_and_equal_times_in_that_of_the_names(
    recordings: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = written(tmp_path / "nights", recordings[:6])
    for number, path in enumerate(paths):
        os.utime(path, (1_700_000_000 + (number if number < 4 else 100),) * 2)
    os.utime(paths[3], (1_600_000_000,) * 2)
    assert _names(_facts(capsys, str(tmp_path / "nights"))) == [f"night-{number:02}" for number in (3, 0, 1, 2, 4, 5)]


def test_a_list_gives_order_and_labels(
    own_nights: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = tmp_path / "runs.txt"
    listing.write_text("# nightly\nnights/night-01.json\tmonday\n\nnights/night-00.json\nnights/night-02.json\twed\n")
    assert _names(_facts(capsys, "--list", str(listing))) == ["monday", "night-00", "wed"]
    assert main(["history", "--list", str(tmp_path / "none.txt")]) == 2


def test_a_run_that_does_not_open_is_said_and_the_others_go_on(
    nights: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("nothing")
    lost = [str(broken), str(tmp_path / "absent.json")]
    assert main(["history", *nights[:5], *lost, *nights[5:], "--format", "json"]) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)["facts"]["runs"]) == RUNS and all(Path(path).name in told.err for path in lost)
    assert main(["history", str(broken), str(broken)]) == 3
    capsys.readouterr()
    assert main(["query", nights[0], str(broken)]) == 3, "one run is no history, and `query` is no command"
    told = capsys.readouterr()
    assert told.out == "" and "query: no such file or directory" in told.err and "broken.json" in told.err


def test_a_run_given_twice_counts_once(nights: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", *nights, nights[4], "--format", "json"]) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)["facts"]["runs"]) == RUNS
    assert "night-04.json was given more than once; it counts once." in told.err


def test_of_a_file_with_several_runs_one_is_chosen(
    samples: Path, nights: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both, store = str(samples / "comparison.csv"), ["--store", str(tmp_path / "workers.parquet")]
    assert main(["history", *nights[:3], both]) == 0
    assert "comparison.csv: holds 2 runs. Choose one with --worker 0 or --worker 1." in capsys.readouterr().err
    assert main(["history", nights[0], "--worker", "1"]) == 3
    capsys.readouterr()
    first, second = (_facts(capsys, both, "--worker", number)["runs"][0]["run"] for number in ("0", "1"))
    assert first != second and _names(_facts(capsys, both, *nights[:2], "--worker", "0"))[0] == first
    _facts(capsys, both, "--worker", "0", *store)
    assert _names(_facts(capsys, both, "--worker", "1", *store)) == [first, second]


def test_a_store_keeps_runs_whose_recordings_are_gone(
    own_nights: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "years.parquet"), "--no-cache"]
    for path in own_nights[:3]:
        assert main(["history", path, *store]) == 0
        os.unlink(path)
    capsys.readouterr()
    facts = _facts(capsys, *own_nights[3:], *store)
    assert _names(facts) == [f"night-{number:02}" for number in range(RUNS)]
    assert [step["index"] for step in facts["steps"] if step["kind"] == "kernel"] == [AT]
    assert _facts(capsys, *store) == facts
    assert main(["history", "--store", str(tmp_path / "none.parquet")]) == 2


def test_the_gate_fails_for_a_step_of_the_last_runs(nights: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", *nights, "--fail-on", "step:5"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("FAIL: ") and f"% since run {AT + 1} (night-{AT:02})" in told
    assert main(["history", *nights, "--fail-on", "step:50"]) == 0
    assert capsys.readouterr().err.startswith("PASS: no step of 50% or more")
    assert main(["history", *nights, "--fail-on", "step:1"]) == 2
    assert main(["history", *nights, nights[0] + "x", "--fail-on", "step:5"]) == 3  # the run that is to be judged


def test_more_than_two_runs_are_a_history_everywhere(nights: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(nights) == 0
    plain = capsys.readouterr().out
    assert "HISTORY" in plain and "gemm_c is" in plain
    assert main(["report", *nights]) == 0
    assert capsys.readouterr().out == plain
    assert main(["report", *nights, "--view", "idle"]) == 2
    assert "8 runs: the view idle takes one run, or two to compare" in capsys.readouterr().err


def test_each_run_is_a_row_where_that_is_asked_for(nights: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", *nights, "--each-run", "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == RUNS + 1


@pytest.mark.parametrize("words", [[], ["-"], ["a", "-", "b"]])
def test_what_is_no_history_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", *words]) == 2
