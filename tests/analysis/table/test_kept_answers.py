"""An answer kept from before is told again only to the very same question, and without asking the recording."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from platformdirs import user_config_path

from warplens.analysis.contract.column import Column
from warplens.analysis.contract.options import Options
from warplens.analysis.contract.sections import PageSection
from warplens.analysis.contract.view import Answer, CannotAnswer, Runs, View
from warplens.analysis.core import derived
from warplens.analysis.query import ask as kept_answers
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.work.peaks import of_settings
from warplens.loaders.ingest import cache
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

COLUMNS = (Column("value", "value", "number", "", width=5, order=0),)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording whose answers are kept."""
    monkeypatch.setattr(derived, "LEAST_BYTES", 0)
    return written(tmp_path / "some.json")


def written(path: Path, dur: int = 5) -> Path:
    """A trace of one kernel that takes so many µs."""
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": dur, "pid": 0, "tid": 7, "args": {}}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    return path


def opened(path: Path) -> Trace:
    return open_run(str(path))[0]


def counting(**more: Any) -> tuple[View, list[Runs]]:
    """A view whose answer is how often it was asked, and what it was asked of."""
    asked: list[Runs] = []

    def build(runs: Runs, options: Options) -> Answer:
        asked.append(runs)
        frame = pl.LazyFrame({"value": [len(asked), 9], "other": ["a", "b"]})
        return Answer(frame, **{"facts": {"count": len(asked), "many": [1, 2.5, None]}, **more})

    return View("counting", COLUMNS, build), asked


def values(table: Table) -> list[Any]:
    return [row[0] for row in table.window(0, len(table))]


def test_the_next_process_has_the_answer_without_asking(path: Path) -> None:
    page = (PageSection("title", ("said",), ("a", "b"), (("1", "2"),), ("a",)),)
    view, asked = counting(summary=("sum",), notes=("note",), picture=(("line",),), rows_below=True, page=page)
    first, again = ask(view, (opened(path),)), ask(view, (opened(path),))
    assert len(asked) == 1
    for table in (first, again):
        assert (values(table), table.facts) == ([1, 9], {"count": 1, "many": [1, 2.5, None]})
        assert (table.summary, table.notes, table.page) == (("sum",), ("note",), page)
        assert (table.picture, table.rows_below) == ((("line",),), True)
    assert first.frame.schema == again.frame.schema and first.all_facts == again.all_facts


def test_rows_that_do_not_belong_are_left_out_of_what_is_kept(path: Path) -> None:
    view, asked = counting(keep=pl.col("other") == "b")
    assert [values(ask(view, (opened(path),))) for _ in range(2)] == [[9], [9]] and len(asked) == 1


@pytest.mark.parametrize("changed", [
    lambda run, path: replace(run, info=replace(run.info, label="other")),
    lambda run, path: run.with_tables(kernels=run.kernels.head(1)),
    lambda run, path: opened(written(path, 70)),
    lambda run, path: opened(written(path.with_name("other.json"))),
], ids=["label", "tables", "file", "another"])
def test_a_question_about_anything_else_is_asked(path: Path, changed: Callable[[Trace, Path], Trace]) -> None:
    view, asked = counting()
    ask(view, (opened(path),))
    ask(view, (changed(opened(path), path),))
    assert len(asked) == 2


def test_a_pair_is_another_question_in_the_other_order(path: Path) -> None:
    view, asked = counting()
    a, b = opened(path), opened(written(path.with_name("other.json"), 7))
    for runs in ((a, b), (b, a), (a, a), (a, b), (b, a)):
        ask(view, runs)
    assert asked == [(a, b), (b, a), (a, a)]


def test_options_and_columns_that_are_asked_for_are_asked_anew(path: Path) -> None:
    view, asked = counting()
    for _ in range(2):
        ask(view, (opened(path),), Options(columns=50))
        ask(replace(view, free_columns=True), (opened(path),))
    assert len(asked) == 4


def test_another_shape_and_other_code_are_other_questions(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view, asked = counting()
    ask(view, (opened(path),))
    ask(replace(view, name="shape"), (opened(path),))
    monkeypatch.setattr(kept_answers, "code_hash", lambda: "0123456789abcdef")
    ask(view, (opened(path),))
    assert len(asked) == 3


def test_other_peaks_in_the_settings_are_another_question(path: Path) -> None:
    view, asked = counting()
    for said in ("", '[peaks."A100"]\nbf16 = 1e14', '[peaks."A100"]\nbf16 = -1', '[peaks."A100"]\nbf16 = -1'):
        settings = user_config_path("warplens") / "config.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(said)
        of_settings.cache_clear()
        ask(view, (opened(path),))
    of_settings.cache_clear()
    assert len(asked) == 3


@pytest.mark.parametrize("facts", [{"odd": object()}, {"large": 1 << 70}, {(1, 2): 3}])
def test_facts_that_cannot_be_written_are_not_kept(path: Path, facts: dict[Any, Any]) -> None:
    view, asked = counting(facts=facts)
    assert [ask(view, (opened(path),)).facts for _ in range(2)] == [facts, facts] and len(asked) == 2


def test_a_large_answer_is_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST_BYTES", 10)
    view, asked = counting()
    assert [values(ask(view, (opened(path),))) for _ in range(2)] == [[1, 9], [2, 9]] and len(asked) == 2


def test_the_oldest_answers_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST_ANSWERS", 3)
    view, asked = counting()
    for name in "abcde":
        ask(replace(view, name=name), (opened(path),))
    for name in "edcba":
        ask(replace(view, name=name), (opened(path),))
    assert len(asked) == 7


def test_what_is_damaged_is_asked_again(path: Path) -> None:
    view, asked = counting()
    ask(view, (opened(path),))
    store = opened(path).derived_store
    assert store is not None
    (name,) = (file.name for file in cache.path().rglob("answer-*"))
    for damaged in ({"value": [b"\\x93"]}, {"other": [b""]}, {"value": []}, {"value": [None]}):
        store.write(name, pl.DataFrame(damaged, schema=dict.fromkeys(damaged, pl.Binary)))
        assert values(ask(view, (opened(path),)))[1] == 9
    assert len(asked) == 5


def test_why_there_is_no_answer_is_found_each_time(path: Path) -> None:
    asked: list[Runs] = []

    def build(runs: Runs, options: Options) -> Answer:
        asked.append(runs)
        raise CannotAnswer("Nothing is recorded.")

    for _ in range(2):
        with pytest.raises(CannotAnswer):
            ask(View("counting", COLUMNS, build), (opened(path),))
    assert len(asked) == 2
