"""Kernels swapped under one operator are one row that opens into them."""

from __future__ import annotations

from typing import Any

import pytest
from gates import gate
from made_pairs import AFTER, BEFORE, convolutions

from warplens.analysis.contract.options import Options
from warplens.analysis.details.suspects import suspect_sections
from warplens.analysis.diff.gate_rule import Condition
from warplens.analysis.query.ask import ask
from warplens.analysis.table.export import csv, render
from warplens.analysis.table.parts import opened, row_of, unfolded
from warplens.analysis.table.table import Table
from warplens.analysis.views import view
from warplens.analysis.views.diff import VIEW
from warplens.loaders.trace import Trace


def diff(a: Trace, b: Trace) -> Table:
    return ask(VIEW, (a, b))


def on_device(table: Table) -> dict[str, dict[str, Any]]:
    rows = [row for row in table.frame.to_dicts() if row["device"] == "GPU 0" and row["kind"] != "idle"]
    return {row["function"]: row for row in rows}


def test_another_algorithm_that_takes_as_long_is_one_unchanged_row() -> None:
    rows = on_device(diff(convolutions(BEFORE, 1), convolutions(AFTER, 2)))
    assert set(rows) == {"aten::conv", "norm"}
    row = rows["aten::conv"]
    assert (row["kind"], row["verdict"], row["parts"]) == ("op", "~", 3)
    assert (row["launches_a"], row["launches_b"]) == (4.0, 4.0)  # calls of the operator
    assert (row["a_ms"], row["b_ms"]) == (pytest.approx(0.4, rel=0.01), pytest.approx(0.4, rel=0.01))


def test_an_algorithm_that_takes_longer_is_one_slower_row() -> None:
    table = diff(convolutions(BEFORE, 1), convolutions(AFTER, 2, us=130))
    assert {name: row["verdict"] for name, row in on_device(table).items()} == {"aten::conv": "slower", "norm": "~"}
    failed = gate(table, [Condition("kernel", 20)])
    assert not failed.passed and "1 kernel slower by more than 20%, first aten::conv" in failed.sentence
    work = {one["device"]: (one["busy_a_ms"], one["busy_b_ms"]) for one in table.facts["work"]}
    assert work["GPU 0"] == (pytest.approx(1.2, rel=0.01), pytest.approx(1.32, rel=0.01))  # kernels count once


@pytest.mark.parametrize("after", [[*AFTER, "fft"], ["wino", "wino", "wino"]])
def test_an_operator_that_is_called_otherwise_did_not_only_swap_its_kernels(after: list[str]) -> None:
    assert "aten::conv" not in on_device(diff(convolutions(BEFORE, 1), convolutions(after, 2)))


def test_kernels_of_another_operator_are_not_swapped() -> None:
    table = diff(convolutions(BEFORE, 1), convolutions(AFTER, 2, op="aten::other"))
    assert {"wino", "implicit", "fft"} <= set(on_device(table))


def test_a_kernel_of_two_operators_meets_those_that_each_of_them_has_in_b() -> None:
    ops = ["aten::mm", "aten::addmm", "aten::mm"]
    runs = convolutions(["old", "old", "old"], 1, ops=ops), convolutions(["some", "some", "other"], 2, ops=ops, us=130)
    rows = on_device(diff(*runs))
    assert set(rows) == {"aten::addmm, aten::mm", "norm"}
    row = rows["aten::addmm, aten::mm"]
    assert (row["match"], row["verdict"], row["launches_a"], row["launches_b"]) == ("operator", "slower", 3.0, 3.0)
    assert row["a_ms"] == pytest.approx(0.3, rel=0.01) and row["b_ms"] == pytest.approx(0.39, rel=0.01)


@pytest.mark.parametrize("count", [1, 10])
def test_other_operators_inside_one_module_meet_at_the_module(count: int) -> None:
    table = diff(convolutions(["flash"], 1, op="x::flash", module="Attention", count=count), convolutions(
        ["bmm", "softmax", "bmm"], 2, ops=["aten::bmm", "aten::softmax", "aten::bmm"], module="Attention", count=count))
    row = on_device(table)["nn.Module: Attention"]
    assert (row["match"], row["parts"], row["launches_a"], row["launches_b"]) == ("operator", 3, 1.0, 1.0)
    assert row["delta_ms"] == pytest.approx(0.2, rel=0.02)


