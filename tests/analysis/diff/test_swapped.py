"""Kernels swapped under one operator are one row that opens into them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from runs import host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.details.suspects import suspect_sections
from warplens.analysis.diff.verdict.gate import gate
from warplens.analysis.diff.verdict.gate_rule import Condition
from warplens.analysis.query.ask import ask
from warplens.analysis.table.export import csv
from warplens.analysis.table.parts import opened, row_of
from warplens.analysis.table.table import Table
from warplens.analysis.views.diff import VIEW
from warplens.loaders.trace import Trace

BEFORE, AFTER = ["wino", "wino", "wino", "implicit"], ["wino", "fft", "fft", "fft"]


def convolutions(
    kernels: list[str], seed: int, *, us: float = 100.0, op: str = "aten::conv", ops: list[str] | None = None,
    count: int = 10,
) -> Trace:
    """Cycles in which one operator is called once for each of these kernels, and another one for a norm."""
    draw = np.random.default_rng(seed)
    slices: list[dict[str, Any]] = []
    activities = []
    under = zip(ops or [op] * len(kernels), kernels, strict=True)
    calls = [*((operator, name, us) for operator, name in under), ("aten::norm", "norm", 800.0)]
    for cycle in range(count):
        for place, (operator, name, taken) in enumerate(calls):
            at, number = cycle * 2_000_000 + place * 300_000, cycle * len(calls) + place + 1
            slices += [host(operator, at, 8_000),
                       host("cudaLaunchKernel", at + 1_000, 2_000, "runtime", correlation=number)]
            dur = round(taken * 1e3 * float(np.exp(draw.normal(0, 0.003))))
            activities.append(kernel(number - 1, at + 5_000, dur, name, correlation=number, pid=1))
    return run_of("made", host=slices, kernels=activities, cycles=steps(*[2_000_000] * count))


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


def test_exports_have_the_row_and_not_its_parts() -> None:
    (text,) = csv.pieces([diff(convolutions(BEFORE, 1), convolutions(AFTER, 2))])
    assert b"aten::conv" in text and b"implicit" not in text


def test_of_single_steps_the_calls_of_the_operator_are_the_samples() -> None:
    table = diff(convolutions(BEFORE, 1, count=1), convolutions(AFTER, 2, us=130, count=1))
    rows = on_device(table)
    assert set(rows) == {"aten::conv", "norm"}
    row = rows["aten::conv"]
    assert (row["kind"], row["verdict"], row["parts"], row["launches_a"]) == ("op", "slower", 3, 4.0)
    assert (row["a_ms"], row["b_ms"]) == (pytest.approx(0.4, rel=0.01), pytest.approx(0.52, rel=0.01))
    assert row["launch_us_b"] == pytest.approx(130, rel=0.01)
    (work,) = table.facts["work"]
    assert (work["busy_a_ms"], work["busy_b_ms"]) == (pytest.approx(1.2, rel=0.01), pytest.approx(1.32, rel=0.01))


def test_operators_that_share_a_swapped_kernel_are_one_row() -> None:
    ops = ["aten::mm", "aten::mm", "aten::addmm", "aten::addmm"]
    a = convolutions(["tile_a", "tile_a", "tile_b", "tile_b"], 1, ops=ops, count=1)
    b = convolutions(["tile_c"] * 4, 2, ops=ops, count=1)
    rows = on_device(diff(a, b))
    assert set(rows) == {"aten::addmm and aten::mm", "norm"}
    assert rows["aten::addmm and aten::mm"]["verdict"] == "~"
    elsewhere = convolutions(["tile_c"] * 4, 2, ops=[*ops[:3], "aten::other"], count=1)
    assert "tile_c" in on_device(diff(a, elsewhere))  # an operator of B alone: nothing was only swapped
