"""The frame holds: no imports in a circle, start-up stays light, no file grows into a heap, views open few modules."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Container, Mapping
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import pytest

from warplens.analysis.views import OURS

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("cli", "loaders", "analysis", "tui")
MOST_MODULES = 175
"""Modules that one view may reach through its imports, the late ones among them: who follows a question opens these.
The triage has 170; a rule in a file of its own is one more."""
HEAVY = ("textual", "polars", "scipy", "numpy", "numba", "pyarrow", "msgspec", "importlib.metadata")


def modules_loaded_by(statement: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {statement}; print(*sys.modules)"],
        capture_output=True, text=True, check=True, cwd="/",
        env={"PYTHONPATH": str(ROOT / ".dev"), "PATH": ""},
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import warplens", "import warplens.cli.main", "import warplens.analysis.views",
        "import warplens.loaders.ingest.process",
    ],
)
def test_start_up_loads_nothing_heavy(statement: str) -> None:
    assert modules_loaded_by(statement).isdisjoint(HEAVY)


def test_the_first_frame_waits_for_nothing_that_computes() -> None:
    loaded = modules_loaded_by("import warplens.tui.app.app")
    assert "textual" in loaded and loaded.isdisjoint({"polars", "scipy", "numpy", "numba", "pyarrow"})


def test_a_load_never_imports_what_compiles() -> None:
    loaded = modules_loaded_by("import warplens.loaders.kineto.load")
    assert "warplens.loaders.native.program" in loaded and loaded.isdisjoint({"numba", "llvmlite"})


def test_no_file_is_a_heap() -> None:
    vague = {"utils", "util", "common", "helpers", "misc", "manager"}
    assert len(modules()) > 400
    assert [str(path) for path in modules().values()
            if path.stem in vague or len(path.read_text().splitlines()) > 420] == []


def test_a_command_is_a_file_of_its_own() -> None:
    from warplens.cli.main import NAMES, command_of

    for name in NAMES:
        assert (command_of(name).name, command_of(name).run.__module__) == (name, f"warplens.cli.{name}")


@cache
def tree(path: Path) -> list[ast.AST]:
    """All nodes of a module's source."""
    return [*ast.walk(ast.parse(path.read_text()))]


@cache
def modules() -> dict[str, Path]:
    """The product's modules by their dotted names."""
    found = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_by(name: str, path: Path, known: Container[str]) -> set[str]:
    """The modules one imports, wherever in it the statement stands and whether for types only or not."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in tree(path):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            origin = ".".join(filter(None, base))
            for item in node.names:
                inside = f"{origin}.{item.name}"
                found.add(inside if inside in known else origin)
    return {one for one in found if one in known and one != name}


def circles(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of modules each of which reaches all others of its group."""
    reach = {name: set(direct) for name, direct in imports.items()}
    while ends := [name for name, direct in reach.items() if not direct & reach.keys()]:  # which no circle goes through
        for name in ends:
            del reach[name]
    for middle in reach:
        for direct in reach.values():
            if middle in direct:
                direct |= reach[middle]
    return [{other for other in reach if other in reach[name] and name in reach[other]}
            for name in reach if name in reach[name]]


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    assert not circles({name: imported_by(name, path, known) for name, path in known.items()})


def test_a_circle_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import B\n")
    (tmp_path / "b.py").write_text("def late():\n    from . import a\n")
    known = {name: tmp_path / f"{name[-1]}.py" for name in ("r.a", "r.b")}
    assert circles({name: imported_by(name, path, known) for name, path in known.items()}) == [set(known), set(known)]


def test_a_view_opens_few_modules() -> None:
    known = modules()
    imports = {name: imported_by(name, path, known) for name, path in known.items()}
    sizes = {}
    for view in (resolve_name(("" if ":" in entry.module else ".") + entry.module.partition(":")[0], "analysis.views")
                 for entry in OURS):
        behind, left = {view}, [view]
        while left:
            new = imports[left.pop()] - behind
            behind |= new
            left += new
        sizes[view] = len(behind)
    assert len(sizes) > 15 and min(sizes.values()) > 5
    assert {view: size for view, size in sizes.items() if size > MOST_MODULES} == {}


def test_a_class_name_means_one_thing_in_a_room() -> None:
    places = defaultdict[tuple[str, str], list[str]](list)
    for name, path in modules().items():
        for node in tree(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[name.split(".")[0], node.name].append(name)
    assert {key: where for key, where in places.items() if len(where) > 1} == {}
