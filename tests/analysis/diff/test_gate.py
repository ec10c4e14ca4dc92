"""What the gate stops at, and what comes first: the thing a cycle lost most to, wherever it was lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gates import gate
from made_pairs import MS, SEVERAL, SINGLE, behind_the_host, training
from runs import host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.diff.gate_rule import RULES, Condition, condition_of
from warplens.analysis.diff.headline import pair_headline
from warplens.analysis.query.ask import ask
from warplens.analysis.query.report import report
from warplens.analysis.table.table import Table
from warplens.analysis.views.diff import VIEW
from warplens.loaders.trace import Trace


def diff(a: Trace, b: Trace) -> Table:
    return ask(VIEW, (a, b))


def first(table: Table) -> dict[str, Any]:
    return table.frame.row(0, named=True)


def test_input_that_takes_longer_comes_first_and_fails_the_gate() -> None:
    table = diff(training(1), training(2, loader_ms=6))
    assert (first(table)["function"], first(table)["verdict"]) == (SINGLE, "slower")
    passed, sentence = gate(table, [Condition("regression", 10)])
    assert not passed and "first idle on unknown launches" in sentence
    assert gate(diff(training(2, loader_ms=6), training(1)), [Condition("regression", 10)]).passed


def test_input_under_a_new_name_counts_in_full_where_one_odd_cycle_hides_the_shift() -> None:
    a = training(1, loader_ms=0.1, loader=SEVERAL, count=6, odd_ms=30)
    table = diff(a, training(2, loader_ms=8, count=6))
    assert table.facts["cycle_time"]["verdict"] == "cannot tell"
    assert (first(table)["function"], first(table)["verdict"]) == (SINGLE, "new")
    passed, sentence = gate(table, [Condition("regression", 10)])
    assert not passed and sentence.startswith("NOT JUDGED: a regression above 10% is neither shown nor excluded")


def test_what_is_gone_is_set_against_what_is_new() -> None:
    a = training(1, loader_ms=4, loader=SEVERAL, count=6, odd_ms=60)
    table = diff(a, training(2, loader_ms=4, loader="next(batches)", count=6))
    assert {row["function"]: row["verdict"] for row in table.frame.to_dicts() if row["verdict"] != "~"} == {
        SEVERAL: "gone", "next(batches)": "new"
    }
    assert gate(table, [Condition("regression", 10)]).sentence.startswith("NOT JUDGED")


def test_a_kernel_that_got_slower_comes_before_the_call_that_waits_for_it() -> None:
    table = diff(training(1), training(2, kernel_ms=4))
    slower = [row["function"] for row in table.frame.to_dicts() if row["verdict"] == "slower"]
    assert slower[0].startswith("gemm") and slower[-1] == "cudaDeviceSynchronize"
    assert not gate(table, [Condition("regression", 10)]).passed


def test_the_call_that_lost_the_time_comes_before_the_one_around_it() -> None:
    table = diff(training(1), training(2, items=3))
    slower = [row["function"] for row in table.frame.to_dicts() if row["verdict"] == "slower"]
    assert slower[:2] == ["aten::prepare", "aten::linear"]
    losses = {row["function"]: row["lost_here_ms"] for row in table.frame.to_dicts() if row["function"] in slower}
    assert losses["aten::linear"] == pytest.approx(0, abs=0.01) and losses["aten::prepare"] == pytest.approx(2, abs=0.1)


def test_a_cycle_that_kept_its_length_passes_whatever_its_functions_did() -> None:
    table = diff(training(1, items=1, loader_ms=3), training(2, items=3, loader_ms=1))
    assert table.facts["cycle_time"]["verdict"] == "unchanged"
    assert {"slower", "faster"} <= set(table.frame["verdict"])
    assert gate(table, [Condition("regression", 5)]) == (
        True, "PASS: no cycle-time regression above 5%, at most +0.2%; 2 host functions slower",
    )


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_is_slower_or_faster_without_q(count: int) -> None:
    a, b = training(1, count=count), training(2, kernel_ms=9, loader_ms=9, count=count)
    for table in (diff(a, b), diff(b, a)):
        for row in table.frame.to_dicts():
            assert row["verdict"] not in ("slower", "faster") or row["q"] <= 0.05, row["function"]


def test_runs_of_one_name_with_no_time_in_one_are_not_gone() -> None:
    def run(us: int) -> Trace:
        made = training(3)
        tables = {name: made.table(name).collect().to_dicts() for name in ("kernels", "host", "cycles")}
        more = [
            kernel(1000 + 2 * number + each, row["start_ns"] + 10 * each, us * 1_000, "memset_32", pid=1, kind="memset")
            for number, row in enumerate(tables["cycles"]) for each in range(2)
        ]
        return run_of("made", **tables | {"kernels": [*tables["kernels"], *more]})

    calls = {row["function"]: row for row in diff(run(900), run(0)).frame.to_dicts()}
    assert (calls["memset_32"]["launches_b"], calls["memset_32"]["launch_us_b"]) == (2.0, 0.0)
    assert calls["memset_32"]["verdict"] not in ("new", "gone")


def test_launches_that_took_no_time_are_launches_where_there_are_no_cycles() -> None:
    def run(ns: int) -> Trace:
        return run_of("made", kernels=[kernel(i, None, ns, "memset_32") for i in range(2)]
                      + [kernel(2 + i, None, 1_000 + i, "gemm") for i in range(8)])

    calls = {row["function"]: row["verdict"] for row in diff(run(500), run(0)).frame.to_dicts()}
    assert calls["memset_32"] == "too few cycles"


def one_step(seed: int, step_ms: float, wait_ms: float) -> Trace:
    """One recorded step of a rank: kernels, and collectives that mostly wait for the other ranks."""
    draw = np.random.default_rng(seed)
    kernels: list[dict[str, Any]] = []
    at = 0
    for _ in range(8):
        for name, kind, ms in (("gemm", "kernel", 1.0), ("ncclAllReduce", "collective", wait_ms)):
            dur = round(ms * MS * float(np.exp(draw.normal(0, 0.01))))
            kernels.append(kernel(len(kernels), at, dur, name, kind=kind, pid=1))
            at += dur
    return run_of("rank", kernels=kernels, cycles=steps(round(step_ms * MS)))


def test_two_ranks_with_one_step_each_are_compared_by_the_step_and_not_by_a_collective_that_waits() -> None:
    table = diff(one_step(1, 100, 11), one_step(2, 101, 4))
    assert table.summary[0] == "Cycle   cannot tell (mean 100 → 101 ms); only one cycle in each run"
    assert table.facts["cycle_time"]["median_a_ms"] == 100.0
    gemm = next(row for row in table.frame.to_dicts() if row["function"] == "gemm")
    assert (gemm["verdict"], gemm["launches_a"]) == ("~", 8.0)


@pytest.mark.parametrize("pair", [
    (training(1), training(2, loader_ms=6)), (one_step(1, 100, 11), one_step(2, 101, 4)),
])
def test_the_headline_for_other_views_is_the_first_line_of_the_diff(pair: tuple[Trace, Trace]) -> None:
    headline = pair_headline(pair, Options())
    assert headline is not None and headline.line == diff(*pair).summary[0]


@pytest.mark.parametrize(("condition", "passed", "line"), [
    ("regression:5", True, "PASS: no cycle-time regression above 5%, at most +0.2%; 1 kernel slower, hidden"),
    ("gpu:5", False, "FAIL: GPU work of GPU 0 1.00 → 1.30 ms per cycle (at least +2"),
    ("gpu:40", True, "PASS: no GPU work per cycle above +40%; 1 kernel slower, hidden"),
    ("kernel:20", False, "FAIL: 1 kernel slower by more than 20%, first gemm at least +2"),
    ("kernel:40", True, "PASS: no kernel slower by more than 40%; 1 kernel slower, hidden"),
    ("outliers", True, "PASS: no more outliers than in A (0 of 0); 1 kernel slower, hidden"),
    ("cause", False, "NOT JUDGED: no clock, power, link or processor reading was recorded in both runs"),
])
def test_a_kernel_that_nobody_waits_for_fails_only_where_that_is_asked(
    condition: str, passed: bool, line: str
) -> None:
    table = diff(behind_the_host(1), behind_the_host(2, kernel_ms=1.3))
    found = gate(table, [condition_of(condition)])
    assert found.passed is passed and found.sentence.startswith(line)


def test_equal_runs_pass_every_condition() -> None:
    table = diff(behind_the_host(1), behind_the_host(2))
    assert gate(table, [Condition(name) for name in RULES if name != "cause"]).passed


def test_more_outliers_than_in_a_fail_their_condition_and_are_said_by_others() -> None:
    a, b = behind_the_host(1), behind_the_host(2, odd=2)
    assert gate(diff(a, b), [Condition("outliers")]) == (False, "FAIL: 2 outliers in B, 0 in A")
    assert gate(diff(b, a), [Condition("outliers")]).passed
    passed, line = gate(diff(a, b))
    assert passed and line.endswith("; 2 outliers in B, 0 in A")


def test_every_condition_that_fails_is_in_the_line() -> None:
    table = diff(behind_the_host(1), behind_the_host(2, kernel_ms=1.3, odd=2))
    _, line = gate(table, [Condition("gpu", 5), Condition("regression", 5), Condition("outliers")])
    assert line.startswith("FAIL: GPU work of GPU 0") and line.endswith("; 2 outliers in B, 0 in A")


@pytest.mark.parametrize("text", ["regresion", "regression:", "gpu:x", "gpu:-1", "gpu:nan", "outliers:3", ""])
def test_a_condition_that_is_none_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"give regression\[:PCT\], gpu:PCT, kernel:PCT, outliers, cause"):
        condition_of(text)


def test_runs_of_which_one_has_nothing_to_compare_are_judged_by_none() -> None:
    table = report("diff", (run_of("calls", host=[host("hipFree", 0, 10, "runtime")]), training(1)), Options())
    for rule in RULES:
        passed, sentence = gate(table, [Condition(rule, 10)])
        assert not passed and sentence.startswith("NOT JUDGED: calls holds neither launches")


def test_a_gate_blames_no_function_for_time_that_was_not_recorded() -> None:
    from types import SimpleNamespace

    from warplens.analysis.diff.change import REST, ChangeCause
    from warplens.analysis.diff.gate import _first_cause

    def said(*causes: ChangeCause) -> str:
        change = SimpleNamespace(causes=causes, delta_ms=sum(one.delta_ms for one in causes))
        return _first_cause(SimpleNamespace(names=()), SimpleNamespace(change=change))  # type: ignore[arg-type]

    rest = ChangeCause(REST, "not recorded", None, 600.0, 1296.5, 696.5)
    assert said(rest, ChangeCause("kernel", "gemm", None, 1.0, 1.04, 0.04)) == (
        ", in time that no function was recorded for")
    assert said(ChangeCause("kernel", "gemm", None, 1.0, 3.0, 2.0), rest) == ""
    assert said(ChangeCause("kernel", "gemm", None, 1.0, 101.0, 100.0), rest) == ", first gemm"
