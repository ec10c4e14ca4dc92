"""The examples of CONTRIBUTING work: each block goes into a copy of the tree, and the copy is asked for the result."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def changed(text: str, change: str, path: str) -> str:
    """The text with the added lines of a change behind its context lines, which stand there once."""
    lines = change.splitlines(keepends=True)
    context = "".join(line[1:] for line in lines if line[0] == " ")
    assert text.count(context) == 1, f"{path} has changed: {context}"
    return text.replace(context, "".join(line[1:] for line in lines))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package in which all examples are carried out."""
    home = tmp_path_factory.mktemp("contributed")
    package = home / "warplens"
    for room in ("cli", "tui", "analysis", "loaders", "themes"):
        shutil.copytree(ROOT / room, package / room)  # __pycache__ too: compiling takes longer
    for file in ROOT.glob("__*__.py"):
        shutil.copy(file, package / file.name)
    for language, path, body in EXAMPLES:
        file = package / path
        if language == "diff":
            file.write_text(changed(file.read_text(encoding="utf-8"), body, path), encoding="utf-8")
        else:
            assert not file.exists(), f"{path} is there already"
            file.write_text(body, encoding="utf-8")
    return home


def python(tree: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree), "WARPLENS_DEBUG": "1"}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=tree, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def report(tree: Path, *words: object) -> dict[str, Any]:
    """One view as JSON, from the command line of the copy."""
    made = json.loads(python(tree, "-m", "warplens", "report", *map(str, words), "--format", "json"))
    return dict(made)


def test_there_is_an_example_of_each_kind() -> None:
    files = [path.split("/")[:2] for language, path, _ in EXAMPLES if language != "diff"]
    assert [where[0] if where[0] in ("loaders", "themes") else "/".join(where) for where in files] == [
        "loaders", "analysis/views", "analysis/findings", "themes",
    ]
    changes = [body for language, _, body in EXAMPLES if language == "diff"]
    added = [line for body in changes for line in body.splitlines() if line[0] == "+"]
    assert len(added) == 5  # a loader, a view and a column are one line, a rule is its name twice


def test_the_loader_reads_its_format(tree: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("launch log 1\nname,start_ns,dur_ns\ngemm,0,100\nnccl_all_reduce,300,50\ngemm,200,30\nodd,x,y\n")
    made = report(tree, log, "--view", "kernels")
    rows = {row["name"]: (row["kind"], row["count"], row["total_ns"]) for row in made["rows"]}
    assert rows == {"gemm": ("kernel", 2, 130), "nccl_all_reduce": ("collective", 1, 50)}
    assert "launch-log" in python(tree, "-m", "warplens", "formats")


def test_the_loader_says_what_it_left_out(tree: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("launch log 1\nname,start_ns,dur_ns\ngemm,0,100\nodd,x,y\n")
    assert "1 of 2 lines" in json.dumps(report(tree, log, "--view", "kernels"))


def test_the_view_answers_for_one_run_and_for_two(tree: Path, samples: Path) -> None:
    normal, abnormal = samples / "demo" / "normal.json.gz", samples / "demo" / "abnormal.json.gz"
    one = report(tree, normal, "--view", "streams")
    assert [column["name"] for column in one["columns"]] == ["device", "stream", "count", "total_ns"]
    assert sum(row["count"] for row in one["rows"]) == 8_155 + 21
    two = report(tree, normal, abnormal, "--view", "streams")
    assert all(row["total_ns_delta"] == row["total_ns_b"] - row["total_ns_a"] for row in two["rows"]) and two["rows"]
    assert "How does the device time spread" in python(tree, "-m", "warplens", "views")


def test_the_column_is_shown(tree: Path, samples: Path) -> None:
    made = report(tree, samples / "kineto.pt.trace.json", "--view", "launches", "--filter", "registers>=128")
    assert made["rows"] and all(row["registers"] >= 128 for row in made["rows"])


def test_the_rule_says_its_sentence(tree: Path, samples: Path) -> None:
    made = report(tree, samples / "demo" / "normal.json.gz", "--view", "overview")
    assert "Half of all kernels take" in json.dumps(made["facts"]["findings"], ensure_ascii=False)


def test_the_theme_can_be_chosen(tree: Path) -> None:
    asked = "from warplens.tui.session import settings, themes; name = settings.load(theme='paper').theme; "
    shown = python(tree, "-c", asked + "print(name, themes.theme(name).primary, themes.look(name).base)")
    assert shown.split() == ["paper", "#005f87", "#262626", "on", "#ffffd7"]


def test_the_examples_follow_the_house_style(tree: Path) -> None:
    files = [str(tree / "warplens" / path) for _, path, _ in EXAMPLES if path.endswith(".py")]
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(ROOT / "pyproject.toml"), *files]
    done = subprocess.run(ruff, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
