"""docs/ci.md: its shell lines, run over builds; the last build is slower on the GPU."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from history_runs import write_run

from warplens.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")


def lines(heading: str) -> list[str]:
    """The commands of a section, as they stand there."""
    part = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^ *(?:- (?:run: )?)?(warplens .*)$", part, re.MULTILINE)


@pytest.fixture
def build(tmp_path: Path, samples: Path) -> Path:
    """A folder with a baseline, and warplens on the path."""
    shutil.copy(samples / "demo" / "normal.json.gz", tmp_path / "baseline.json.gz")
    (tmp_path / "warplens").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m warplens "$@"\n')
    (tmp_path / "warplens").chmod(0o755)
    return tmp_path


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path, summary = f"{folder}:{os.environ['PATH']}", str(folder / "summary.md")
    environment = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": summary}
    return subprocess.run(["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("place", "sides"), [
    ("GitHub Actions", ["abnormal"]), pytest.param("GitLab", ["normal", "abnormal"], marks=pytest.mark.deep),
])
def test_a_slower_build_stops_the_pipeline(place: str, sides: list[str], build: Path, samples: Path) -> None:
    """The gate is the same line in both pipelines, so one of them says that it passes what is not slower."""
    assert len({line for one in ("GitHub Actions", "GitLab") for line in lines(one) if " diff " in line}) == 1
    gates = []
    for side in sides:
        shutil.copy(samples / "demo" / f"{side}.json.gz", build / "run.json.gz")
        done = [shell(line, build) for line in lines(place)]
        gates.append(next(one for line, one in zip(lines(place), done, strict=True) if " diff " in line))
        assert all(one.returncode == 0 for one in done if one is not gates[-1])
    assert [one.returncode for one in gates] == [int(side == "abnormal") for side in sides]
    assert all("PASS: no cycle-time regression above 5%" in one.stderr for one in gates[:-1])
    assert "FAIL: GPU work of GPU 7 42.3 → 155 ms per cycle" in gates[-1].stderr
    suite = ElementTree.parse(build / "gate.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    report = (build / ("summary.md" if place == "GitHub Actions" else "report.md")).read_text(encoding="utf-8")
    assert report.startswith("# warplens: ") and "SM clock of GPU 7 fell 1,187 → 210 MHz" in report


def packed(target: Path, factors: dict[str, float], seed: int) -> None:
    """A small recording with such a seed, gzipped."""
    target.write_bytes(gzip.compress(write_run(target.with_suffix(""), factors, seed).read_bytes(), 1))


def test_the_baseline_line_runs(build: Path) -> None:
    for seed, name in enumerate(("baseline", "again", "run", "run2")):
        packed(build / f"{name}.json.gz", {}, seed)
    (command,) = lines("The baseline")
    done = shell(command, build)
    assert done.returncode == 0 and "PASS" in done.stderr, done.stderr


@pytest.mark.parametrize("step", [6, pytest.param(30, marks=pytest.mark.deep)])
def test_a_step_fails_the_third_to_fifth_night_of_it(
    step: int, build: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both pipelines have the same line. The night of the first failure runs it in a shell, the others in this process;
    each night's recording is gone before the next."""
    command, *more, gitlab = lines("Every night")
    assert command == gitlab and not more
    monkeypatch.chdir(build)
    statuses, said = [], []
    for night in range(step + 6):
        packed(build / "night.json.gz", {"gemm_c": 1.05 if night >= step else 1.0}, night)
        if night == step + 2:
            done = shell(command, build)
            statuses, said = [*statuses, done.returncode], [*said, done.stderr]
        else:
            statuses.append(main(shlex.split(command)[1:]))
            said.append(capsys.readouterr().err)
        for name in ("night.json", "night.json.gz"):
            (build / name).unlink()
    assert statuses == [4] * 7 + [0] * (step - 5) + [1, 1, 1, 0]  # a step is sought in 8 runs or more
    assert "NOT JUDGED: 1 comparable run" in said[0] and "PASS: no step of 3% or more" in said[step + 1]
    assert "FAIL: kernel gemm_c +" in said[step + 2] and f"since run {step + 1} (night" in said[step + 2]
    assert "1 older step" in said[step + 5] and "gemm_c is" in (build / "history.md").read_text()


def test_the_table_of_gates_has_every_gate() -> None:
    from warplens.analysis.diff.gate_rule import RULES

    assert re.findall(r"^\| `([a-z]+)", PAGE, re.MULTILINE) == list(RULES)
