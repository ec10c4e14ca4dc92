"""Functions of the CPU samples, their tree and their flame graph."""

from __future__ import annotations

import json
from typing import Any

import pytest
from runs import host, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.query.ask import ask
from warplens.analysis.table.export import WrongFormat, render
from warplens.analysis.table.flame import flame_of
from warplens.analysis.table.tree import opened_at_first
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

VIEW = view("stacks")
TREE = VIEW.other
assert TREE is not None
MAIN, STEP, MUL, COPY = "main (app)", "step(int (*)(int)) (app)", "mul (libm.so)", "[libcuda.so.1]"
Stack = tuple[int, list[str]]


def sampled(*stacks: Stack, label: str = "run", **more: Any) -> Trace:
    """A run with a sample for each stack: its thread, and its frames from the innermost out."""
    rows: list[dict[str, Any]] = [
        {"start_ns": at, "pid": 1, "tid": tid, "function": frames[0].partition(" (")[0], "stack": "\n".join(frames),
         "state": "Running", **more} for at, (tid, frames) in enumerate(stacks)]
    call = {"start_ns": 0, "dur_ns": 5, "call": "poll", "pid": 1, "tid": 1, "function": "poll", "stack": "poll (libc)"}
    return run_of(label, call_chains=[*rows, call], host=[host("aten::mm", 0, 5)])


RUN = sampled(
    (1, [MUL, STEP, MAIN]), (1, [STEP, STEP, MAIN]), (1, [COPY, MAIN]), (2, [MUL, STEP]),
    (1, [COPY]), (2, [COPY]), (2, [MUL]),
)


def functions(run: Trace) -> dict[str, tuple[int, int, int]]:
    """Of each function its own samples, those of it and what it called, and its threads."""
    frame = ask(VIEW, (run,)).frame
    assert frame["share"].to_list() == (frame["samples"] / 4).to_list()
    return {name: tuple(rest) for name, *rest in frame.select("name", "self_samples", "samples", "threads").rows()}


def test_a_sample_counts_once_for_a_function_and_without_callers_for_itself_only() -> None:
    assert functions(RUN) == {
        "mul": (3, 2, 2), "[libcuda.so.1]": (3, 1, 2), "step(int (*)(int))": (1, 3, 2), "main": (0, 3, 1)}
    table = ask(VIEW, (RUN,))
    assert table.summary == (
        "7 CPU samples on 2 threads, 4 of them with callers · 4 functions · 43% in code without symbols",)
    assert table.notes == ("3 samples have no callers recorded and count in self only, not in shares: nsys profile "
                           "--samples-per-backtrace=1 records them with every sample.",)


def test_both_shares_are_of_the_samples_with_callers_so_that_self_never_exceeds_total() -> None:
    assert ask(VIEW, (RUN,)).frame.select("name", "self_share", "share").rows() == [
        ("mul", 0.5, 0.5), ("step(int (*)(int))", 0.25, 0.75), ("[libcuda.so.1]", 0.25, 0.25), ("main", 0, 0.75)]
    alone = ask(VIEW, (sampled((1, [MUL]), (1, [COPY]), (1, [MUL])),)).frame
    assert alone["self_share"].to_list() == alone["share"].to_list() == [2 / 3, 1 / 3]


def test_the_tree_has_what_each_function_called_on_each_thread() -> None:
    rows = ask(TREE, (RUN,)).frame.select("depth", "name", "thread", "samples", "self_samples").rows()
    assert rows == [
        (0, "thread 1", "1", 3, 0), (1, "main", "1", 3, 0), (2, "step(int (*)(int))", "1", 2, 0),
        (3, "mul", "1", 1, 1), (3, "step(int (*)(int))", "1", 1, 1), (2, "[libcuda.so.1]", "1", 1, 1),
        (0, "thread 2", "2", 1, 0), (1, "step(int (*)(int))", "2", 1, 0), (2, "mul", "2", 1, 1)]
    assert 0 in opened_at_first(ask(TREE, (RUN,)))


def test_where_no_sample_has_callers_the_tree_is_of_all() -> None:
    table = ask(TREE, (sampled((1, [MUL]), (1, [COPY]), (1, [MUL])),))
    assert table.frame.select("name", "samples").rows() == [("thread 1", 3), ("mul", 2), ("[libcuda.so.1]", 1)]
    assert table.notes == ()


def test_the_flame_graph_is_as_wide_as_its_samples() -> None:
    table = ask(TREE, (RUN,))
    flame = flame_of(table)
    assert (flame.total, flame.amount(flame.total), flame.amount(1)) == (4, "4 samples", "1 sample")
    assert sum(flame.own()) == 4
    assert render(table, "folded").decode().splitlines()[0] == "thread 1;main;step(int (*)(int));mul 1"
    (profile,) = json.loads(render(table, "speedscope"))["profiles"]
    assert (profile["name"], profile["unit"], profile["endValue"]) == ("CPU samples", "none", 4)
    assert b"mul: 1 sample, 25.0%" in render(table, "svg")


def test_details_say_who_called_a_function_and_what_it_called() -> None:
    assert VIEW.details is not None and TREE.details is not None
    step = next(row for row in ask(VIEW, (RUN,)).frame.to_dicts() if row["name"].startswith("step"))
    by, calls = VIEW.details(step, (RUN,), Options())
    assert (by.title, by.rows) == ("Called by", (
        ("main", "app", "2"), ("nothing recorded above it", "–", "1"), ("step", "app", "1")))
    assert (calls.title, calls.rows) == ("Calls", (
        ("mul", "libm.so", "2"), ("nothing, it ran itself", "–", "1"), ("step", "app", "1")))
    first = ask(TREE, (RUN,)).frame.to_dicts()[1]
    (below,) = TREE.details(first, (RUN,), Options())
    assert below.rows == (("[libcuda.so.1]", "libcuda.so.1", "1"), ("mul", "libm.so", "1"),
                          ("step", "app", "1"))


def test_two_runs_compare_by_shares_whatever_their_threads_and_lengths() -> None:
    longer = sampled(*[(7, [MUL, STEP, MAIN])] * 30, *[(8, [COPY, MAIN])] * 10, label="b")
    first = sampled((1, [MUL, STEP, MAIN]), (1, [COPY, MAIN]), label="a")
    rows = ask(VIEW, (first, longer)).frame.select("name", "self_share_a", "self_share_b", "self_share_delta").rows()
    assert rows == [("mul", 0.5, 0.75, 0.25), ("[libcuda.so.1]", 0.5, 0.25, -0.25),
                    ("step(int (*)(int))", 0, 0, 0), ("main", 0, 0, 0)]
    tree = ask(TREE, (first, longer))
    assert tree.frame.select("name", "share_delta").rows() == [
        ("main", 0), ("[libcuda.so.1]", -0.25), ("step(int (*)(int))", 0.25), ("mul", 0.25)]
    with pytest.raises(WrongFormat):
        render(tree, "folded")


def test_calls_alone_are_no_samples() -> None:
    with pytest.raises(CannotAnswer, match=r"holds no CPU samples; Nsight Systems .* --sample=process-tree"):
        ask(VIEW, (sampled(),))
