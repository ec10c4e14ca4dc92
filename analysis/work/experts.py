"""Mixture-of-experts layers of vLLM, whose weights are not arguments: the operators called below give their sizes.

``vllm::moe_forward`` takes tokens [T, H] and router logits [T, E]. Two implementations record the rest:
- triton_kernels' ``matmul_ogs`` (gpt_oss_triton_kernels_moe.py): ``TopK`` with k, and views of the weights as
  [E, H, 2·I] and [E, I, H], two 4-bit values per byte;
- FlashInfer's ``trtllm_fp4_block_scale_moe`` allocates [T, k], and [P, I] and [P, H] for the P ≥ T·k padded rows of
  both products; its first kernel's name says that weights have 4 bits, activations 8, and that I is gated (2·I).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core.call_tree import nearest, slices_of
from .arguments import Call, Contradiction, call_of
from .formulas import Cost

NAMES = frozenset({"vllm::moe_forward", "vllm::moe_forward_shared"})
_BELOW = ("aten::empty", "aten::view", "TopK")
_GATED = re.compile(r"^bmm_.*MxE2m1MxE4m3_.*swiGlu")
_EIGHT_BITS = "c10::Float8_e4m3fn"
Shape = tuple[int, ...]
Key = tuple[str, Shape, Shape]


class Sizes(Struct, frozen=True):
    """4-bit experts of one layer: ``each``, experts per token; ``first``, columns of the first product; ``second``,
    rows of the second; ``by_kernel``, whether these hold only if a kernel's name says that the columns are gated."""

    each: int
    first: int
    second: int
    by_kernel: bool


def experts_of(run: Trace) -> dict[Key, Sizes]:
    """The sizes by layer name and shapes of tokens and router logits, where all calls with these agree."""
    return run.remember("experts", (), lambda: _expert_sizes(run))


def work(run: Trace, call: Call, kernels: Iterable[str]) -> Cost | None:
    """The work of a call that launched these kernels; None where nothing recorded determines it.

    Which experts are hit depends on the data: the least is the weights of one token's experts, without their scales.
    """
    hidden, router = call.tensor(0, 2), call.tensor(1, 2)
    sizes = experts_of(run).get((call.name, hidden.shape, router.shape))
    if sizes is None or (sizes.by_kernel and not any(map(_GATED.search, kernels))):
        return None
    tokens, width = hidden.shape
    weights = width * sizes.first + sizes.second * width
    return Cost(2 * tokens * sizes.each * weights, 2 * hidden.bytes + sizes.each * weights // 2,
                _EIGHT_BITS if sizes.by_kernel else hidden.type, True,
                (("T", tokens), ("k", sizes.each), ("H", width), ("W1", sizes.first), ("I", sizes.second)))


def _expert_sizes(run: Trace) -> dict[Key, Sizes]:
    rows = run.host.with_row_index("row").filter(pl.col("kind") == "op", pl.col("shapes").is_not_null()).filter(
        pl.col("name").cast(pl.String).is_in([*NAMES, *_BELOW])
    ).select("row", pl.col("name", "shapes", "types", "inputs").cast(pl.String)).collect(engine="streaming")
    parent = slices_of(run).parent
    layers = np.zeros(len(parent), bool)
    layers[rows.filter(pl.col("name").is_in(NAMES))["row"].to_numpy()] = True
    row = rows["row"].to_numpy().astype(np.int64)
    calls: dict[int, Call] = {}
    below: dict[int, list[Call]] = {}
    for (at, name, *recorded), layer in zip(rows.rows(), nearest(parent, row, layers).tolist(), strict=True):
        try:
            call = call_of(name, *recorded) if layer >= 0 else None
        except Contradiction:
            continue
        if call is not None and name in NAMES:
            calls[at] = call
        elif call is not None:
            below.setdefault(layer, []).append(call)
    sizes: dict[Key, set[Sizes | None]] = {}
    for at, call in calls.items():
        hidden, router = call.optional(0), call.optional(1)
        if hidden is not None and router is not None and len(hidden.shape) == len(router.shape) == 2:
            key = call.name, hidden.shape, router.shape
            sizes.setdefault(key, set()).add(_sizes(hidden.shape, router.shape[1], below.get(at, [])))
    return {key: one for key, (one, *others) in sizes.items() if one is not None and not others}


def _sizes(tokens: Shape, experts: int, below: list[Call]) -> Sizes | None:
    """The sizes that the operators below one layer imply; None where they imply none, or contradict each other."""
    count, width = tokens
    views = [shape for one in below if one.name == "aten::view" and one.all() and one.all()[0].type == "unsigned char"
             and len(shape := _shape(one.value(1))) == 3 and shape[0] == experts]
    chosen = {one.value(1) for one in below if one.name == "TopK"}
    if len(views) == 2 and len(chosen) == 1:
        (_, rows, first), (_, second, columns) = views
        each, fits = chosen.pop(), 2 * rows == columns == width and first == 2 * (2 * second)
        return Sizes(each, first, 2 * second, False) if fits and type(each) is int and 0 < each <= experts else None
    result = [shape for one in below if one.name == "aten::empty" and len(shape := _shape(one.value(0))) == 2]
    several = {shape[1] for shape in result if shape[0] == count and shape[1] != width and shape[1] <= experts}
    if len(several) != 1:
        return None
    each = several.pop()
    inner = {a[1] for a, b in pairwise(result) if a[0] == b[0] >= count * each and b[1] == width and a[0] > count}
    return Sizes(each, 2 * max(inner), max(inner), True) if len(inner) == 1 and each > 0 else None


def _shape(value: Any) -> Shape:
    return value if isinstance(value, tuple) and all(type(size) is int and size > 0 for size in value) else ()
