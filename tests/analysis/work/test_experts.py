"""Mixture-of-experts layers whose weights are no arguments have the work that the operators below them tell."""

from __future__ import annotations

from typing import Any

import pytest
from runs import host, kernel
from test_roofline import HALF, call, op, rows, run

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view as roofline
from warplens.loaders.trace import Trace

LAYER = [[10, 64], [10, 8], [], []]
GATED = "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_swiGlu_dynBatch_sm100f"


def layer(below: list[tuple[str, Any, Any, Any]], kernels: tuple[str, ...]) -> Trace:
    """A layer of ten tokens, 64 wide, and eight experts, which calls these operators and launches these kernels."""
    hosts = [op("vllm::moe_forward", 0, 900, 1, LAYER, [HALF, HALF, "", ""]),
             host("forward_impl", 1, 890, "python")]
    hosts += [op(name, 10 * at + 2, 5, 2 + at, shapes, types, inputs)
              for at, (name, shapes, types, inputs) in enumerate(below)]
    hosts += [call(600 + 10 * at, at + 1) for at in range(len(kernels))]
    return run(hosts, [kernel(at, 1000 * (at + 1), 500, name, correlation=at + 1) for at, name in enumerate(kernels)])


def view(*sizes: int) -> tuple[str, Any, Any, Any]:
    return "aten::view", [[99], []], ["unsigned char", "ScalarList"], ["", str(list(sizes))]


def made(*sizes: int) -> tuple[str, Any, Any, Any]:
    return "aten::empty", [[], []], ["ScalarList", "Scalar"], [str(list(sizes)), "15"]


CHOICE = ("TopK", [[10, 8], [], []], [HALF, "Scalar", "Scalar"], ["", "2", "True"])


def test_views_of_the_weights_and_the_choice_tell_the_products_of_triton_kernels() -> None:
    # 64 → 2·48 columns, 48 → 64; two values per byte; ten tokens through two experts each
    made_run = layer([CHOICE, view(8, 32, 96), view(8, 24, 64)], ("_topk_forward", "_matmul_ogs_mxfp4_swiglu"))
    [row] = rows(made_run)
    weights = 64 * 96 + 48 * 64
    assert (row["op"], row["calls"], row["device_ns"]) == ("vllm::moe_forward", 1, 1000)
    assert row["flops"] == 2 * 10 * 2 * weights == 368_640
    assert row["bytes"] == 2 * (10 * 64 * 2) + 2 * weights // 2
    assert row["dtype"] == "bf16"
    table = ask(roofline("roofline"), (made_run,), Options())
    assert any("Bytes of vllm::moe_forward are a lower bound" in note for note in table.notes)
    assert "or more of peak memory bandwidth" in table.summary[0]


def test_the_outputs_of_both_products_and_the_name_of_the_kernel_tell_those_of_flashinfer() -> None:
    # 20 rows padded to 32; 48 gated columns, so the first product has 96
    below = [made(10, 64), made(10, 2), made(10, 2), made(10, 64), made(32, 48), made(999), made(32, 64)]
    [row] = rows(layer(below, (GATED, "bmm_Bfloat16_MxE2m1MxE4m3_Fp32")))
    assert row["flops"] == 2 * 10 * 2 * (64 * 96 + 48 * 64) and row["dtype"] == "fp8"
    [row] = rows(layer(below, ("bmm_Bfloat16_Bfloat16Bfloat16_Fp32",)))
    assert row["flops"] is None


@pytest.mark.parametrize("below", [
    [],
    [CHOICE, view(8, 32, 96)],
    [view(8, 32, 96), view(8, 24, 64)],  # how many experts a token goes through
    [CHOICE, view(4, 32, 96), view(4, 24, 64)],  # half of the experts are elsewhere
    [CHOICE, view(8, 32, 80), view(8, 24, 64)],  # the second product does not take what the first gives
    [made(10, 2), made(16, 48), made(16, 64)],  # fewer rows than tokens times experts
    [made(10, 2), made(10, 3), made(32, 48), made(32, 64)],
])
def test_what_is_incomplete_or_contradicts_itself_has_no_work(below: list[tuple[str, Any, Any, Any]]) -> None:
    [row] = [row for row in rows(layer(below, (GATED,))) if row["op"] == "vllm::moe_forward"]
    assert row["flops"] is None and row["bytes"] is None
