"""What numba has to take the arguments of the sweep for."""

from __future__ import annotations

from typing import Any

from numba import types

from ...native.jit import compiled
from .sweep import sweep

__all__ = ["SIGNATURES", "compiled_sweep"]

compiled_sweep = compiled(sweep)


def _array(item: Any) -> Any:
    return types.Array(item, 1, "C")


_LONG, _SHORT, _FLAG = _array(types.int64), _array(types.int32), _array(types.uint8)
SIGNATURES = {
    "compiled_sweep": (_LONG, _SHORT, _LONG, _LONG, _SHORT, _LONG, _SHORT, _FLAG, types.int64),
}
