"""What numba has to take the arguments of the decoder for."""

from __future__ import annotations

from typing import Any

from numba import types

from .decode import decode

__all__ = ["SIGNATURES", "decode"]


def _array(item: Any, dimensions: int = 1) -> Any:
    return types.Array(item, dimensions, "C")


_BYTES, _INTS, _TABLE = _array(types.uint8), _array(types.int64), _array(types.int64, 2)
SIGNATURES = {
    "decode": (
        _BYTES, _INTS, _INTS, types.int64, _array(types.int32), _TABLE, _TABLE, _array(types.uint8, 2), _BYTES, _INTS,
    ),
}  # fmt: skip
