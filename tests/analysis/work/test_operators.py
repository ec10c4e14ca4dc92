"""Work of operators from recorded arguments: against formulas written out by hand, and against bad input."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.work.arguments import Contradiction, Unknown, call_of, literal
from warplens.analysis.work.formulas import Cost, pairs
from warplens.analysis.work.operators import TABLE, work_of

HALF, SINGLE = "c10::BFloat16", "float"


def cost(name: str, *arguments: Any) -> Cost:
    """The work of a call: a (shape, type) for a tensor, a list of those, a text for a value, None for nothing."""
    shapes: list[Any] = []
    types, inputs = [], []
    for one in arguments:
        tensor, several = isinstance(one, tuple), isinstance(one, list)
        shapes.append(one[0] if tensor else [shape for shape, _ in one] if several else [])
        types.append(one[1] if tensor else "TensorList" if several else "" if one is None else "Scalar")
        inputs.append(one if isinstance(one, str) else "")
    call = call_of(name, json.dumps(shapes), json.dumps(types), json.dumps(inputs))
    assert call is not None
    lists = [one for one in arguments if isinstance(one, list)]
    if lists:
        call = call.of_elements(lists[0][0][1])
    work = work_of(call)
    assert work is not None
    return work


def counted(name: str, *arguments: Any) -> tuple[int, int]:
    work = cost(name, *arguments)
    return work.flops, work.bytes


def seen_by_loop(queries: int, keys: int, bottom: bool) -> int:
    """Pairs of a causal mask, one by one: PyTorch's diagonal is at the first key, flash-attn's at the last."""
    shift = keys - queries if bottom else 0
    return sum(key <= query + shift for query in range(queries) for key in range(keys))


@given(st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_a_causal_mask_allows_as_many_pairs_as_a_loop_counts(queries: int, keys: int, bottom: bool) -> None:
    assert pairs(queries, keys, True, bottom) == seen_by_loop(queries, keys, bottom)
    assert pairs(queries, keys, False, bottom) == queries * keys


def _outputs(sizes: list[int], kernel: list[int], stride: int, padding: int) -> list[int]:
    """Places at which a kernel fits, one by one."""
    return [sum(start + width <= size + 2 * padding for start in range(0, size + 2 * padding, stride))
            for size, width in zip(sizes, kernel, strict=True)]


def generated(chance: random.Random) -> tuple[str, tuple[Any, ...], int, int]:
    """A call, its FLOPs by a formula of its own, and its bytes."""
    b, m, n, k = (chance.randint(1, 64) for _ in range(4))
    kind = chance.choice("mm addmm bmm baddbmm linear conv conv_t conv_back sdpa sdpa_back".split())
    if kind == "mm":
        return "aten::mm", (([m, k], HALF), ([k, n], HALF)), 2 * m * k * n, 2 * (m * k + k * n + m * n)
    if kind == "addmm":
        return ("aten::addmm", (([n], SINGLE), ([m, k], SINGLE), ([k, n], SINGLE), "1", "1"),
                2 * m * k * n + m * n, 4 * (n + m * k + k * n + m * n))
    if kind == "bmm":
        return ("aten::bmm", (([b, m, k], HALF), ([b, k, n], HALF)), b * 2 * m * n * k,
                2 * b * (m * k + k * n + m * n))
    if kind == "baddbmm":
        return ("aten::baddbmm", (([b, m, n], HALF), ([b, m, k], HALF), ([b, k, n], HALF), "1", "1"),
                b * m * n * (2 * k + 1), 2 * b * (m * n + m * k + k * n + m * n))
    if kind == "linear":
        return ("aten::linear", (([b, m, k], HALF), ([n, k], HALF), ([n], HALF)), b * m * n * (2 * k + 1),
                2 * (b * m * k + n * k + n + b * m * n))
    if kind.startswith("conv"):
        groups, stride, padding = chance.choice([1, 2, 4]), chance.randint(1, 3), chance.randint(0, 2)
        inputs, outputs = groups * chance.randint(1, 5), groups * chance.randint(1, 5)
        kernel = [chance.randint(1, 3), chance.randint(1, 3)]
        image = [chance.randint(3, 12), chance.randint(3, 12)]
        out = _outputs(image, kernel, stride, padding)
        x, y = b * inputs * image[0] * image[1], b * outputs * out[0] * out[1]
        window = kernel[0] * kernel[1]
        values = (f"[{stride}, {stride}]", f"[{padding}, {padding}]", "[1, 1]")
        if kind == "conv":
            return ("aten::convolution",
                    (([b, inputs, *image], SINGLE), ([outputs, inputs // groups, *kernel], SINGLE), ([outputs], SINGLE),
                     *values, "False", "[0, 0]", str(groups)),
                    y * (2 * window * (inputs // groups) + 1),
                    4 * (x + outputs * (inputs // groups) * window + outputs + y))
        if kind == "conv_t":
            grown = [(size - 1) * stride - 2 * padding + width for size, width in zip(image, kernel, strict=True)]
            if min(grown) < 1:
                return generated(chance)
            return ("aten::convolution",
                    (([b, inputs, *image], SINGLE), ([inputs, outputs // groups, *kernel], SINGLE), None,
                     *values, "True", "[0, 0]", str(groups)),
                    2 * x * (outputs // groups) * window,
                    4 * (x + inputs * (outputs // groups) * window + b * outputs * grown[0] * grown[1]))
        both = chance.choice([(True, True), (True, False), (False, True)])
        w = outputs * (inputs // groups) * window
        return ("aten::convolution_backward",
                (([b, outputs, *out], SINGLE), ([b, inputs, *image], SINGLE), ([outputs, inputs // groups, *kernel],
                                                                              SINGLE),
                 f"[{outputs}]", *values, "False", "[0, 0]", str(groups), f"[{both[0]}, {both[1]}, True]"),
                2 * y * window * (inputs // groups) * sum(both) + y, 4 * (y + (x + w) * sum(both) + outputs))
    heads, queries, keys, depth, wide = (chance.randint(1, 24) for _ in range(5))
    causal = chance.random() < 0.5
    allowed = seen_by_loop(queries, keys, False) if causal else queries * keys
    tensors = [([b, heads, queries, depth], HALF), ([b, heads, keys, depth], HALF), ([b, heads, keys, wide], HALF)]
    every = 2 * b * heads * (queries * depth + keys * depth + keys * wide + queries * wide)
    if kind == "sdpa":
        return ("aten::_scaled_dot_product_flash_attention", (*tensors, "0.", str(causal), "False", "0.125"),
                2 * b * heads * allowed * (depth + wide), every)
    output = ([b, heads, queries, wide], HALF)
    return ("aten::_scaled_dot_product_flash_attention_backward",
            (output, *tensors, output, ([b, heads, queries], SINGLE), None, None, "0", "0", "0.", str(causal)),
            2 * b * heads * allowed * (3 * depth + 2 * wide), 2 * every)


def test_three_hundred_calls_have_the_work_their_formulas_say() -> None:
    chance = random.Random(35)
    seen = set()
    for _ in range(300):
        name, arguments, flops, moved = generated(chance)
        seen.add(name)
        assert counted(name, *arguments) == (flops, moved), (name, arguments)
    assert len(seen) == 9


def test_a_product_into_an_output_has_no_bias_and_the_output_s_type() -> None:
    assert counted("aten::mm", ([8, 4], HALF), ([4, 2], HALF), ([8, 2], SINGLE)) == (128, 2 * 40 + 4 * 16)


def test_lists_count_by_their_lengths_and_by_the_type_their_kernels_name() -> None:
    parameters = [([3, 5], SINGLE), ([7], SINGLE)]
    lists = [parameters] * 4
    assert counted("aten::_foreach_add_", parameters, parameters, "1") == (22, 4 * 22 * 3)
    assert counted("aten::_fused_adamw_", *lists, None, None) == (14 * 22, 4 * 22 * 7)
    assert counted("aten::_fused_sgd_", parameters, parameters, None) == (2 * 22, 4 * 22 * 3)
    assert counted("aten::_fused_sgd_", parameters, parameters, parameters) == (4 * 22, 4 * 22 * 5)


def test_a_lookup_moves_the_rows_it_takes_and_not_the_table() -> None:
    taken = 2 * 6 * 16 * 4 + 6 * 8
    assert counted("aten::index_select", ([50257, 16], SINGLE), "0", ([6], "long int")) == (0, taken)
    assert counted("aten::embedding", ([50257, 16], SINGLE), ([6], "long int")) == (0, taken)


def test_a_copy_computes_nothing_and_a_comparison_writes_bytes() -> None:
    assert counted("aten::copy_", ([4, 4], SINGLE), ([4, 4], HALF), "False") == (0, 16 * 6)
    assert counted("aten::eq", ([4, 4], SINGLE), ([4, 1], SINGLE)) == (16, 4 * 20 + 16)
    assert counted("aten::add_", ([8], HALF), ([8], HALF), "1") == (8, 3 * 16)


def test_a_fused_kernel_that_only_converts_moves_all_elements_and_computes_nothing() -> None:
    name = "triton_poi_fused__to_copy_12"
    assert counted(name, ([32, 4], SINGLE), ([32, 4], HALF), "128") == (0, 128 * 6)
    for arguments in ((([32, 4], SINGLE), ([32, 4], HALF), "64"),  # a part of them
                      (([32, 4], SINGLE), ([32, 4], SINGLE), "128"),  # perhaps in place
                      (([32, 4], SINGLE), ([32, 4], HALF), ([4], HALF), "128")):
        with pytest.raises(Unknown):
            cost(name, *arguments)
    assert work_of(call_of("triton_poi_fused__to_copy_add_12", "[]", "[]", "[]")) is None  # type: ignore[arg-type]


def test_rows_of_eight_bits_end_with_their_scale() -> None:
    assert counted("fbgemm::FloatToFP8RowwiseQuantized", ([3, 255], SINGLE), "True") == (765, 3 * (255 * 4 + 264))
    assert counted("fbgemm::FP8RowwiseQuantizedToFloat", ([3, 264], "unsigned char"), "True") == (768, 3 * (264 + 1024))
    assert counted("fbgemm::FloatToHFP8Quantized", ([10], SINGLE), "4", "7", "1.") == (10, 50)


def test_experts_compute_for_every_token_and_move_at_least_the_weights_one_token_needs() -> None:
    hidden, first, second = ([10, 32], HALF), ([8, 48, 32], HALF), ([8, 32, 24], HALF)
    flops, moved = counted(
        "vllm::inplace_fused_experts", hidden, first, second, ([10, 2], SINGLE), ([10, 2], "int"))
    assert flops == 2 * 10 * 2 * (48 * 32 + 32 * 24)
    assert moved == 2 * (2 * 10 * 32 + 2 * (48 * 32 + 32 * 24))


@pytest.mark.parametrize(("name", "arguments"), [
    ("aten::mm", (([2, 3], HALF), ([4, 5], HALF))),
    ("aten::mm", (([2, 3, 4], HALF), ([4, 5], HALF))),
    ("aten::bmm", (([2, 3, 4], HALF), ([3, 4, 5], HALF))),
    ("aten::add", (([2, 3], HALF), ([4], HALF))),
    ("aten::mm", (([1 << 40, 1 << 40], HALF), ([1 << 40, 1 << 40], HALF))),
    ("aten::mm", (([1 << 63, 2], HALF), ([2, 2], HALF))),
    ("aten::convolution", (([1, 3, 2, 2], HALF), ([4, 3, 9, 9], HALF), None, "[1]", "[0]", "[1]", "False", "[0]", "1")),
])
def test_shapes_that_contradict_the_operator_have_no_work(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(Contradiction):
        cost(name, *arguments)


@pytest.mark.parametrize(("name", "arguments"), [
    ("aten::convolution", (([1, 3, 8, 8], HALF), ([4, 3, 3, 3], HALF), None)),  # before PyTorch 2: no stride
    ("aten::_scaled_dot_product_flash_attention", (([1, 2, 8, 4], HALF),) * 3),  # causal or not
    ("aten::_flash_attention_forward", (*(([1, 8, 2, 4], HALF),) * 3, ([3], "int"), ([3], "int"))),  # lengths: values
    ("aten::cat", ([([2, 2], "")], "0")),  # the type of a list's elements
])
def test_work_that_hangs_on_values_nobody_recorded_is_not_known(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(Unknown):
        cost(name, *arguments)


def test_recorded_values_are_read_by_a_grammar_and_never_evaluated() -> None:
    assert [literal(text) for text in ("3", "-1", "True", "", "[1, 2]", "[True, False]", "0.", "1e-05", "(3,)")] == [
        3, -1, True, None, (1, 2), (True, False), 0.0, 1e-05, (3,)]
    hostile = "__import__('os').system('false')"
    assert literal(hostile) == hostile and literal(f"[{hostile}]") == f"[{hostile}]"
    assert literal("9" * 50) == "9" * 50 and literal(7) is None


@pytest.mark.parametrize("shapes", ["[[" * 50_000, "[[1e400]]", '[["a"]]', "[[-1]]", "[[1.5]]", f"[[{'9' * 5000}]]"])
def test_shapes_that_are_none_contradict(shapes: str) -> None:
    with pytest.raises(Contradiction):
        call_of("aten::mm", shapes, '["float"]', None)


@given(st.sampled_from(sorted(TABLE)), st.lists(st.tuples(
    st.lists(st.one_of(st.integers(0, 5), st.lists(st.integers(0, 4), max_size=3)), max_size=5),
    st.sampled_from(["float", HALF, "", "Scalar", "TensorList"]), st.sampled_from(["", "0", "[1]", "True", "x"])),
    max_size=12))
def test_any_arguments_give_work_or_a_reason(name: str, arguments: list[tuple[Any, str, str]]) -> None:
    shapes, types, inputs = (json.dumps([one[at] for one in arguments]) for at in range(3))
    try:
        call = call_of(name, shapes, types, inputs)
        work = work_of(call) if call is not None else None
    except (Unknown, Contradiction):
        return
    assert work is not None and work.flops >= 0 and work.bytes >= 0


def test_a_type_counts_however_it_is_capitalised() -> None:
    capital, small = (counted("aten::mm", ((8, 4), kind), ((4, 2), kind)) for kind in (HALF, HALF.lower()))
    assert small == capital == (128, 2 * (32 + 8 + 16))
