"""The functions of the scanner that are called from outside, and what numba has to take their arguments for."""

from __future__ import annotations

from typing import Any

from numba import types

from .scanner import rehash, scan

__all__ = ["SIGNATURES", "rehash", "scan"]


def _array(item: Any, dimensions: int = 1) -> Any:
    return types.Array(item, dimensions, "C")


_INT, _BYTES, _INTS = types.int64, _array(types.uint8), _array(types.int64)
_TABLE, _CODES, _FLOATS = _array(types.int64, 2), _array(types.int32, 2), _array(types.float64, 2)
_HASHES, _SLOTS = _array(types.uint64), _array(types.int32)
SIGNATURES = {
    "scan": (
        _BYTES, _INT, _INTS, _array(types.int32), _array(types.float64), _TABLE, _CODES, _FLOATS, _TABLE, _CODES,
        _FLOATS, _TABLE, _CODES, _TABLE, _BYTES, _TABLE, _TABLE, _BYTES, _INTS, _HASHES, _SLOTS, types.uint64,
        _HASHES, _INTS, _INTS,
    ),
    "rehash": (_HASHES, _INT, _SLOTS),
}  # fmt: skip