def test_one_step_a_side_meets_at_the_operator_as_well() -> None:
    table = diff(convolutions(BEFORE, 1, count=1), convolutions(AFTER, 2, us=130, count=1))
    rows = on_device(table)
    assert set(rows) == {"aten::conv", "norm"}
    row = rows["aten::conv"]
    assert (row["match"], row["parts"], row["verdict"]) == ("operator", 3, "too few cycles")
    assert (row["launches_a"], row["a_ms"], row["b_ms"]) == (
        4.0, pytest.approx(0.4, rel=0.02), pytest.approx(0.52, rel=0.02))
    assert "1.20 → 1.32 ms" in " ".join(table.summary)  # its kernels count once
    page = ask(view("triage"), (convolutions(BEFORE, 1, count=1), convolutions(AFTER, 2, us=130, count=1))).page
    (differs,) = (one for one in page if one.title == "What differs most")
    assert differs.rows[0][0] == "aten::conv" and "wino" not in {row[0] for row in differs.rows}


def test_calls_whose_kernels_have_rows_of_their_own_do_not_count() -> None:
    rows = on_device(diff(convolutions(["old", "old", "same"], 1, count=1), convolutions(
        ["new", "other", "same"], 2, count=1)))
    assert (rows["aten::conv"]["launches_a"], rows["aten::conv"]["launches_b"]) == (2.0, 2.0)
    assert rows["aten::conv"]["launch_us_a"] == pytest.approx(100, rel=0.02) and rows["same"]["verdict"] is not None


def test_calls_of_one_step_are_the_samples_of_their_operator() -> None:
    calls = ["old"] * 12, ["new", "other"] * 6
    runs = convolutions(calls[0], 1, count=1), convolutions(calls[1], 2, us=120, count=1)
    row = on_device(diff(*runs))["aten::conv"]
    assert (row["verdict"], row["launches_b"]) == ("slower", 12.0)
    assert row["delta_ms"] == pytest.approx(0.24, rel=0.05)
    (confidence, *_) = suspect_sections(row, runs, Options())
    assert ("samples", "12 and 12 calls a step: they spread less than steps do") in confidence.rows
    assert 0.2 < row["ci_low_ms"] < row["delta_ms"] < row["ci_high_ms"] < 0.28


def test_the_row_opens_into_its_kernels_and_its_details_list_them() -> None:
    runs = convolutions(BEFORE, 1), convolutions(AFTER, 2)
    table = diff(*runs)
    names = [row[0] for row in table.window(0, len(table))]
    row = next(table.row_id(at) for at, name in enumerate(names) if name == "aten::conv")
    wider = opened(table, row, True)
    assert wider is not None and len(wider) == len(table) + 3
    at = wider.position(row)
    assert at is not None
    below = [wider.window(one, one + 1)[0][0] for one in range(at + 1, at + 4)]
    assert sorted(below) == ["fft", "implicit", "wino"]
    assert row_of(wider, row + 2) == row
    closed = opened(wider, row, False)
    assert closed is not None and closed.window(0, 99) == table.window(0, 99)
    assert opened(table, row, False) is None and opened(table, 0 if row else 1, True) is None
    (parts,) = [one for one in suspect_sections(on_device(table)["aten::conv"], runs, Options())
                if one.title.startswith("Parts")]
    assert {line[0]: line[1] for line in parts.rows} == {"fft": "0 → 3", "implicit": "1 → 0", "wino": "3 → 1"}


def test_a_ticket_marks_the_parts_of_a_row() -> None:
    text = render(unfolded(diff(convolutions(BEFORE, 1), convolutions(AFTER, 2))), "md").decode()
    assert {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| └")} == {
        "└ `wino`", "└ `fft`", "└ `implicit`"}


def test_exports_have_the_row_and_its_parts_with_its_id_and_no_verdict() -> None:
    table = unfolded(diff(convolutions(BEFORE, 1), convolutions(AFTER, 2)))
    (text,) = csv.pieces([table])
    assert b"aten::conv" in text and b"implicit" in text
    ids = {row["function"]: one for row, one in zip(table.frame.to_dicts(), table.row_ids(0, len(table)), strict=True)
           if row["device"] == "GPU 0"}
    rows = on_device(table)
    assert (rows["aten::conv"]["match"], rows["aten::conv"]["parent"]) == ("operator", None)
    assert {(rows[name]["parent"], rows[name]["verdict"]) for name in ("wino", "fft", "implicit")} == {
        (ids["aten::conv"], None)}
