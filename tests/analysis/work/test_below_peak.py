"""What runs far below its peak, and what the replay says another way would win at most per step."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from runs import host, kernel, run_of, steps
from test_roofline import H100, HALF, op

from warplens.analysis.contract.options import Options
from warplens.analysis.findings.evidence.below_peak import Below
from warplens.analysis.findings.rules import RULES
from warplens.analysis.query.ask import ask
from warplens.analysis.table.filters import Filter
from warplens.analysis.views import view
from warplens.loaders import schema
from warplens.loaders.trace import Trace

STEP = 2_000_000
SCORES, VALUES = [[64, 512, 64], [64, 64, 512]], [[64, 512, 512], [64, 512, 64]]
Part = tuple[str, Any, list[str], int, str]


def looped(parts: list[Part], count: int = 4, beside: str = "") -> Trace:
    """Steps that launch these operators one after the other and wait for the device: (operator, shapes, types, ns,
    kernel) each. The kernel ``beside`` runs on another stream and ends before the others."""
    hosts: list[dict[str, Any]] = []
    kernels: list[dict[str, Any]] = []
    for step in range(count):
        start, free = step * STEP, step * STEP + 20_000
        for at, (name, shapes, types, took, called) in enumerate(parts):
            number, begin = len(kernels) + 1, start + 10_000 * at
            hosts += [op(name, begin, 9_000, number, shapes, types),
                      host("cudaLaunchKernel", begin + 1_000, 5_000, "runtime", correlation=number)]
            if called == beside:
                kernels.append(kernel(len(kernels), begin + 9_000, took, called, correlation=number, op_id=number,
                                      stream=8))
                continue
            free = max(free, begin + 9_000)
            kernels.append(kernel(len(kernels), free, took, called, correlation=number, op_id=number, stream=7))
            free += took
        wait = start + 10_000 * len(parts)
        hosts.append(host("cudaDeviceSynchronize", wait, free - wait + 5_000, "runtime", correlation=10_000 + step))
    run = run_of(host=hosts, kernels=kernels, cycles=steps(*[STEP] * count))
    return replace(run, info=replace(run.info, devices=(H100,)))


def findings(run: Trace) -> dict[str, dict[str, Any]]:
    return {one["rule"]: one for one in ask(view("overview"), (run,), Options()).facts["rules"]}


def test_attention_written_out_says_how_far_its_products_are_from_their_peak_and_what_fusing_it_wins() -> None:
    parts: list[Part] = [
        ("aten::bmm", SCORES, [HALF, HALF], 400_000, "gemm_a"),
        ("aten::_softmax", [[1, 64, 512, 512], [], []], [HALF, "Scalar", "Scalar"], 300_000, "softmax"),
        ("aten::bmm", VALUES, [HALF, HALF], 400_000, "gemm_b"),
    ]
    found = findings(looped(parts))["eager attention"]
    each = 2 * 64 * 512 * 512 * 64 / 989.4e12 * 1e9
    assert found["time_to_win_ns"] == pytest.approx(1_100_000 - 2 * each, abs=30_000)  # launches take their time
    assert "aten::bmm runs at" in found["sentence"] and "100% of the GPU time" in found["sentence"]
    assert "fused, a step takes 9" in found["sentence"] and "instead of 2.00 ms at best" in found["sentence"]
    one_step = findings(looped(parts, count=1))["eager attention"]["sentence"]
    assert "a step takes" in one_step


def test_a_softmax_of_something_else_is_no_attention() -> None:
    parts: list[Part] = [
        ("aten::bmm", SCORES, [HALF, HALF], 400_000, "gemm_a"),
        ("aten::_softmax", [[64, 1000], [], []], [HALF, "Scalar", "Scalar"], 300_000, "softmax"),
    ]
    assert "eager attention" not in findings(looped(parts))


def test_a_norm_in_passes_wins_the_passes_that_a_fused_one_has_not() -> None:
    rows, n = [[4096, 4096]], [HALF]
    parts: list[Part] = [
        ("aten::pow", [*rows, []], [*n, "Scalar"], 200_000, "pow"),
        ("aten::mean", [*rows, [], [], []], [*n, "ScalarList", "Scalar", ""], 200_000, "mean"),
        ("aten::rsqrt", [[4096, 1]], n, 50_000, "rsqrt"),
        ("aten::mul", [*rows, [4096, 1]], [HALF, HALF], 500_000, "mul"),
    ]
    assert findings(looped(parts))["unfused normalisation"]["time_to_win_ns"] == pytest.approx(450_000, abs=40_000)


def test_products_smaller_than_the_device_and_fp32_where_tf32_is_there() -> None:
    parts: list[Part] = [("aten::mm", [[64, 4096], [4096, 64]], ["float", "float"], 900_000, "ampere_sgemm_64x64_nn")]
    found = findings(looped(parts))
    assert "Small GEMMs: they take 100%" in found["small products"]["sentence"]
    assert found["fp32"]["time_to_win_ns"] == pytest.approx(900_000, rel=0.02)


def test_fp32_products_that_nobody_waits_for_are_no_finding() -> None:
    parts: list[Part] = [
        ("aten::mm", [[64, 4096], [4096, 64]], ["float", "float"], 400_000, "ampere_sgemm_64x64_nn"),
        ("aten::relu", [[4096, 4096]], [HALF], 900_000, "relu"),
    ]
    assert findings(looped(parts))["fp32"]["time_to_win_ns"] > 300_000
    assert "fp32" not in findings(looped(parts, beside="ampere_sgemm_64x64_nn"))


def test_adam_in_passes_wins_what_one_pass_does_not_take() -> None:
    lists = [[[4096, 4096]] * 4] * 3
    parts: list[Part] = [
        (f"aten::_foreach_{name}_", lists, ["TensorList"] * 3, 300_000,
         f"multi_tensor_apply_kernel<at::native::TensorListMetadata<3>, float, {name}>")
        for name in ("mul", "lerp", "addcmul", "addcdiv")
    ]
    found = findings(looped(parts))["unfused optimiser"]
    fused = 4 * 4096**2 * 4 * 7 / 3.352e12 * 1e9
    assert found["time_to_win_ns"] == pytest.approx(1_200_000 - fused, abs=40_000)


def test_every_filter_of_these_rules_is_one_of_the_roofline() -> None:
    parts: list[Part] = [("aten::mm", [[64, 64], [64, 64]], [HALF, HALF], 1_000, "gemm")]
    table = ask(view("roofline"), (looped(parts),), Options())
    filters = [rule.filter for rule in RULES if rule.view == "roofline" and rule.filter]
    assert len(filters) == 5 and all(table.filtered(Filter(one)) is not None for one in filters)


def test_copies_of_the_same_type_and_shape_are_of_the_layout_and_others_are_not() -> None:
    same: list[Part] = [("aten::copy_", [[4096, 4096], [4096, 4096], []], [HALF, HALF, "Scalar"], 900_000, "copy")]
    cast: list[Part] = [("aten::copy_", [[4096, 4096], [4096, 4096], []], [HALF, "float", "Scalar"], 900_000, "copy")]
    assert "layout copies" in findings(looped(same)) and "layout copies" not in findings(looped(cast))


def test_what_nobody_waits_for_wins_nothing_and_is_no_finding() -> None:
    rows: list[Part] = [("aten::copy_", [[64], [64], []], [HALF, HALF, "Scalar"], 3_000, "copy")]
    assert "layout copies" not in findings(looped(rows))


def test_the_utilisation_is_of_a_step() -> None:
    parts: list[Part] = [("aten::mm", [[4096, 4096], [4096, 4096]], [HALF, HALF], 1_000_000, "gemm")]
    (row,) = findings(looped(parts))["utilisation"]["rows"]
    assert row["flops_per_cycle"] == 2 * 4096**3
    assert row["mfu"] == pytest.approx(2 * 4096**3 / 989.4e12 * 1e9 / STEP, rel=0.01)


def test_what_share_of_the_time_has_known_work_is_said_to_leave_collectives_out() -> None:
    run = looped([("aten::mm", [[4096, 4096], [4096, 4096]], [HALF, HALF], 1_000_000, "gemm")])
    gathers = [kernel(10 + at, at * STEP, STEP, "ncclDevKernel_AllGather", stream=9) | {"kind": "collective"}
               for at in range(4)]
    busy = run.with_tables(kernels=pl.concat([
        run.kernels, schema.conform("kernels", pl.DataFrame(gathers, infer_schema_length=None).lazy())]))
    assert findings(busy)["utilisation"]["sentence"].endswith(
        "known for 100% of the kernel time outside collectives.")
    assert "work known for 100.0% of device time without collectives" in ask(
        view("roofline"), (busy,), Options()).summary[-1]


def test_of_a_run_without_a_replay_only_what_loses_much_of_the_steps_is_said() -> None:
    small = Below(43_000, 0.05, "aten::bmm", 0.001, "float peak", 42_000, None, None, 0)
    assert not small.worth_saying(13_840_000) and small.worth_saying(1_000_000)
