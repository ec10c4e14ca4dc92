"""What scripts and assistants rely on: ids that can be followed, and views that describe themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.query.report import report
from warplens.analysis.table.filters import Filter
from warplens.analysis.table.table import Table
from warplens.analysis.views import VIEWS
from warplens.cli.arguments import FINE, USAGE
from warplens.cli.main import main
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

Captured = pytest.CaptureFixture[str]
ONE_RUN = ("kineto.pt.trace.json", "dataset", "memory_snapshot.pickle", "rocm.rpd", "nsys.sqlite", "ncu_long.csv")


@pytest.fixture(scope="module")
def runs(samples: Path) -> list[tuple[Trace, ...]]:
    """The samples, and the demo as one run and as a pair."""
    a, b = (open_run(str(samples / "demo" / f"{side}.json.gz"), use_cache=False)[0] for side in ("normal", "abnormal"))
    return [*(open_run(str(samples / name), use_cache=False)[:1] for name in ONE_RUN), (a,), (a, b)]


@pytest.fixture(scope="module")
def answers(runs: list[tuple[Trace, ...]]) -> list[Table]:
    def made() -> Iterator[Table]:
        for those in runs:
            for entry in VIEWS:
                try:
                    yield report(entry.name, those, Options())
                except CannotAnswer:
                    continue

    return list(made())


def test_an_id_names_one_row_of_its_view(answers: list[Table]) -> None:
    seen = 0
    for answer in answers:
        ids = answer.row_ids(0, len(answer))
        assert len(ids) == len(set(ids)) and (len(ids) == len(answer) or answer.view == "sql"), answer.view
        seen += bool(ids)
    assert seen > 60


def test_an_id_is_of_one_view(answers: list[Table]) -> None:
    words: dict[str, set[str]] = {}
    for answer in answers:
        for one in answer.row_ids(0, 1):
            words.setdefault(one.partition(":")[0], set()).add(answer.view)
    assert words and all(len(views) == 1 for views in words.values()), words


def test_an_id_stays_with_its_row(runs: list[tuple[Trace, ...]]) -> None:
    for name, column in (("kernels", "count"), ("idle", "start_ns"), ("launches", "dur_ns")):
        options = Options()
        whole = report(name, runs[-2], options)
        by_id = dict(zip(whole.row_ids(0, len(whole)), whole.window(0, len(whole)), strict=True))
        some = report(name, runs[-2], options, condition=Filter("kind=kernel" if name != "idle" else "cause=python"),
                      sort=column, top=20)
        assert 0 < len(some) <= 20
        for one, row in zip(some.row_ids(0, 20), some.window(0, 20), strict=True):
            assert by_id[one] == row


def test_a_kernel_has_one_id_in_both_runs_and_in_the_pair(runs: list[tuple[Trace, ...]]) -> None:
    pair = runs[-1]
    tables = [report("kernels", those, Options()) for those in ((pair[0],), (pair[1],), pair)]
    ids = [set(one.row_ids(0, len(one))) for one in tables]
    assert ids[0] == ids[1] == ids[2] and len(ids[0]) == 15


def printed(captured: Captured, *words: str) -> Any:
    assert main(["report", *words, "--format", "json"]) == FINE
    return json.loads(captured.readouterr().out)


def test_a_finding_is_followed_by_its_id(samples: Path, capsys: Captured) -> None:
    demo = str(samples / "demo" / "normal.json.gz")
    for view in ("kernels", "idle", "cycles", "launches", "ops"):
        first = printed(capsys, demo, "--view", view, "--top", "1")["rows"][0]
        told = printed(capsys, demo, "--row", first["id"])
        assert told["view"] == view and told["rows"] == [first]
        assert [part["title"] for part in told["facts"]["details"]][-1] == "This row"
    assert main(["report", demo, "--row", "launch:0"]) == FINE
    text = capsys.readouterr().out
    assert "LAUNCHED BY" in text and "cudaLaunchKernel" in text


def test_the_beginning_of_a_hash_is_enough_and_what_names_nothing_is_said(samples: Path, capsys: Captured) -> None:
    demo = str(samples / "demo" / "normal.json.gz")
    first = printed(capsys, demo, "--view", "kernels", "--top", "1")["rows"][0]
    assert printed(capsys, demo, "--row", first["id"][:-4])["rows"] == [first]
    for asked, says in (("gap:999999", "gap:999999 names 0 rows of the view idle. --ids prints them."),
                        ("kernal:1", "--row kernal:1: no rows have such ids. Nearest: kernel.")):
        assert main(["report", demo, "--row", asked]) == USAGE
        assert capsys.readouterr().err == f"warplens: {says}\n"


def test_ids_are_printed_where_they_are_wanted(samples: Path, capsys: Captured) -> None:
    path = str(samples / "kernel_table_bert_training.txt")
    ids = [row["id"] for row in printed(capsys, path, "--view", "kernels")["rows"]]
    for form in ("text", "md", "csv"):
        assert main(["report", path, "--view", "kernels", "--format", form, "--ids"]) == FINE
        text = capsys.readouterr().out
        assert all(text.count(one) == 1 for one in ids)


def test_views_describe_their_columns_and_facts(answers: list[Table], capsys: Captured) -> None:
    assert main(["views", "--format", "json"]) == FINE
    told = json.loads(capsys.readouterr().out)
    views = {one["name"]: one for one in told["views"]}
    assert told["schema"] == 1 and set(views) == {entry.name for entry in VIEWS}
    for answer in answers:
        view = views[answer.view]
        facts = answer.all_facts
        sides = [facts[side] for side in ("a", "b") if isinstance(facts.get(side), dict)]
        assert not {name for one in (facts, *sides) for name in one} - set(view["facts"]), answer.view
        described = {one["name"] for one in (*view["columns"], *view.get("columns_of_two_runs", ()))}
        assert described >= {column.name for column in answer.columns} or answer.view == "sql"
    assert all(one["meaning"] for view in views.values() for one in view["columns"])
