"""``--baseline`` and ``--candidate``: a side may be one recording, the ranks of one job, or repeated runs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from made_job import write_job

from warplens.cli.arguments import FINE
from warplens.cli.main import main


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """The recordings of two jobs of two ranks, of which rank 1 is late in the second."""
    folder = tmp_path_factory.mktemp("sides")
    made = [write_job(folder / name, ranks=2, late=late, slower=2.0) for name, late in (("a", None), ("b", 1))]
    return sorted(map(str, made[0].iterdir())), sorted(map(str, made[1].iterdir()))


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main([*words, "--format", "json", "--no-cache"]) == 0
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return told


def test_recordings_of_different_ranks_are_one_job(
    jobs: tuple[list[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    sides = ["--baseline", *jobs[0], "--candidate", *jobs[1]]
    rows = answer(capsys, "report", *sides, "--view", "ranks")["rows"]
    assert isinstance(rows, list) and {row["rank"] for row in rows} == {0, 1}
    compared = answer(capsys, "diff", *sides)
    folders = answer(capsys, "diff", str(Path(jobs[0][0]).parent), str(Path(jobs[1][0]).parent))
    assert compared["rows"] == folders["rows"]


def test_one_recording_a_side_is_a_pair(
    jobs: tuple[list[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    sides = ["--baseline", jobs[0][1], "--candidate", jobs[1][1]]
    assert answer(capsys, "diff", *sides)["rows"] == answer(capsys, "diff", jobs[0][1], jobs[1][1])["rows"]


def test_recordings_of_one_rank_are_repeated_runs(
    jobs: tuple[list[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    sides = ["--baseline", jobs[0][1], jobs[0][1], "--candidate", jobs[1][1], jobs[1][1]]
    told = answer(capsys, "report", *sides)
    assert told["view"] == "diff" and told["rows"] == answer(capsys, "diff", *sides)["rows"]
    assert main(["report", *sides, "--view", "ranks"]) == 2
    assert "compared in the view diff, not in ranks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [(["diff", "--baseline", "A"], "go together"), (["report", "X", "--baseline", "A", "--candidate", "B"], "not both"),
     (["report"], "name a run")],
)
def test_sides_that_make_no_comparison_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_window_of_each_run_is_compared(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sums of the rows are those of the events in both files that begin in the windows."""
    paths = [samples / "demo" / f"{name}.json.gz" for name in ("normal", "abnormal")]
    windows = ((1_500_000_000, 1_900_000_000), (2_300_000_000, 2_700_000_000))
    status = main(["diff", *map(str, paths), "--from", "1500ms:2.3s", "--to", "1900ms:2.7s", "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    sums = []
    for path, (first, last) in zip(paths, windows, strict=True):
        events = [one for one in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if one.get("ph") == "X"]
        begun = min(round(1000 * one["ts"]) for one in events)
        inside = [one for one in events if one.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
                  and first <= round(1000 * one["ts"]) - begun < last]
        sums.append((len(inside), sum(one["dur"] for one in inside) / 1000))
    rows = [row for row in told["rows"] if row["kind"] in ("kernel", "collective", "memcpy", "memset")]
    assert status == FINE and len(sums) == 2
    assert [sum(row[f"launches_{side}"] for row in rows) for side in "ab"] == [count for count, _ in sums]
    assert [sum(row[f"{side}_ms"] for row in rows) for side in "ab"] == pytest.approx([ms for _, ms in sums])
    assert told["state"]["scope"] == "A 1.5–1.9 s, B 2.3–2.7 s"
