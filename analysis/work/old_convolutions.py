"""Convolutions recorded before PyTorch 2, without stride and padding: their backward calls give the output shapes.

The gradient passed to a backward has exactly the shape of its forward's output, so the output of a forward is known
where all backwards of its input and weight agree; a backward's children show which gradients it computed.
"""

from __future__ import annotations

from math import prod

import numpy as np
import polars as pl
from msgspec import Struct, field

from ...loaders.trace import Trace
from ..core.call_tree import slices_of
from .arguments import Call, Contradiction, call_of
from .formulas import Cost

FORWARD, BACKWARD = "aten::cudnn_convolution", "aten::cudnn_convolution_backward"
_CHILDREN = (f"{BACKWARD}_input", f"{BACKWARD}_weight")
Shape = tuple[int, ...]


class OldConvolutions(Struct, frozen=True):
    """``outputs``: output shape of forwards by input and weight shapes; ``gradients``: their number, per backward."""

    outputs: dict[tuple[Shape, Shape], Shape] = field(default_factory=dict)
    gradients: dict[tuple[Shape, ...], int] = field(default_factory=dict)

    def work(self, call: Call) -> Cost | None:
        """The work of such a call; None for any other, and where it is unknown."""
        if call.name == FORWARD:
            x, w = call.tensor(0), call.tensor(1)
            out = self.outputs.get((x.shape, w.shape))
            if out is None:
                return None
            return Cost(2 * prod(out) * prod(w.shape[1:]), x.bytes + w.bytes + prod(out) * x.size, x.type, True,
                        (("N", x.shape[0]), ("C_in", x.shape[1]), ("C_out", w.shape[0]), ("∏output", prod(out[2:])),
                         ("∏kernel", prod(w.shape[2:]))))
        if call.name == BACKWARD:
            x, gradient, w = (call.tensor(at) for at in range(3))
            count = self.gradients.get((x.shape, gradient.shape, w.shape))
            if not count:
                return None
            each = 2 * gradient.count * prod(w.shape[1:])
            return Cost(each * count, gradient.bytes + (x.bytes + w.bytes) * count, x.type, True,
                        (("each", each), ("gradients", count)))
        return None


def old_convolutions(run: Trace) -> OldConvolutions:
    """The figures that the backwards of a run give; empty where it has none from before PyTorch 2."""
    return run.remember("old-convolutions", (), lambda: _old_convolutions(run))


def _old_convolutions(run: Trace) -> OldConvolutions:
    if BACKWARD not in slices_of(run).name.texts:
        return OldConvolutions()
    named = pl.col("name").cast(pl.String)
    rows = run.host.with_row_index("row").filter(pl.col("kind") == "op", pl.col("shapes").is_not_null()).filter(
        named.is_in([BACKWARD, *_CHILDREN]), pl.col("inputs").is_null()
    ).select("row", named, pl.col("shapes", "types").cast(pl.String)).collect(engine="streaming")
    parents = rows.filter(pl.col("name") == BACKWARD)
    if parents.is_empty():
        return OldConvolutions()
    children = rows.filter(pl.col("name") != BACKWARD)
    above = slices_of(run).parent[children["row"].to_numpy()]
    asked = np.bincount(above[above >= 0], minlength=int(parents["row"].max() or 0) + 1)  # type: ignore[arg-type]
    outputs: dict[tuple[Shape, Shape], set[Shape]] = {}
    gradients: dict[tuple[Shape, ...], set[int]] = {}
    for row, _, shapes, types in parents.rows():
        try:
            call = call_of(BACKWARD, shapes, types, None)
        except Contradiction:
            continue
        tensors = () if call is None else call.all()[:3]
        if len(tensors) == 3:
            x, gradient, w = (tensor.shape for tensor in tensors)
            outputs.setdefault((x, w), set()).add(gradient)
            gradients.setdefault((x, gradient, w), set()).add(int(asked[row]))
    return OldConvolutions(
        {key: next(iter(one)) for key, one in outputs.items() if len(one) == 1},
        {key: next(iter(one)) for key, one in gradients.items() if len(one) == 1},
    )
