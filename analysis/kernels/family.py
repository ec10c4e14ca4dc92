"""The family of a device activity: the kind of work that its colour and letter stand for on every screen.

It follows from the recorded kind and the short form of the name; ``other`` if the name does not tell.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from ..core.names.short_name import short_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from ..contract.column import Column

Family = Literal[
    "gemm", "conv", "attention", "norm", "reduce", "elementwise", "move", "collective", "copy", "other",
]
LETTERS: dict[str, str] = {
    "gemm": "g", "conv": "v", "attention": "a", "norm": "n", "reduce": "r", "elementwise": "e", "move": "m",
    "collective": "c", "copy": "y", "other": "o",
}
TITLES: dict[str, str] = {
    "gemm": "GEMM", "conv": "convolution", "attention": "attention", "norm": "norm", "reduce": "reduce",
    "elementwise": "element-wise", "move": "data movement", "collective": "collective", "copy": "copy, set",
    "other": "other",
}
BRIEF: dict[str, str] = {
    "conv": "conv", "attention": "attn", "elementwise": "elem", "move": "move", "collective": "coll", "copy": "copy",
}
"""Shorter titles, for a narrow legend."""
_BY_KIND: dict[str, Family] = {"collective": "collective", "memcpy": "copy", "memset": "copy"}
WITH_FAMILY = frozenset(("kernel", *_BY_KIND))
"""The activity kinds that have a family."""
_BY_NAME: dict[Family, str] = {
    "attention": r"flash|fmha|attention|attn|pagedkv|mha_|_mha|sdpa",
    "conv": r"conv(?!ert)|[wd]grad|winograd|fprop|im2col|[sh]cudnn",
    "gemm": r"gemm|gemv|xmma|matmul|cutlass|cublas|nvjet|cijk|splitk|_mm_|bmm|mma_|mul_mat",
    "norm": r"norm|softmax|\bbn_",
    "move": r"copy|\bcpy|\bcat|index|gather|scatter|transpose|permute|embedding|nhwcto|nchwto|concat|fill|arange|roll|"
            r"pad|[gs]et_rows",
    "reduce": r"reduc|\bsum|mean|argm|topk|sort|scan|cum|pool|triton_(red|per)|loss|sampling",
    "elementwise": r"elementwise|pointwise|triton_poi|act_|silu|gelu|relu|sigmoid|tanh|add|mul|sub|div|exp|pow|cast|"
                   r"dropout|adam|multi_tensor|rotary|rope|lamb|sgd|mask|where|clamp|compare|unary|scale_|quantize",
}
"""Patterns searched in the lowercase short name; the first match decides."""
_PATTERNS = [(family, re.compile(pattern)) for family, pattern in _BY_NAME.items()]


def family_column(columns: Sequence[Column]) -> str | None:
    """The column of names that determine a row's family; None if the rows are not device activities."""
    names = [column.name for column in columns if column.role == "name" and column.order is not None]
    return names[0] if names and any(column.name == "kind" for column in columns) else None


def device_families(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Per device: summed time (ns) of each family, largest first, from a table of kernels by name."""
    result: dict[tuple[Any, Any], dict[str, int]] = {}
    for rank, device, one, ns in _summed(frame, ["rank", "device"]):
        result.setdefault((rank, device), {})[one] = ns
    return [{"device": device, "rank": rank, "families": sums} for (rank, device), sums in result.items()]


def family_sums(frame: pl.DataFrame) -> dict[str, int]:
    """Summed time (ns) of each family over all devices, largest first."""
    return {one: ns for one, ns in _summed(frame, []) if ns}


def _summed(frame: pl.DataFrame, by: list[str]) -> list[tuple[Any, ...]]:
    import polars as pl  # lists import this module before the first frame

    keys = frame.select(pl.col("name", "kind").cast(pl.String)).unique()
    kinds = [family(name, kind) for name, kind in keys.rows()]
    named = frame.select(*by, pl.col("name", "kind").cast(pl.String), "total_ns").join(
        keys.with_columns(pl.Series("family", kinds, dtype=pl.String)), on=["name", "kind"], nulls_equal=True)
    sums = named.with_columns(pl.col("device").cast(pl.String)) if "device" in by else named
    sums = sums.group_by(*by, "family").agg(pl.col("total_ns").sum())
    return sums.sort(*by, "total_ns", "family", descending=[False] * len(by) + [True, False]).rows()


@lru_cache(maxsize=65_536)
def family(name: str | None, kind: str | None) -> Family:
    """The family of an activity of that name and kind."""
    if kind in _BY_KIND:
        return _BY_KIND[str(kind)]
    text = short_name(name).lower()
    return next((one for one, pattern in _PATTERNS if pattern.search(text)), "other")
