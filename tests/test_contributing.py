"""The examples of CONTRIBUTING work: each block goes into a copy of the tree, and the copy is asked for the result."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = BLOCK.findall(TEXT)
EXAMPLES = [block for block in BLOCKS if not block[1].startswith("package/")]
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[0].splitlines()
CHEAP = ("up_to_date and not demo_lines or launch_log or every_loader or described or streams or overview or "
         "few_modules or heap or class_name or its_part or rule_has_advice or one_owner or median or speak or "
         "fractions or (what_the_app_shows and kernels)")
"""Of the tests that a contributor runs, those that look at what the examples add."""


def changed(text: str, change: str, path: str) -> str:
    """The text with a change: its context and removed lines stand there once."""
    lines = change.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] != "+")
    assert text.count(before) == 1, f"{path} has changed: {before}"
    return text.replace(before, "".join(line[1:] for line in lines if line[0] != "-"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package in which all examples are carried out."""
    home = tmp_path_factory.mktemp("contributed")
    package = home / "warplens"
    copy_product(package)
    for room in ("tests", "samples", "docs"):
        shutil.copytree(ROOT / room, package / room, ignore=shutil.ignore_patterns("__snapshots__"))
    for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, package / name)
    for language, path, body in EXAMPLES:
        file = package / path
        if language == "diff":
            file.write_text(changed(file.read_text(encoding="utf-8"), body, path), encoding="utf-8")
        else:
            assert not file.exists(), f"{path} is there already"
            file.write_text(body, encoding="utf-8")
    return home


def copy_product(package: Path) -> None:
    for room in ("cli", "tui", "analysis", "loaders", "themes"):
        shutil.copytree(ROOT / room, package / room)  # __pycache__ too: compiling takes longer
    for file in ROOT.glob("*.py"):
        shutil.copy(file, package / file.name)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product as it is, and beside it the examples as an installed package of their own."""
    home = tmp_path_factory.mktemp("extended")
    copy_product(home / "warplens")
    for _, path, body in BLOCKS:
        if path.startswith("package/warplens_extra/"):
            target = home / path.removeprefix("package/")
            target.parent.mkdir(exist_ok=True)
            target.write_text(body, encoding="utf-8")
    for language, path, body in EXAMPLES:
        if language in ("python", "toml"):
            inside = ".".join(["warplens", *Path(path).parts[:-1]])
            for relative in re.findall(r"^from (\.+[\w.]*) ", body, re.MULTILINE):
                body = body.replace(f"from {relative} ", f"from {resolve_name(relative, inside)} ")
            (home / "warplens_extra" / Path(path).name).write_text(body, encoding="utf-8")
    (project,) = (tomllib.loads(body)["project"] for _, path, body in BLOCKS if path == "package/pyproject.toml")
    note = home / f"warplens_extra-{project['version']}.dist-info"
    note.mkdir()
    (note / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (note / "entry_points.txt").write_text("\n".join(
        line for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ))
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
    files = [path.split("/")[:2] for language, path, _ in EXAMPLES if language not in ("diff", "csv")]
    assert [where[0] if where[0] in ("loaders", "themes") else "/".join(where) for where in files] == [
        "loaders", "analysis/views", "analysis/findings", "themes",
    ]
    changes = [body for language, path, body in EXAMPLES
               if language == "diff" and not path.startswith(("docs/", "tests/"))]
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
    files = [str(tree / "warplens" / path) for _, path, _ in EXAMPLES
             if path.endswith(".py") and not path.startswith("tests/")]
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(ROOT / "pyproject.toml"), *files]
    done = subprocess.run(ruff, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def run_tests(tree: Path, files: list[str], update: bool = False, some: str = CHEAP) -> str:
    """What pytest prints of some tests of these files in the copy; "" where all pass."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "WARPLENS_UPDATE": "1" if update else ""}
    words = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "--assert=plain", "-k", some,
             *files]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tree / "warplens", env=environment)
    return done.stdout if done.returncode else ""


def test_what_the_examples_add_passes_the_tests_after_the_commands_named(tree: Path) -> None:
    """Tables and golden files of the copy are brought up to date; then its own tests accept every example."""
    update, snapshots, check = COMMANDS
    updated = re.findall(r"tests/\S+", update)
    assert update.startswith("WARPLENS_UPDATE=1 ") and "snapshot" in snapshots
    assert "launch_log" in run_tests(tree, updated, some="launch_log"), "without the commands they fail"
    assert run_tests(tree, updated, update=True) == ""
    assert run_tests(tree, updated + re.findall(r"tests/\S+", check)) == ""
    package = tree / "warplens"
    assert "median kernel" in (package / "docs" / "findings.md").read_text()
    assert "Half of all kernels take" in (package / "tests" / "golden" / "views" / "overview-one.txt").read_text()
    assert (package / "tests" / "golden" / "views" / "streams-two.txt").exists()
    assert (package / "tests" / "golden" / "samples" / "launch_log.csv.txt").exists()


def test_a_package_of_its_own_plugs_in(extended: Path, samples: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("launch log 1\nname,start_ns,dur_ns\ngemm,0,100\n")
    assert report(extended, log, "--view", "streams")["rows"][0]["total_ns"] == 100
    made = report(extended, samples / "demo" / "normal.json.gz", "--view", "overview")
    assert "Half of all kernels take" in json.dumps(made["facts"]["findings"], ensure_ascii=False)
    asked = "from warplens.tui.session import settings, themes; name = settings.load(theme='paper').theme; "
    assert python(extended, "-c", asked + "print(themes.names()[0], themes.theme(name).primary)") == "dark #005f87\n"


def test_a_package_that_cannot_be_imported_is_left_out(extended: Path, tmp_path: Path) -> None:
    note = tmp_path / "broken-1.dist-info"
    note.mkdir()
    (note / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (note / "entry_points.txt").write_text("[warplens.views]\nbroken = no_such_module:VIEW\n")
    code = "from warplens.analysis import views; print(views.VIEWS[-1])"
    environment = {**os.environ, "PYTHONPATH": f"{extended}{os.pathsep}{tmp_path}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "streams" in done.stdout and "ignoring no_such_module:VIEW" in done.stderr
