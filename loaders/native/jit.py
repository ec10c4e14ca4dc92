"""How functions that become machine code are declared: without the interpreter's lock, and without anything of Python.

No index is checked for them and none counts from the end; they check what they read themselves. ``emit`` sets the same
flags for the functions that are called from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])
_OPTIONS: dict[str, Any] = {
    "nogil": True, "boundscheck": False, "error_model": "numpy", "_nrt": False,
    "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip


def compiled(function: _Function) -> _Function:
    """A function of its own in the machine code."""
    dispatcher: _Function = njit(function, **_OPTIONS)
    return dispatcher


def inlined(function: _Function) -> _Function:
    """A function whose code goes to wherever it is called."""
    dispatcher: _Function = njit(function, forceinline=True, **_OPTIONS)
    return dispatcher
