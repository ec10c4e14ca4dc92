"""The first page as facts: the account adds up to the step, the load to what ran, and every line has a short form."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.overview.lines import SHORT, shortened
from warplens.analysis.query.ask import ask
from warplens.analysis.views.overview import VIEW
from warplens.loaders.ingest.opening import open_run

RUNS = ("demo/normal.json.gz", "kineto.pt.trace.json", "nsys.sqlite", "kernel_table_bert_training.txt")


@pytest.fixture(scope="module", params=RUNS)
def facts(request: pytest.FixtureRequest, samples: Path) -> dict[str, Any]:
    run = open_run(str(samples / request.param), use_cache=False)[0]
    return dict(ask(VIEW, (run,), Options()).all_facts)


def test_the_account_adds_up_to_what_100_percent_is(facts: dict[str, Any]) -> None:
    account = facts["account"]
    assert account["of_ns"] == facts["base"]["ns"] > 0
    assert abs(sum(row["ns"] for row in account["rows"]) - account["of_ns"]) <= 1_000
    letters = [row["letter"] for row in account["rows"]]
    assert letters and len(set(letters)) == len(letters)
    assert facts["letters"] == {row["letter"]: row["name"] for row in account["rows"]}


def test_the_load_adds_up_to_the_time_the_device_was_busy(facts: dict[str, Any]) -> None:
    if facts["load"] is None:
        assert facts["phases"] == []  # launches without times
        return
    devices = facts["load"]["devices"]
    assert all(0 <= share <= 1.000001 for one in devices for share in one["busy"])
    assert all(len(one["busy"]) == 100 for one in devices)


def test_phases_follow_one_another(facts: dict[str, Any]) -> None:
    phases = facts["phases"]
    assert all(one["to_ns"] > one["from_ns"] for one in phases)
    assert all(one["to_ns"] <= after["from_ns"] for one, after in pairwise(phases))


def test_every_line_has_a_form_for_a_narrow_screen(facts: dict[str, Any]) -> None:
    assert facts["lines"]
    assert all(0 < len(one["short"]) <= SHORT and one["long"] for one in facts["lines"])


@pytest.mark.parametrize(("sentence", "short"), [
    ("Input-bound: GPU 0 waits 283.7 of 996.5 ms in steps for the DataLoader (72% of its idle time).",
     "Input-bound: GPU 0 waits 283.7 of 996.5 ms in steps"),
    ("MFU 28.1%: 783.6 GFLOP per step; work known for 100% of the time.", "MFU 28.1%: 783.6 GFLOP per step"),
    ("Exposed communication takes 6.1% of the step (1.07 ms of 17.53 ms) on GPU 0, the most of 2 devices.",
     "Exposed communication takes 6.1% of the step on GPU 0"),
])
def test_a_sentence_is_cut_between_its_clauses(sentence: str, short: str) -> None:
    assert shortened(sentence) == short


def test_a_short_form_leaves_the_example_out_before_it_leaves_the_figure_out() -> None:
    text = "Copies and sets, most MEMORY_COPY_HOST_TO_DEVICE (360.0 µs), take 360.0 of 882.9 µs on GPU 0 on their own."
    assert shortened(text).startswith("Copies and sets take 360.0 of 882.9 µs on GPU 0")


def test_the_short_form_of_a_cause_of_idle_time_keeps_its_figures() -> None:
    from warplens.analysis.overview.lines import lines_of_pair

    said = "Idle    GPU 0 idles less on DataLoader (input): 56.7 → 0.554 ms a cycle, all of the cycle's −42.7 ms"
    (cause,) = (one for one in lines_of_pair([said], None) if one["kind"] == "cause")
    assert cause["short"] == "Cause: idle on DataLoader: 56.7 → 0.554 ms" and cause["mark"] == "!"


def test_less_work_and_no_cause_carry_no_warning() -> None:
    from warplens.analysis.overview.lines import lines_of_pair

    said = ["GPU     31.9 → 29.7 ms of device time", "Cause   too few cycles to relate readings to functions"]
    marks = {one["long"]: one["mark"] for one in lines_of_pair(said, {"verdict": "cannot tell"})}
    assert marks[said[0].replace("     ", " ")] == "·"
    assert marks["Cause: none found: too few cycles to relate readings to functions"] == "○"
    (more,) = (one for one in lines_of_pair(["GPU     29.7 → 31.9 ms"], {"verdict": "slower"}) if "GPU" in one["long"])
    assert more["mark"] == "!"
