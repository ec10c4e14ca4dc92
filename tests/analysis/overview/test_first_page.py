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
    marks = {one["long"]: one["mark"] for one in lines_of_pair(said, {"verdict": "cannot tell"}, "", {"": False})}
    assert marks[said[0].replace("     ", " ")] == "·"
    assert marks["Cause: none found: too few cycles to relate readings to functions"] == "○"
    work = ["GPU     GPU 0 work a cycle: 1,000 → 1,001 ms", "GPU     GPU 1 work a cycle: 9.9 → 9.8 ms"]
    lines = lines_of_pair(work, {"verdict": "slower"}, "", {"GPU 0": True, "GPU 1": False})
    assert [one["mark"] for one in lines if one["kind"] == "effect"] == ["!", "·"]


def test_the_reason_why_nothing_is_judged_is_said_once() -> None:
    from warplens.analysis.overview.lines import lines_of_pair

    why = "nothing shows that both do the same work: no shapes"
    said = [f"Cycle   not judged (mean 3.00 ms in A, 3.00 ms in B): {why}",
            "GPU     GPU 0 work a cycle: 1.00 → 2.00 ms",
            f"Data    not judged: {why}; different devices: X → Y"]
    times = {"verdict": "not judged", "compared_a_ms": 3.0, "compared_b_ms": 3.0}
    lines = {one["kind"]: f"{one['mark']} {one['long']}" for one in lines_of_pair(said, times)}
    assert lines["verdict"] == f"○ Not judged: 3.00 → 3.00 ms a cycle: {why}."
    assert lines["data"] == "· Data: different devices: X → Y"
    assert lines["effect"] == "· GPU 0 work a cycle: 1.00 → 2.00 ms"
    assert not any(one["kind"] == "data" for one in lines_of_pair([said[0], f"Data    not judged: {why}"], times))


def test_how_few_cycles_and_without_which_is_said_with_the_verdict() -> None:
    from warplens.analysis.overview.lines import lines_of_pair

    figures = "mean 100 → 110 ms, +10%, 95% CI +5.0 to +15 ms, without the first cycle"
    times = {"verdict": "slower", "compared_a_ms": 100.0, "compared_b_ms": 110.0, "mean_delta_ms": 10.0,
             "mean_low_ms": 5.0, "mean_high_ms": 15.0}
    (line,) = (one for one in lines_of_pair([f"Cycle   slower ({figures}); only three cycles in B"], times)
               if one["kind"] == "verdict")
    assert line["long"] == ("Slower: 100 → 110 ms a cycle, mean +10.0 ms (95% CI +5.0 to +15 ms), without the first "
                            "cycle; only three cycles in B.")


def test_the_top_kernel_stands_above_what_is_little_beside_it() -> None:
    from warplens.analysis.overview.lines import lines_of

    def finding(rule: str, severity: str, at_most: float | None, **more: Any) -> dict[str, Any]:
        return {"rule": rule, "severity": severity, "sentence": rule, "at_most_ns": at_most, "short": "", **more}

    top = finding("costliest", "fact", None, rows=[{"each_ns": 50.0}])
    rules = [finding("host", "problem", 30.0), finding("slow cycles", "problem", 2.0), finding("busy", "fact", None)]
    rules.append(top)
    said = [one["long"] for one in lines_of({"rules": rules, "base": {"ns": 100.0}})]
    assert said == ["host", "costliest", "slow cycles", "busy"]
    small = [{**one, "rows": [{"each_ns": 20.0}]} if one is top else one for one in rules]
    assert [one["long"] for one in lines_of({"rules": small, "base": {"ns": 100.0}})][-1] == "costliest"
