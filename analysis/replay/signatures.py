"""What numba has to take the arguments of the replay's loops for."""

from __future__ import annotations

from typing import Any

from numba import types

from ...loaders.native.jit import compiled
from .loop import bind, run

__all__ = ["SIGNATURES", "compiled_bind", "compiled_run"]

compiled_run = compiled(run)
compiled_bind = compiled(bind)


def _array(item: Any) -> Any:
    return types.Array(item, 1, "C")


_LONG, _REAL = _array(types.int64), _array(types.float64)
SIGNATURES = {
    "compiled_run": (*[_LONG] * 4, _REAL, *[_LONG] * 26),
    "compiled_bind": (*[_LONG] * 11, types.int64, *[_LONG] * 3),
}
