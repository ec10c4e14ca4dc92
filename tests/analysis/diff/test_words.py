"""Every answer of the diff agrees with its own figures, for the bundled pair and for made ones, both ways round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from made_pairs import AFTER, BEFORE, behind_the_host, convolutions, training
from runs import kernel, run_of, steps

from warplens.analysis.query.ask import ask
from warplens.analysis.table.parts import unfolded
from warplens.analysis.table.table import Table
from warplens.analysis.views.diff import VIEW
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

PAIRS = {
    "input": (training(1), training(2, loader_ms=6)), "kernels": (training(1), training(2, kernel_ms=4)),
    "host": (training(1), training(2, items=3)), "hidden": (behind_the_host(1), behind_the_host(2, kernel_ms=1.3)),
    "equal": (training(1), training(2)), "one": (training(1, count=1), training(2, count=1)),
    "two": (training(1, count=2), training(2, count=2)), "swapped": (convolutions(BEFORE, 1), convolutions(AFTER, 2)),
    "outliers": (behind_the_host(1), behind_the_host(2, odd=1)),
}
BACK = {"slower": "faster", "faster": "slower", "more launches": "fewer launches", "new": "gone", "gone": "new",
        "fewer launches": "more launches"}


def contradictions(table: Table) -> list[str]:
    """What an answer says against its own figures."""
    facts, rows = table.facts, table.frame.to_dicts()
    cycles, found = facts["cycle_time"], list[str]()

    def hold(true: bool, text: str) -> None:
        if not true:
            found.append(text)

    delta = cycles["mean_delta_ms"]
    hold(abs(cycles["compared_b_ms"] - cycles["compared_a_ms"] - delta) < 1e-9, "compared means and their difference")
    if cycles["verdict"] in ("slower", "faster"):
        sign = 1 if cycles["verdict"] == "slower" else -1
        hold(sign * delta > 0 and min(sign * cycles["mean_low_ms"], sign * cycles["mean_high_ms"]) > 0, "cycle")
    if cycles["verdict"] == "unchanged":
        most = cycles["margin"] * cycles["compared_a_ms"]
        hold(-most <= cycles["mean_low_ms"] and cycles["mean_high_ms"] <= most, "unchanged beyond its margin")
    change = facts["change"]
    if change is not None:
        hold(abs(sum(one["delta_ms"] for one in change["causes"]) - change["delta_ms"]) < 1e-6, "causes do not sum up")
        hold(abs(change["delta_ms"] - delta) < 1e-6, "the account is not the change")
        ids = set(table.row_ids(0, len(table)))
        hold(all(row in ids for one in change["causes"] for row in one["rows"]), "a cause names a row that is missing")
    for row in rows:
        word, name = row["verdict"], f"{row['function']} {row['verdict']}"
        if facts["same_work"]["answer"] != "yes":
            hold(word not in ("slower", "faster", "more launches", "fewer launches"), f"{name} is not the same work")
        if word in ("slower", "faster"):
            sign = 1 if word == "slower" else -1
            hold(sign * row["delta_ms"] > 0 and (row["ci_low_ms"] > 0 if sign > 0 else row["ci_high_ms"] < 0), name)
            if row["launches_a"] and row["launches_b"] and row["kind"] != "op":
                hold(sign * (row["launch_us_b"] - row["launch_us_a"]) >= 0, f"{name} by its launches")
        if word in ("more launches", "fewer launches"):
            hold((row["launches_b"] > row["launches_a"]) == (word == "more launches"), name)
        hold(word != "new" or not row["launches_a"], name)
        hold(word != "gone" or not row["launches_b"], name)
        hold(row["lost"] is None or row["lost"] <= 1, f"{name} lost {row['lost']}")
    return found


@pytest.mark.parametrize("label", PAIRS)
def test_words_agree_with_their_figures_both_ways_round(label: str) -> None:
    a, b = PAIRS[label]
    for pair in ((a, b), (b, a)):
        assert contradictions(unfolded(ask(VIEW, pair))) == []


@pytest.mark.parametrize("label", ["input", "kernels", "hidden", "swapped"])
def test_swapping_the_runs_mirrors_the_answer(label: str) -> None:
    a, b = PAIRS[label]
    one, back = (ask(VIEW, pair) for pair in ((a, b), (b, a)))
    assert back.facts["cycle_time"]["verdict"] == BACK.get(*[one.facts["cycle_time"]["verdict"]] * 2)

    def words(table: Table) -> dict[tuple[Any, ...], tuple[str | None, float]]:
        return {(row["function"], row["device"]): (row["verdict"], round(row["delta_ms"], 9))
                for row in table.frame.to_dicts()}

    theirs = words(back)
    assert {key: (BACK.get(word or "", word), -delta) for key, (word, delta) in words(one).items()} == {
        key: (word, delta) for key, (word, delta) in theirs.items()}


T = "tracelens"
SHARED = {
    "the same work": ("hta/trace_diff/control", "hta/trace_diff/test"),
    "no workers and four": ("tb_plugin/samples/resnet50_num_workers_0", "tb_plugin/samples/resnet50_num_workers_4"),
    "two vendors, one model": (f"{T}/h100/gaun*", f"{T}/mi300/gaun*"),
    "two vendors, other libraries": (f"{T}/h100/Qwen*", f"{T}/mi300/Qwen*"),
    "fused and not": (f"{T}/agent_evals/comparative/03_1*", f"{T}/agent_evals/comparative/03_2*"),
    "mm and addmm": (f"{T}/agent_evals/comparative/04_1*", f"{T}/agent_evals/comparative/04_2*"),
    "two models": (f"{T}/h100/gaun*", f"{T}/h100/Qwen*"),
}


@pytest.mark.parametrize("label", SHARED)
def test_recorded_pairs_agree_with_their_figures_and_swapped_with_themselves(label: str, data: Path) -> None:
    root = data / "traces" / "kineto"
    files = [next(one for one in sorted((*root.glob(f"{some}/*.json*"), *root.glob(some))) if one.is_file())
             for some in SHARED[label]]
    a, b = (open_run(str(one), use_cache=False)[0] for one in files)
    one, back = (unfolded(ask(VIEW, pair)) for pair in ((a, b), (b, a)))
    assert contradictions(one) == [] and contradictions(back) == []
    assert one.facts["same_work"]["answer"] == back.facts["same_work"]["answer"]
    word, other = (table.facts["cycle_time"]["verdict"] for table in (one, back))
    assert other == BACK.get(word, word)
    names = {(row["function_b"] or row["function"], row["function"], row["kind"]): row for row in back.frame.to_dicts()
             if row["match"] not in ("operator", "flops")}
    for row in one.frame.to_dicts():
        key = row["function"], row["function_b"] or row["function"], row["kind"]
        if key in names and row["verdict"] in BACK and row["kind"] in ("kernel", "collective", "memcpy", "memset"):
            theirs = names[key]
            assert theirs["verdict"] == BACK[row["verdict"]], (key, row["verdict"], theirs["verdict"])
            assert theirs["delta_ms"] == pytest.approx(-row["delta_ms"])


def test_what_differs_in_everything_is_set_side_by_side(data: Path) -> None:
    folder = data / "traces" / "kineto" / T / "agent_evals" / "comparative"
    a, b = (open_run(str(folder / f"03_{n}.json.gz"), use_cache=False)[0] for n in (1, 2))
    table = ask(VIEW, (a, b))
    beside = table.facts["side_by_side"]
    assert (beside["per"], beside["a_ms"], beside["b_ms"]) == ("step", 0.35, pytest.approx(0.78))
    assert list(beside["families"]) == [{"name": "attention", "a_ms": 0.35, "b_ms": pytest.approx(0.78)}]
    assert list(beside["modules"]) == [{"name": "attention", "a_ms": 0.35, "b_ms": pytest.approx(0.78)}]
    (said,) = (line for line in table.summary if line.startswith("Compare"))
    assert "attention 0.350 → 0.780 ms" in said and "Not compared: FLOPs" in said
    assert not {"slower", "faster"} & set(table.frame["verdict"])


def test_the_ticket_begins_with_what_the_change_went_into() -> None:
    from warplens.analysis.views.triage import VIEW as TRIAGE

    rows = ask(TRIAGE, PAIRS["kernels"]).frame.to_dicts()
    assert [row["rule"] for row in rows[:4]] == ["change"] * 4 and "gemm" in rows[0]["finding"]


def same_kernels(factor: float, seed: int, cycles: int = 12) -> Trace:
    import numpy as np
    from runs import kernel, run_of, steps

    draw = np.random.default_rng(seed)
    names = [f"kernel_{chr(97 + one)}" for one in range(12)]
    work, lengths, at = [], [], 0
    for _ in range(cycles):
        begin = at
        for name in names:
            dur = round(100_000 * factor * float(draw.normal(1, 0.005)))
            work.append(kernel(len(work), at, dur, name, pid=1))
            at += dur
        lengths.append(at - begin)
    return run_of("made", kernels=work, cycles=steps(*lengths))


def test_all_kernels_by_one_factor_are_a_lead_and_no_cause() -> None:
    table = ask(VIEW, (same_kernels(1.0, 1), same_kernels(1.3, 2)))
    uniform = table.facts["uniform"]
    assert (uniform["kernels"], uniform["of"]) == (12, 12) and uniform["factor"] == pytest.approx(1.3, rel=0.01)
    assert any(line.startswith("Lead    12 of 12 kernels 1.3×, all slower") for line in table.summary)
    assert ask(VIEW, (same_kernels(1.0, 1), same_kernels(1.0, 2))).facts["uniform"] is None


def test_launches_without_a_name_are_compared_with_nobody_and_end_nothing() -> None:
    def nameless(dur: int) -> Trace:
        rows = [kernel(2 * cycle + at, 10_000 * cycle + 5_000 * at, dur, name) for cycle in range(6)
                for at, name in enumerate((None, "gemm"))]
        return run_of(kernels=rows, cycles=steps(*[10_000] * 6))

    rows = ask(VIEW, (nameless(700), nameless(900))).frame.filter(pl.col("kind") == "kernel")
    known = rows.filter(pl.col("function") == "gemm")
    assert known["a_ms"].to_list() == pytest.approx([0.0007]) and known["b_ms"].to_list() == pytest.approx([0.0009])
    assert not set(rows.filter(pl.col("function") != "gemm")["verdict"]) & {"slower", "faster"}
