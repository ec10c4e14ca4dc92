"""Functions under new names: one where kind, frequency and place agree, two where anything is unclear."""

from __future__ import annotations

from typing import Any

import pytest
from runs import host, kernel, run_of, steps

from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.views.diff import VIEW
from warplens.loaders.trace import Trace

Launch = tuple[str, str]
"""Operator and kernel."""
STEP = [("mm", "ampere_gemm"), ("norm", "rms"), ("mm", "ampere_gemm"), ("softmax", "warp_softmax"), ("add", "plus")]
DUR = 10_000


def trace(launches: list[Launch], device: str = "GPU 0", cycles: int = 8) -> Trace:
    """Cycles of these launches in this order, each by a call inside its operator."""
    slices: list[dict[str, Any]] = []
    kernels = []
    for cycle in range(cycles):
        for place, (op, name) in enumerate(launches):
            at, number = cycle * 1_000_000 + place * 20_000, cycle * len(launches) + place + 1
            slices.append(host(op, at, 8_000))
            slices.append(host("cudaLaunchKernel", at + 1_000, 2_000, kind="runtime", correlation=number))
            dur = DUR + 37 * (number * 7 % 11)
            kernels.append(kernel(number - 1, at + 5_000, dur, name, device=device, correlation=number, pid=1))
    return run_of("made", host=slices, kernels=kernels, cycles=steps(*[1_000_000] * cycles))


def under(names: dict[str, str]) -> list[Launch]:
    return [(op, names.get(name, name)) for op, name in STEP]


def pairs(table: Table) -> dict[str, str]:
    return {row["function"]: row["function_b"] for row in table.frame.to_dicts() if row["function_b"]}


def verdicts(table: Table) -> dict[str, str]:
    return {row["function"]: row["verdict"] for row in table.frame.to_dicts() if row["device"] != "Host"}


@pytest.mark.parametrize("device", ["GPU 0", "GPU 3"])
def test_the_same_operator_at_the_same_place_is_the_same_function_under_another_name(device: str) -> None:
    table = ask(VIEW, (trace(STEP), trace(under({"warp_softmax": "online_smax"}), device)))
    assert pairs(table) == {"warp_softmax": "online_smax"}
    assert set(verdicts(table).values()) == {"~"}
    assert {row["match"] for row in table.frame.to_dicts() if row["function"] == "warp_softmax"} == {"replaced"}


def test_the_place_decides_before_the_name() -> None:
    a = [("mm", "gemm_64x5"), ("add", "bias_kernel"), ("norm", "rms"), ("softmax", "soft")]
    b = [("mm", "fused_tile"), ("add", "gemm_64x6"), ("norm", "rms"), ("softmax", "soft")]
    assert pairs(ask(VIEW, (trace(a), trace(b)))) == {"gemm_64x5": "fused_tile", "bias_kernel": "gemm_64x6"}


def test_another_place_in_the_cycle_is_another_function() -> None:
    b = [("softmax", "online_smax"), *(one for one in STEP if one[0] != "softmax")]
    assert pairs(ask(VIEW, (trace(STEP), trace(b)))) == {}


def test_another_frequency_is_another_function() -> None:
    b = [*under({"ampere_gemm": "hopper"})[:2], *under({})[3:]]
    assert pairs(ask(VIEW, (trace(STEP), trace(b)))) == {}


def test_two_candidates_beside_each_other_are_left_alone() -> None:
    many: list[Launch] = [("norm", "rms")] * 40
    a, b = [*many, ("mm", "whole"), *many], [*many, ("mm", "part"), ("mm", "rest"), *many]
    table = ask(VIEW, (trace(a), trace(b)))
    assert pairs(table) == {}
    assert {name: verdicts(table)[name] for name in ("whole", "part", "rest")} == {
        "whole": "gone", "part": "new", "rest": "new",
    }


def test_without_operators_the_place_decides_alone() -> None:
    a, b = (trace(under({"warp_softmax": name})) for name in ("soft_64x5", "soft_64x6"))
    c = trace([*under({})[:3], ("add", "plus"), ("softmax", "unlike")])
    bare = [run_of("made", **{
        name: [row for row in run.table(name).collect().to_dicts() if row.get("kind") != "op"]
        for name in ("kernels", "host", "cycles")
    }) for run in (a, b, c)]
    assert pairs(ask(VIEW, (bare[0], bare[1]))) == {"soft_64x5": "soft_64x6"}
    assert pairs(ask(VIEW, (bare[0], bare[2]))) == {}


def test_a_kernel_of_an_operator_of_both_runs_is_not_replaced_by_what_another_operator_launches() -> None:
    """On MI300X a fill of 4 µs stands where the H100 runs its attention kernel."""
    a = [("mm", "gemm"), ("attention", "flash_fwd"), ("pad", "pad_kernel"), ("add", "plus")]
    b = [("mm", "gemm"), ("fill_", "fill_kernel"), ("attention", "attn_fwd"), ("add", "plus")]
    assert "fill_kernel" not in pairs(ask(VIEW, (trace(a), trace(b)))).values()


def test_where_no_launch_is_common_nothing_is_replaced() -> None:
    runs = (run_of("a", kernels=[kernel(0, 0, 3_510_000, "linears")]),
            run_of("b", kernels=[kernel(0, 0, 7_000, "gemv")]))
    table = ask(VIEW, runs)
    assert {row["function"]: row["verdict"] for row in table.frame.to_dicts()} == {"linears": "gone", "gemv": "new"}
    assert table.facts["same_work"]["answer"] == "unknown"
