"""What every view prints of the bundled samples, in every format: one golden file a view, one a sample.

``WARPLENS_UPDATE=1 pytest tests/cli/test_golden.py`` writes them anew after a change that is meant to show; read the
difference before it is committed. Texts must be equal, numbers to nine digits: sums of floats may come in any order,
and a line that differs in nothing else stays as it is written. JSON is laid out with one key per line.
"""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import View
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.views import VIEWS
from warplens.cli.arguments import open_runs
from warplens.cli.main import main
from warplens.loaders.trace import Trace

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
NORMAL, ABNORMAL = "demo/normal.json.gz", "demo/abnormal.json.gz"
FORMATS = ("text", "md", "csv", "json")
TOP = "4"
SAMPLES = sorted(
    path.relative_to(samples).as_posix()
    for samples in [Path(__file__).resolve().parents[2] / "samples"]
    for path in samples.iterdir()
    if path.name not in ("demo", "__pycache__", "README.md") and path.suffix not in (".py", ".ipynb")
)
NUMBER = re.compile(r"[-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all, so that each sample is read once."""
    return tmp_path_factory.mktemp("golden")


@pytest.fixture(autouse=True)
def beside_the_samples(samples: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in what is printed are those that were typed."""
    monkeypatch.chdir(samples)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.fixture(scope="session")
def opened() -> dict[tuple[str, ...], tuple[Trace, ...]]:
    """The demo as it was opened for the first view that was asked for."""
    return {}


@pytest.fixture
def one_answer(opened: dict[tuple[str, ...], tuple[Trace, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The views are asked of the same runs, as in the app, and the formats of a view are of one answer."""
    answers: dict[tuple[str, int], Table] = {}

    def runs_of(inputs: list[str], arguments: argparse.Namespace) -> tuple[Trace, ...]:
        if tuple(inputs) not in opened:
            opened[tuple(inputs)] = open_runs(inputs, arguments)
        return opened[tuple(inputs)]

    def answer(view: View, runs: tuple[Trace, ...], options: Options | None = None) -> Table:
        key = view.name, len(runs)
        if key not in answers:
            answers[key] = ask(view, runs, options)
        return answers[key]

    monkeypatch.setattr("warplens.cli.report.open_runs", runs_of)
    monkeypatch.setattr("warplens.analysis.query.report.ask", answer)


def session(captured: Captured, *commands: list[str]) -> str:
    """What a terminal shows of these commands: each with its output, its messages and its status."""
    shown = []
    for words in commands:
        status = main(words)
        printed = captured.readouterr()
        out = laid_out(orjson.loads(printed.out)) + "\n" if "json" in words and not status else printed.out
        shown.append("\n".join([f"$ warplens {' '.join(words)}", out + printed.err + f"→ {status}"]))
    return "\n\n".join(shown) + "\n"


def laid_out(value: Any, indent: str = "") -> str:
    """The same JSON with one key per line; a list of plain values is one line."""
    deeper = indent + " "
    if isinstance(value, dict) and value:
        lines = [f"{orjson.dumps(key).decode()}: {laid_out(one, deeper)}" for key, one in value.items()]
        return "{\n" + ",\n".join(deeper + line for line in lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return "[\n" + ",\n".join(deeper + laid_out(one, deeper) for one in value) + f"\n{indent}]"
    return orjson.dumps(value).decode()


def number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def equal(text: str, kept: str) -> bool:
    """Whether two texts are the same but for the last digits of numbers."""
    if text == kept:
        return True
    if NUMBER.sub("0", text) != NUMBER.sub("0", kept):
        return False
    pairs = zip(NUMBER.findall(text), NUMBER.findall(kept), strict=True)
    return all(a == b or math.isclose(number(a), number(b), rel_tol=1e-9) for a, b in pairs)


def updated(text: str, kept: str) -> str:
    """The text, with those lines as they were kept that are ``equal``."""
    lines, old = text.splitlines(keepends=True), kept.splitlines(keepends=True)
    masked = [[NUMBER.sub("0", line) for line in some] for some in (old, lines)]
    for tag, a, _, b, end in difflib.SequenceMatcher(None, *masked, autojunk=False).get_opcodes():
        for at in range(b, end if tag == "equal" else b):
            if equal(lines[at], old[a + at - b]):
                lines[at] = old[a + at - b]
    return "".join(lines)


def golden(name: str, text: str) -> str:
    """The golden file of that name, which is written where that is wanted; the text itself where only the last digits
    of numbers differ, so that a test that fails shows what does."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("WARPLENS_UPDATE"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(updated(text, file.read_text()) if file.exists() else text)
    kept = file.read_text()
    return text if equal(text, kept) else kept


def test_an_update_keeps_a_line_that_differs_in_the_last_digit_only() -> None:
    kept = "rows\nsum 0.30000000000000004 ms\nmean 2.5\n"
    assert updated("rows\nnew 1\nsum 0.3 ms\nmean 2.6\n", kept) == "rows\nnew 1\nsum 0.30000000000000004 ms\nmean 2.6\n"


def test_json_has_one_key_per_line() -> None:
    value = {"a": [1, 2.5, None], "b": [{"c": "x"}], "d": {}}
    assert laid_out(value) == '{\n "a": [1,2.5,null],\n "b": [\n  {\n   "c": "x"\n  }\n ],\n "d": {}\n}'


@pytest.mark.usefixtures("one_answer")
@pytest.mark.parametrize("view", [entry.name for entry in VIEWS if entry.name != "sql"])
@pytest.mark.parametrize("runs", [(NORMAL,), (NORMAL, ABNORMAL)], ids=["one", "two"])
def test_a_view_of_the_demo(view: str, runs: tuple[str, ...], capsys: Captured) -> None:
    commands = [["report", *runs, "--view", view, "--format", form, "--top", TOP] for form in FORMATS]
    shown = session(capsys, *commands)
    assert shown == golden(f"views/{view}-{'one' if len(runs) == 1 else 'two'}", shown)


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_summary_of_a_sample(sample: str, capsys: Captured) -> None:
    shown = session(capsys, ["report", sample, "--top", TOP])
    assert shown == golden(f"samples/{sample.replace('/', '-')}", shown)
