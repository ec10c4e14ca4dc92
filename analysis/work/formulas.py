"""Work of matrix products, convolutions and attention: FLOPs, and the least bytes, each input and the output once.

Bytes follow from shapes, never from strides: an expanded operand counts in full. A multiply-add is two FLOPs.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from .arguments import Call, Contradiction, Tensor, Unknown, require


class Cost(NamedTuple):
    """FLOPs and least bytes of one call, and the ``terms`` (sizes) of its formula.

    ``matrix``: whether matrix units can do it; ``type``: the recorded type of its operands.
    """

    flops: int
    bytes: int
    type: str
    matrix: bool = False
    terms: tuple[tuple[str, int], ...] = ()


Formula = Callable[[Call], Cost]
OUT_TYPES = {5: 2, 6: 4, 7: 8, 15: 2, 23: 1, 24: 1}
"""Bytes per element by PyTorch's number of the type: Half, Float, Double, BFloat16, two fp8."""


def product(
    a: Tensor, b: Tensor, sizes: tuple[int, int, int], batch: int = 1, bias: Tensor | None = None, out: int = 0
) -> Cost:
    """``batch`` products of M × K and K × N; ``out``: bytes per output element if they differ from those of ``a``."""
    m, n, k = sizes
    flops = batch * (2 * m * n * k + (m * n if bias is not None else 0))
    moved = batch * (m * k * a.size + k * n * b.size + m * n * (out or a.size))
    letters = (("B", batch),) if batch > 1 else ()
    return Cost(flops, moved + (bias.bytes if bias is not None else 0), a.type, True,
                (*letters, ("M", m), ("N", n), ("K", k)))


def matrices(left: int, batched: bool = False, bias: bool = False, out: int = 2) -> Formula:
    """``mm``, ``bmm``, ``addmm``, ``baddbmm``: operands from position ``left`` on, bias at 0, output at ``out``."""

    def work(call: Call) -> Cost:
        a, b = (call.tensor(at, 3 if batched else 2) for at in (left, left + 1))
        require(a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2])
        output = call.optional(out)
        return product(a, b, (a.shape[-2], b.shape[-1], a.shape[-1]), a.shape[0] if batched else 1,
                       call.tensor(0) if bias else None, output.size if output is not None else 0)

    return work


def linear(x: int = 0, weight: int = 1, bias: int | None = 2, size: int = 0) -> Formula:
    """[…, K] × [N, K]; ``size``: bytes per output element where they differ from the input's."""

    def work(call: Call) -> Cost:
        a, b = call.tensor(x), call.tensor(weight)
        require(bool(a.shape) and 1 <= len(b.shape) <= 2 and a.shape[-1] == b.shape[-1])
        rows, columns = prod(a.shape[:-1]), b.shape[0] if len(b.shape) == 2 else 1
        return product(a, b, (rows, columns, a.shape[-1]), bias=None if bias is None else call.optional(bias), out=size)

    return work


def matrix_vector(left: int, bias: bool = False) -> Formula:
    """``mv`` and ``addmv``."""

    def work(call: Call) -> Cost:
        a, b = call.tensor(left, 2), call.tensor(left + 1, 1)
        require(a.shape[1] == b.shape[0])
        return product(a, b, (a.shape[0], 1, a.shape[1]), bias=call.tensor(0) if bias else None)

    return work


def dot(call: Call) -> Cost:
    """``dot`` and ``vdot``: the product of two vectors."""
    a, b = call.tensor(0, 1), call.tensor(1, 1)
    require(a.shape == b.shape)
    return product(a, b, (1, 1, a.shape[0]))


def scaled(out_type: int, left: int = 0, output: int | None = None) -> Formula:
    """Products of scaled fp8 or int8 operands; the output type is a number in the values, or that of a tensor."""

    def work(call: Call) -> Cost:
        a, b = call.tensor(left, 2), call.tensor(left + 1, 2)
        require(a.shape[1] == b.shape[0])
        size = call.tensor(output).size if output is not None else OUT_TYPES.get(call.value(out_type), a.size)
        return product(a, b, (a.shape[0], b.shape[1], a.shape[1]), out=size)

    return work


