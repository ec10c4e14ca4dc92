"""What numba has to take the arguments of the walk for."""

from __future__ import annotations

from typing import Any

from numba import types

from .walk import walk

__all__ = ["SIGNATURES", "walk"]


def _array(item: Any, dimensions: int = 1) -> Any:
    return types.Array(item, dimensions, "C")


_BYTES, _INTS, _CODES, _SLOTS = (_array(kind) for kind in (types.uint8, types.int64, types.int32, types.int16))
SIGNATURES = {
    "walk": (
        _BYTES, types.int64, _array(types.int16, 2), _BYTES, _SLOTS, types.int64, _INTS, _INTS, _INTS,
        _array(types.int64, 2), _SLOTS, _CODES, _INTS, _CODES, _INTS,
    ),
}  # fmt: skip
