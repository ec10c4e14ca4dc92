"""FLOPs against those of ``torch.utils.flop_counter``, and every difference that is on purpose.

PyTorch need not be installed: its formulas, which look at shapes alone, are restated here. Where it is, a second test
holds the restated ones against the real ones.
"""

from __future__ import annotations

import random
from collections import Counter
from math import prod
from typing import Any

import pytest
from test_operators import counted, generated, seen_by_loop

Shape = list[int]


def product(a: Shape, b: Shape) -> int:
    """``mm_flop`` and ``bmm_flop``."""
    return 2 * prod(a[:-2]) * a[-2] * a[-1] * b[-1]


def convolution(x: Shape, w: Shape, out: Shape, transposed: bool) -> int:
    """``conv_flop_count``."""
    return 2 * x[0] * prod((x if transposed else out)[2:]) * prod(w)


def turned(shape: Shape) -> Shape:
    return [shape[1], shape[0], *shape[2:]]


def convolution_backward(grad: Shape, x: Shape, w: Shape, mask: tuple[bool, bool]) -> int:
    """``conv_backward_flop`` of a convolution that is not transposed."""
    flops = convolution(grad, w, x, True) if mask[0] else 0
    return flops + (convolution(turned(x), turned(grad), turned(w), False) if mask[1] else 0)


def attention(q: Shape, k: Shape, v: Shape, products: tuple[int, int]) -> int:
    """``sdpa_flop_count`` (1, 1 products of either depth) and ``sdpa_backward_flop_count`` (3, 2)."""
    return 2 * q[0] * q[1] * q[2] * k[2] * (products[0] * q[3] + products[1] * v[3])


def published(name: str, arguments: tuple[Any, ...]) -> tuple[int, dict[str, int]]:
    """What flop_counter counts, and by how much we differ on purpose, by reason."""
    shapes = [one[0] if isinstance(one, tuple) else None for one in arguments]
    if name in ("aten::mm", "aten::bmm"):
        return product(shapes[0], shapes[1]), {}
    if name in ("aten::addmm", "aten::baddbmm"):
        return product(shapes[1], shapes[2]), {"bias": prod(shapes[1][:-1]) * shapes[2][-1]}
    if name == "aten::linear":  # decomposed into addmm there
        x, w, _ = shapes
        return product([prod(x[:-1]), x[-1]], turned(w)), {"bias": prod(x[:-1]) * w[0]}
    if name == "aten::convolution_backward":
        grad, x, w = shapes[:3]
        mask, groups = str(arguments[10]), int(str(arguments[9]))
        both = mask.split(",")[0] == "[True", mask.split(",")[1].strip() == "True"
        weights = 2 * prod(grad) * prod(w[1:]) if both[1] else 0
        return convolution_backward(grad, x, w, both), {"bias": prod(grad), "groups": -(groups - 1) * weights}
    if name == "aten::convolution":
        x, w, bias = shapes[:3]
        step, pad = (int(str(arguments[at]).strip("[]").split(",")[0]) for at in (3, 4))
        turn = arguments[6] == "True"
        out = [x[0], w[0], *((size + 2 * pad - width) // step + 1 for size, width in zip(x[2:], w[2:], strict=True))]
        return convolution(x, w, out, turn), {"bias": prod(out)} if bias else {}
    back = name.endswith("backward")
    q, k, v = shapes[1:4] if back else shapes[:3]
    causal = arguments[11 if back else 4] == "True"
    products = (3, 2) if back else (1, 1)
    whole = attention(q, k, v, products)
    if not causal:
        return whole, {}
    return whole, {"causal": whole // (q[2] * k[2]) * seen_by_loop(q[2], k[2], False) - whole}


def test_three_hundred_calls_differ_from_flop_counter_only_where_we_mean_to() -> None:
    chance, reasons = random.Random(2026), Counter[str]()
    for _ in range(300):
        name, arguments, _, _ = generated(chance)
        flops, differences = published(name, arguments)
        assert counted(name, *arguments)[0] == flops + sum(differences.values()), (name, arguments)
        reasons.update([reason for reason, value in differences.items() if value] or ["none"])
    assert set(reasons) == {"none", "bias", "causal", "groups"} and reasons["none"] > 80


def test_the_restated_formulas_are_those_of_the_installed_torch() -> None:
    counter = pytest.importorskip("torch.utils.flop_counter")
    x, w, grad = [2, 6, 9, 9], [4, 3, 3, 3], [2, 4, 7, 7]
    q, k, v = [2, 4, 5, 8], [2, 4, 7, 8], [2, 4, 7, 6]
    assert product([3, 5], [5, 7]) == counter.mm_flop([3, 5], [5, 7])
    assert product([2, 3, 5], [2, 5, 7]) == counter.bmm_flop([2, 3, 5], [2, 5, 7])
    assert convolution(x, w, grad, False) == counter.conv_flop_count(x, w, grad)
    assert convolution(grad, w, x, True) == counter.conv_flop_count(grad, w, x, transposed=True)
    assert attention(q, k, v, (1, 1)) == counter.sdpa_flop_count(q, k, v)
    assert attention(q, k, v, (3, 2)) == counter.sdpa_backward_flop_count([2, 4, 5, 6], q, k, v)
    for mask in ((True, True), (True, False), (False, True)):
        real = counter.conv_backward_flop(grad, x, w, None, 1, 0, 1, False, 0, 1, mask, out_val=(x, w))
        assert convolution_backward(grad, x, w, mask) == real