def grouped(call: Call) -> Cost:
    """``_grouped_mm``: ``offs`` splits the rows of one operand, or the common dimension of both, into groups."""
    a, b = call.tensor(0), call.tensor(1)
    dimensions = len(a.shape), len(b.shape)
    require(a.shape[-1] == b.shape[-2] if len(b.shape) > 1 and a.shape else False)
    (m, k), n = a.shape[-2:], b.shape[-1]
    if dimensions == (2, 3):
        return Cost(2 * m * n * k, a.bytes + b.bytes + m * n * a.size, a.type, True, (("M", m), ("N", n), ("K", k)))
    if dimensions == (3, 3):
        require(a.shape[0] == b.shape[0])
        return product(a, b, (m, n, k), a.shape[0])
    groups = call.tensor(2, 1).shape[0]
    require(dimensions in ((2, 2), (3, 2)))
    outputs = groups if dimensions == (2, 2) else 1
    return Cost(2 * m * n * k, a.bytes + b.bytes + outputs * m * n * a.size, a.type, True,
                (("M", m), ("N", n), ("K", k)))


def experts(call: Call) -> Cost:
    """Fused experts (hidden, w1, w2, weights, ids): each token goes through as many experts as it has ids.

    Which experts are hit depends on the data: the least is the weights of one token's experts.
    """
    hidden, first, second = call.tensor(0, 2), call.tensor(1, 3), call.tensor(2, 3)
    tokens, each = call.tensor(4, 2).shape
    require(hidden.shape[0] == tokens and first.shape[0] == second.shape[0] and each <= first.shape[0])
    require(first.shape[2] == hidden.shape[1] == second.shape[1])
    weights = prod(first.shape[1:]) + prod(second.shape[1:])
    least = each * (prod(first.shape[1:]) * first.size + prod(second.shape[1:]) * second.size)
    return Cost(2 * tokens * each * weights, 2 * hidden.bytes + least, first.type, True,
                (("T", tokens), ("k", each), ("H", hidden.shape[1]), ("W1", first.shape[1]), ("I", second.shape[2])))


def convolution(
    stride: int, padding: int, dilation: int, groups: int, bias: int | None, transposed: int = -1
) -> Formula:
    """A convolution with its arguments at these positions; stride, padding and dilation give the output's shape."""

    def work(call: Call) -> Cost:
        x, w = call.tensor(0), call.tensor(1)
        n = len(x.shape) - 2
        require(n >= 1 and len(w.shape) == n + 2)
        steps, pads, spread = (call.numbers(at, n) for at in (stride, padding, dilation))
        count, turned = call.typed_value(groups, int), transposed >= 0 and call.typed_value(transposed, bool)
        require(count > 0 and min(steps) > 0)
        if turned:
            more = call.numbers(transposed + 1, n)
            sizes = [(x.shape[2 + i] - 1) * steps[i] - 2 * pads[i] + spread[i] * (w.shape[2 + i] - 1) + more[i] + 1
                     for i in range(n)]
            channels = w.shape[1] * count
            require(x.shape[1] == w.shape[0])
        else:
            sizes = [(x.shape[2 + i] + 2 * pads[i] - spread[i] * (w.shape[2 + i] - 1) - 1) // steps[i] + 1
                     for i in range(n)]
            channels = w.shape[0]
            require(x.shape[1] == w.shape[1] * count)
        require(min(sizes) > 0)
        outputs = x.shape[0] * channels * prod(sizes)
        flops = 2 * (x.count if turned else outputs) * prod(w.shape[1:])
        added = call.optional(bias) if bias is not None else None
        moved = x.bytes + w.bytes + outputs * x.size
        terms = (("N", x.shape[0]), ("C_in", x.shape[1]), ("C_out", channels), ("groups", count),
                 ("∏input" if turned else "∏output", prod(x.shape[2:]) if turned else prod(sizes)),
                 ("∏kernel", prod(w.shape[2:])))
        if added is None:
            return Cost(flops, moved, x.type, True, terms)
        return Cost(flops + outputs, moved + added.bytes, x.type, True, terms)

    return work


