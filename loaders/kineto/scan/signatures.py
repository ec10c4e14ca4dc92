"""The functions of the scanner that are called from outside, and what numba has to take their arguments for."""

from __future__ import annotations

from typing import Any

from numba import types

from .scanner import rehash, scan
from .table_rows import device_rows, host_rows, narrowed

__all__ = ["SIGNATURES", "device_rows", "host_rows", "narrowed", "rehash", "scan"]


def _array(item: Any, dimensions: int = 1) -> Any:
    return types.Array(item, dimensions, "C")


_INT, _BYTES, _INTS = types.int64, _array(types.uint8), _array(types.int64)
_TABLE, _CODES, _FLOATS = _array(types.int64, 2), _array(types.int32, 2), _array(types.float64, 2)
_HASHES, _SLOTS = _array(types.uint64), _array(types.int32)
_ROWS = (
    _TABLE, _CODES, _INT, _INT, _SLOTS, _array(types.uint8, 2), _CODES, _INTS, _BYTES, _BYTES, _INTS, _TABLE, _INTS,
    _TABLE,
)  # fmt: skip
SIGNATURES = {
    "scan": (
        _BYTES, _INT, _INTS, _array(types.int32), _array(types.float64), _TABLE, _CODES, _FLOATS, _TABLE, _CODES,
        _FLOATS, _TABLE, _CODES, _TABLE, _BYTES, _TABLE, _TABLE, _BYTES, _INTS, _HASHES, _SLOTS, types.uint64,
        _HASHES, _INTS, _INTS,
    ),
    "rehash": (_HASHES, _INT, _SLOTS),
    "host_rows": _ROWS,
    "device_rows": _ROWS,
    "narrowed": (_TABLE, _INT, _INTS, _CODES),
}  # fmt: skip
