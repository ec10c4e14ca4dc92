"""What scripts and assistants rely on: ids that can be followed, and views that describe themselves."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.query.report import report
from warplens.analysis.table.filters import Filter
from warplens.analysis.table.table import Table
from warplens.analysis.views import VIEWS
from warplens.cli.arguments import FINE, GATE_FAILED, USAGE
from warplens.cli.main import NAMES, command_of, main, parser_of
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
    for asked in (["--ids"], ["--row", first["id"]]):
        assert main(["report", demo, "--view", "ops", "--tree", *asked]) == USAGE
        assert "rows of a tree have no ids. Leave --tree out" in capsys.readouterr().err
    for told in (["--view", "sql"], ["--view", "memory"]):
        assert main(["report", demo, *told, "--row", "x:1"]) == USAGE
        assert "--ids" not in capsys.readouterr().err
    for asked, says in (("gap:999999", "gap:999999 matches 0 rows of the view idle. --ids prints them."),
                        ("kernal:1", "--row kernal:1: no rows have such ids. Nearest: kernel.")):
        assert main(["report", demo, "--row", asked]) == USAGE
        assert capsys.readouterr().err == f"warplens: {says}\n"


def test_a_cycle_is_found_without_its_rank_where_one_rank_has_it(tmp_path: Path, capsys: Captured) -> None:
    for rank in (0, 1):
        step = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{5 + rank}", "pid": 1, "tid": 1, "ts": 1,
                "dur": 9}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": [
            step, {**step, "name": "ProfilerStep#7", "ts": 20}]}))
    assert printed(capsys, str(tmp_path), "--row", "cycle:5")["rows"][0]["id"] == "cycle:5@0"
    assert main(["report", str(tmp_path), "--row", "cycle:7"]) == USAGE
    assert "cycle:7 matches 2 rows of the view cycles: cycle:7@0, cycle:7@1." in capsys.readouterr().err


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


def three_runs(a: str, b: str, view: str, names: list[str], capsys: Captured) -> list[dict[str, Any]]:
    """The rows of a view of three runs, which are those of each."""
    told = printed(capsys, a, b, a, "--view", view)
    assert [one["run"] for one in told["facts"]["runs"]] == names
    of_a, of_b = (printed(capsys, run, "--view", view)["rows"] for run in (a, b))
    alone = [*of_a, *of_b, *of_a]
    assert len(told["rows"]) == told["total_rows"] == len(alone) and (alone or view == "roofline")
    for row, same in zip(told["rows"], alone, strict=True):
        assert {name: row[name] for name in same} == same
    return list(told["rows"])


def test_three_runs_are_rows_for_scripts_and_columns_for_the_eye(samples: Path, deep: bool, capsys: Captured) -> None:
    small = [str(samples / name) for name in ("kineto.pt.trace.json", "nsys.sqlite")]
    for view in ("overview", "cycles", "roofline") if deep else ("cycles",):
        three_runs(*small, view, ["1 kineto", "nsys", "3 kineto"], capsys)
    a, b = (str(samples / "demo" / f"{side}.json.gz") for side in ("normal", "abnormal"))
    rows = three_runs(a, b, "kernels", ["1 normal", "abnormal", "3 normal"], capsys)
    pair = {row["name"]: row for row in printed(capsys, a, b, "--view", "kernels")["rows"]}
    assert {row["name"]: row["per_cycle_ns"] for row in rows if row["run"] == "abnormal"} == {
        name: row["per_cycle_ns_b"] for name, row in pair.items()}
    assert main(["report", a, b, a, "--view", "kernels", "--top", "1"]) == FINE
    header, first = capsys.readouterr().out.splitlines()[-2:]
    assert header.split()[-5:] == ["1", "normal", "abnormal", "3", "normal"]
    assert re.search(r"20\.04 ms +69\.72 ms +20\.04 ms$", first), first
    assert main(["report", a, b, a, "--view", "idle"]) == USAGE
    assert "Views of more runs: overview, cycles, kernels, roofline, history." in capsys.readouterr().err
    aggregates = str(samples / "comparison.csv")  # has no kernels
    assert main(["report", aggregates, a, b, "--view", "kernels", "--top", "1"]) == FINE
    assert re.search(r" 20\.04 ms +69\.72 ms$", capsys.readouterr().out, re.MULTILINE), "a column per run with rows"
    assert main(["report", a, b, a, "--view", "roofline"]) == FINE
    assert "ROOFLINE  0 rows" in capsys.readouterr().out
    for asked in (["--tree"], ["--run", "a"], ["--view", "kernels", "--row", "kernel:1"]):
        assert main(["report", a, b, a, *asked]) == USAGE
        assert "is for one run, or two to compare" in capsys.readouterr().err
    for asked in (["--cycle", "0"], ["--rank", "0"], ["--to", "1ms"], ["--no-warm-up"], ["--change", "host=0"]):
        assert main(["report", a, b, a, *asked]) == USAGE
        assert "a history is of whole recordings" in capsys.readouterr().err


def test_a_gate_is_a_case_of_junit(samples: Path, tmp_path: Path, capsys: Captured) -> None:
    pair = [str(samples / "demo" / f"{side}.json.gz") for side in ("normal", "abnormal")]
    gates = ["--fail-on", "regression:5", "--fail-on", "gpu:5"]
    assert main(["diff", *pair, *gates, "--format", "junit", "-o", str(tmp_path / "gate.xml")]) == GATE_FAILED
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [(one.get("name"), one[0].tag) for one in suite] == [("regression:5", "skipped"), ("gpu:5", "failure")]
    assert "42.3 → 155 ms per cycle" in str(suite[1][0].get("message"))
    assert capsys.readouterr().err.endswith("(at least +263.4%)\n")
    assert main(["diff", *pair, "--format", "junit"]) == USAGE


def test_every_column_of_fractions_says_what_1_is() -> None:
    columns = [column for entry in VIEWS for count in (1, 2) for column in entry.load().columns_for(count)]
    assert not [column.name for column in columns if column.unit == "fraction" and not column.of]


def test_the_guide_names_what_there_is(capsys: Captured) -> None:
    assert main(["guide"]) == FINE
    text = capsys.readouterr().out
    assert len(text.encode()) <= 12_000
    table = text.split("| question | view |")[1].split("\n\n")[0]
    assert set(re.findall(r"\| ([a-z]+) \| ", table)) - {"sql"} <= {entry.name for entry in VIEWS}
    typed = {word for name in NAMES for word in parser_of(command_of(name)).format_help().split()}
    known = {re.sub(r"[^-a-z]", "", word) for word in typed}
    assert {one for one in re.findall(r"(?<![\w-])--[a-z][-a-z]+", text)} <= known
    assert set(re.findall(r"^warplens ([a-z]+)", "".join(text.split("```")[1::2]), re.MULTILINE)) <= set(NAMES)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_views(shell: str, capsys: Captured) -> None:
    pytest.importorskip("shtab")
    assert main(["completions", shell]) == FINE
    script = capsys.readouterr().out
    assert all(word in script for word in (*NAMES[1:], "roofline", "--view" if shell != "fish" else "view"))
    if shell == "bash":
        words = "COMP_WORDS=(warplens report --vi); COMP_CWORD=2; _shtab_warplens; echo ${COMPREPLY[*]}"
        done = subprocess.run(["bash", "-c", f"{script}\n{words}"], capture_output=True, text=True, check=True)
        assert done.stdout == "--view\n"


@pytest.mark.parametrize("words", [["report", "-o", ""], ["slice", "-o", ""], ["slice", "-o", "-"]])
def test_an_output_without_a_name_is_refused(
        words: list[str], samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status = main([words[0], str(samples / "kineto.pt.trace.json"), *words[1:]])
    except SystemExit as stopped:
        status = int(stopped.code or 0)
    assert (status, list(tmp_path.iterdir())) == (USAGE, [])
    assert "name" in capsys.readouterr().err
