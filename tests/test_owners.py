"""Every word has one owner, which CONTRIBUTING names; what is remembered is remembered in one of five ways."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("cli", "loaders", "analysis", "tui")
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## Owners\n")[2].partition("\n## ")[0]
OWNERS = re.findall(r"^\| ([^|`]+) \| `([\w/.]+)` \| `(\w+)` \|$", PAGE, re.MULTILINE)
WAYS = re.findall(r"^- \*\*(.+?)\*\*(.*?)\.$", PAGE, re.MULTILINE | re.DOTALL)


def sources() -> dict[str, ast.Module]:
    """The product's modules by their paths."""
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
            for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))}


SOURCES = sources()


def defined(tree: ast.Module) -> set[str]:
    """The functions and classes a module defines at its top level."""
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


DEFINED = {path: defined(tree) for path, tree in SOURCES.items()}


@pytest.mark.parametrize(("word", "path", "name"), OWNERS, ids=[name for _, _, name in OWNERS])
def test_a_word_has_one_owner(word: str, path: str, name: str) -> None:
    room = path.split("/")[0]
    assert [place for place, names in DEFINED.items() if name in names and place.startswith(f"{room}/")] == [path], word


def test_the_page_names_the_owners_of_the_glossary() -> None:
    words = " ".join(word for word, _, _ in OWNERS)
    for word in ("run", "rank", "cycle", "operator", "lane", "gap", "exposed", "straggler", "view", "answer", "scope",
                 "finding", "query runner"):
        assert word in words, word
    assert len({name for _, _, name in OWNERS}) == len(OWNERS) >= 35


def test_work_of_a_device_is_told_by_its_owner_only() -> None:
    spelt = [path for path in SOURCES if path.startswith("analysis/")
             and re.search(r'col\("kind"\)[^\n]*!= "sync"', (ROOT / path).read_text(encoding="utf-8"))]
    assert spelt == []


def test_the_ways_through_the_house_are_there() -> None:
    files = {title: re.findall(r"`([\w/]+\.py)`", text) for title, text in WAYS}
    assert [len(steps) for steps in files.values()] == [9, 7, 5]
    assert [step for steps in files.values() for step in steps if step not in SOURCES] == []


def calls(name: str) -> set[str]:
    """The modules that use that name, as a name or an attribute."""
    return {path for path, tree in SOURCES.items() for node in ast.walk(tree)
            if name in (getattr(node, "id", None), getattr(node, "attr", None))}


def test_what_is_remembered_has_one_of_five_owners() -> None:
    rows = re.findall(r"^\| `.*\|$", PAGE.partition("### What is remembered")[2], re.MULTILINE)
    assert len(rows) == 5
    assert {path for path in calls("memo") if "pickle" not in path} == {"loaders/trace.py"}
    weak = {path for path, tree in SOURCES.items() for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom) and "weakref" in ast.dump(node)}
    assert weak == {"loaders/trace.py", "loaders/ingest/spill.py", "tui/session/jobs.py"}  # two clean up: no memories
    decorated = {f"{path}:{node.name}": node for path, tree in SOURCES.items() for node in ast.walk(tree)
                 if isinstance(node, ast.FunctionDef) and re.search("lru_cache|'cache'", str(
                     [ast.dump(one) for one in node.decorator_list]))}
    assert len(decorated) > 15
    of_runs = [name for name, node in decorated.items() if "'Trace'" in ast.dump(node.args)]
    assert of_runs == []
