"""``import warplens``: what docs/python.md and the notebook say is so, and what may go wrong says what it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from history_runs import write_run

import warplens

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def in_samples(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(samples)


@pytest.mark.usefixtures("in_samples")
def test_the_page_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    said = capsys.readouterr().out
    assert len(blocks) == 6 and "kineto" in said and "| kernel |" in said
    assert "SM clock of GPU 7 fell 1,187 → 210 MHz" in said and "no view kernals. Nearest: kernels." in said


@pytest.mark.usefixtures("in_samples")
def test_the_notebook_runs_from_top_to_bottom() -> None:
    book = json.loads(Path("demo.ipynb").read_text(encoding="utf-8"))
    assert book["nbformat"] == 4 and all(not cell.get("outputs") for cell in book["cells"])
    names: dict[str, object] = {}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "samples/demo.ipynb", "exec"), names)
    plot = names["plot"]
    assert isinstance(plot, str) and plot.startswith("<svg") and plot.count("<circle") == 12 + 10
    # half the host time of a host-bound run; the cycle before the first whole one is halved as well
    assert names["saved_ms"] == pytest.approx(names["cycle_ms"] / 2, rel=0.12)


def test_a_table_the_format_cannot_fill_has_no_rows(samples: Path) -> None:
    run = warplens.open(samples / "kernel_table_bert_training.txt", cache=False)
    assert run.kernels.select(pl.len()).collect().item() == 1626 and run.host.collect().is_empty()


def test_a_view_is_that_of_the_command_line(samples: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    from warplens.cli.main import main

    path = str(samples / "kernel_table_bert_training.txt")
    answer = warplens.open(path).view("kernels", filter="share>5%", sort="count", top=3)
    rows = ["--filter", "share>5%", "--sort", "count", "--top", "3"]
    main(["report", path, "--view", "kernels", *rows, "--format", "json"])
    assert json.loads(answer.to_json()) == json.loads(capsysbinary.readouterr().out)
    assert answer.frame["name"].to_list() == [row["name"] for row in json.loads(answer.to_json())["rows"]]
    assert "<table" in answer._repr_html_() and "3 rows" in repr(answer)


def test_names_cannot_act_in_a_notebook(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "kernel", "name": "<script>x</script>", "pid": 0, "tid": 7, "ts": 0, "dur": 5,
             "args": {"device": 0, "stream": 7}}
    path.write_text(json.dumps({"traceEvents": [event]}))
    shown = warplens.open(path, cache=False).view("kernels")._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda run: run.view("kernals"), r"no view kernals\. Nearest: kernels"),
        (lambda run: run.view("kernels", sort="totl_ns"), r"no column totl_ns\. Nearest: total_ns"),
        (lambda run: run.view("kernels", filter="totl_ns>1"), r"'totl_ns'\. Nearest: total_ns"),
        (lambda run: run.view("kernels", devise="GPU 0"), r"no option devise\. Nearest: device"),
        (lambda run: run.view("kernels", device="GPU 9"), "no device GPU 9"),
        (lambda run: run.view("diff"), "compares two runs"),
        (lambda run: run.view("timeline", columns=0), "^0 is not a number of columns from 1 to 10,000"),
        (lambda run: run.view("timeline", columns=1.5), r"^1\.5 is not a number of columns from 1 to 10,000"),
        (lambda run: run.view("memory", cycle_anchor="("), "cycle_anchor is not a regular expression"),
        (lambda run: run.view("memory", from_ns=10**15), "kineto has nothing in this window"),
        (lambda run: run.view("whatif", changes=["faster"]), "'faster' is not a change: type kernel:gemm=0.5"),
        (lambda run: run.view("kernels", b=run, per="step"), "per='step': sums are per cycle or per recording"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_sentence(ask, says: str, samples: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(warplens.UsageError, match=says):
        ask(warplens.open(samples / "kineto.pt.trace.json", cache=False))


def test_what_cannot_be_read_is_said(samples: Path) -> None:
    with pytest.raises(warplens.Unreadable, match="nowhere"):
        warplens.open("/nowhere/at/all.json")
    with pytest.raises(warplens.UsageError, match="holds 2 runs: choose one with worker=0 or worker=1"):
        warplens.open(samples / "tb_views.jsonl", cache=False)
    assert warplens.open(samples / "tb_views.jsonl", worker=1, cache=False).info.format == "tb-views"


def test_a_history_takes_paths_and_open_runs_and_notes_what_it_cannot_read(tmp_path: Path) -> None:
    nights: list[str | warplens.Run] = [
        str(write_run(tmp_path / f"night-{night:02}.json", {"gemm_c": 1.1 if night >= 7 else 1.0}, night))
        for night in range(12)
    ]
    (tmp_path / "broken.json").write_text("nothing")
    asked = [*nights[:3], warplens.open(nights[3]), str(tmp_path / "broken.json"), *nights[4:]]
    answer = warplens.history(asked, sort="mean_ns")
    assert [run["run"] for run in answer.facts["runs"]] == [f"night-{night:02}" for night in range(12)]
    steps = [step for step in answer.facts["steps"] if step["kind"] == "kernel"]
    assert [(step["name"], step["index"]) for step in steps] == [("gemm_c", 7)]
    assert answer.frame["mean_ns"].is_sorted(descending=True)
    assert any("broken.json" in note for note in answer.notes) and answer.summary[0].startswith("gemm_c is ")
    with pytest.raises(warplens.Unreadable, match=r"broken\.json"):
        warplens.history([tmp_path / "broken.json"])