def convolution_backward(call: Call) -> Cost:
    """(grad, input, weight, …, transposed 7, …, mask 10): the forward's products once per requested gradient."""
    gradient, x, w = (call.tensor(at) for at in range(3))
    require(len(gradient.shape) == len(x.shape) == len(w.shape) and gradient.shape[0] == x.shape[0])
    mask = call.typed_value(10, tuple)
    require(len(mask) == 3)
    of_input, of_weight, of_bias = map(bool, mask)
    each = 2 * (x.count if call.typed_value(7, bool) else gradient.count) * prod(w.shape[1:])
    moved = gradient.bytes + (x.bytes + w.bytes) * (of_input + of_weight)
    moved += gradient.shape[1] * gradient.size if of_bias else 0
    return Cost(each * (of_input + of_weight) + (gradient.count if of_bias else 0), moved, x.type, True,
                (("each", each), ("gradients", of_input + of_weight)))


def not_of_arguments(call: Call) -> Cost:
    """For operators whose arguments alone never determine the work. Raises Unknown."""
    raise Unknown("other operators")


def pairs(queries: int, keys: int, causal: bool, bottom: bool) -> int:
    """The number of query-key pairs that a mask allows; ``bottom`` puts its diagonal at the last key."""
    if not causal:
        return queries * keys
    def seen(last: int) -> int:  # total keys seen by queries that may see 1, 2, … last keys
        most = max(0, min(last, keys))
        return most * (most + 1) // 2 + keys * max(0, last - keys)

    shift = keys - queries if bottom else 0
    return seen(queries + shift) - seen(shift)


def attention(
    causal: int, query: int = 0, heads_last: bool = False, bottom: bool = False, mask: int | None = None,
    lengths: int | None = None, backward: bool = False,
) -> Formula:
    """Attention on B, H, S, D, or with ``heads_last`` B, S, H, D; ``causal`` and ``mask`` are argument positions.

    Variable ``lengths`` are values, not shapes: where they are given, the work is unknown.
    """

    def work(call: Call) -> Cost:
        q, k, v = (call.tensor(query + at) for at in range(3))
        if lengths is not None and call.optional(lengths) is not None:
            raise Unknown("lengths")
        require(len(q.shape) == len(k.shape) == len(v.shape))
        if len(q.shape) != 4:
            raise Unknown("layout")
        heads, rows = (2, 1) if heads_last else (1, 2)
        batch, depth, value_depth = q.shape[0], q.shape[3], v.shape[3]
        require(k.shape[3] == depth and k.shape[rows] == v.shape[rows] and k.shape[0] == batch)
        require(k.shape[heads] > 0 and q.shape[heads] % k.shape[heads] == 0)
        masked = call.value(causal)
        if masked not in (True, False):
            raise Unknown("causal")
        allowed = pairs(q.shape[rows], k.shape[rows], bool(masked), bottom)
        output = batch * q.shape[heads] * q.shape[rows] * value_depth * q.size
        moved = q.bytes + k.bytes + v.bytes + output
        added = call.optional(mask) if mask is not None else None
        each = 3 * depth + 2 * value_depth if backward else depth + value_depth
        return Cost(2 * batch * q.shape[heads] * allowed * each,
                    moved * (2 if backward else 1) + (added.bytes if added is not None else 0), q.type, True,
                    (("B", batch), ("H", q.shape[heads]), ("P", allowed), ("D_qk", depth), ("D_v", value_depth)))

    return work


def contradicted(work: Cost) -> Cost:
    """The work, unless a figure is too large to be real. Raises Contradiction."""
    if not 0 <= work.flops < 1 << 63 or not 0 <= work.bytes < 1 << 63:
        raise Contradiction
    return work
