"""The frame holds: imports point one way, start-up stays light, no file grows into a heap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("cli", "loaders", "analysis", "tui")
HEAVY = ("textual", "polars", "scipy", "numpy", "numba", "pyarrow", "msgspec")


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


def test_a_load_never_imports_what_compiles() -> None:
    loaded = modules_loaded_by("import warplens.loaders.kineto.load")
    assert "warplens.loaders.native.code_cache" in loaded and loaded.isdisjoint({"numba", "llvmlite"})


@pytest.mark.parametrize("path", [p for room in ROOMS for p in sorted((ROOT / room).rglob("*.py"))], ids=str)
def test_no_file_is_a_heap(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 420
    assert path.stem not in {"utils", "util", "common", "helpers", "misc", "manager"}


def test_a_command_is_a_file_of_its_own() -> None:
    from warplens.cli.main import COMMANDS

    assert {command.run.__module__.rpartition(".")[2] for command in COMMANDS} == {one.name for one in COMMANDS}
