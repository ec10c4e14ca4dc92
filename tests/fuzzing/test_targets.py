"""Every fuzz target works, and finds nothing in a few tries; more are for ``python tests/fuzzing``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from fuzz_files import Handed, Target, fuzz

from warplens.loaders.errors import Unreadable
from warplens.loaders.loader import Job
from warplens.loaders.nsys import report
from warplens.loaders.trace import Trace


def targets() -> dict[str, Callable[[], Target]]:
    spec = importlib.util.spec_from_file_location("fuzzing", Path(__file__).with_name("__main__.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Callable[[], Target]] = module.TARGETS
    return found


@pytest.fixture(autouse=True)
def _engine_as_before() -> object:
    yield
    pl.Config.set_engine_affinity("auto")


COMPILED = {"perfetto", "xla"}
"""Targets that compile the walk over protocol buffers first, which takes seconds; its own tests change bytes too."""


@pytest.mark.parametrize("name", sorted(targets().keys() - COMPILED))
def test_a_few_tries_find_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_exported", report._exported)  # targets replace both; they are put back
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    done = fuzz(targets()[name](), 1, lambda tries: tries >= 12)
    assert done.tries == 12 and not done.failures


class Bad(Handed):
    """Refuses, fails or answers, in turn."""

    name, title, suffixes, version = "bad", "bad", (), 1

    def load(self, job: Job) -> tuple[Trace, ...]:
        word = job.path.read_text()
        if word == "refuse":
            raise Unreadable(job.path, "is refused")
        if word == "fail":
            raise KeyError(word)
        return ()


def test_a_failure_is_kept_once_for_each_kind_and_the_others_go_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def place(folder: Path, chance: object) -> Path:
        (folder / "input").write_text(words.pop())
        return folder / "input"

    words = ["answer", "fail", "refuse", "fail", "refuse"]
    done = fuzz(Target(Bad(), place), 1, lambda tries: not words)
    assert (done.tries, done.opened, len(done.failures)) == (5, 1, 1)
    (kept,) = done.failures
    assert (Path(kept) / "input").read_text() == "fail"
