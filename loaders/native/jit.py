"""Decorators and intrinsics for functions that numba compiles to machine code.

Compiled functions release the GIL and do not use the Python runtime. Indices are not bounds-checked, and negative ones
do not count from the end: each operation reads a fixed number of bytes, and its caller must have checked that the index
is before the end of the text and provide padding after it. ``emit`` sets the same flags for the entry functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_Function = TypeVar("_Function", bound=Callable[..., Any])
_OPTIONS: dict[str, Any] = {
    "nogil": True, "boundscheck": False, "error_model": "numpy", "_nrt": False,
    "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
WIDTH = 32  # Bytes covered by a mask.

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)


def compiled(function: _Function) -> _Function:
    """Decorator for a separate function in the machine code."""
    dispatcher: _Function = njit(function, **_OPTIONS)
    return dispatcher


def inlined(function: _Function) -> _Function:
    """Decorator for a function that is inlined at every call."""
    dispatcher: _Function = njit(function, forceinline=True, **_OPTIONS)
    return dispatcher


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


def _vector(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    loaded = builder.load(builder.bitcast(builder.gep(data, [index]), ir.VectorType(_BYTE, WIDTH).as_pointer()))
    loaded.align = 1
    return loaded


@intrinsic
def item(typing: Any, array: Any, index: Any) -> Any:
    """One element. Unlike normal indexing it does not first test whether the index is negative."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, signature, arguments))

    return array.dtype(array, types.intp), generate


@intrinsic
def word_at(typing: Any, array: Any, index: Any) -> Any:
    """The eight bytes at an index, as a little-endian integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = builder.load(builder.bitcast(_address(context, builder, signature, arguments), _WORD.as_pointer()))
        loaded.align = 1
        return loaded

    return types.uint64(array, types.intp), generate


def mask_of(bytes_: bytes, below: int = 0, others: bool = False) -> Callable[..., Any]:
    """An intrinsic: bit mask of ``WIDTH`` bytes that are in ``bytes_`` or below ``below``; ``others`` inverts it."""

    @intrinsic
    def mask(typing: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(_BYTE, WIDTH)
            loaded = _vector(context, builder, signature.args[0], *arguments)
            tests = [builder.icmp_unsigned("==", loaded, ir.Constant(vector, [byte] * WIDTH)) for byte in bytes_]
            if below:
                tests.append(builder.icmp_unsigned("<", loaded, ir.Constant(vector, [below] * WIDTH)))
            union = tests[0]
            for test in tests[1:]:
                union = builder.or_(union, test)
            union = builder.not_(union) if others else union
            return builder.zext(builder.bitcast(union, ir.IntType(WIDTH)), _WORD)

        return types.uint64(array, types.intp), generate

    result: Callable[..., Any] = mask
    return result


@intrinsic
def first_bit(typing: Any, bits: Any) -> Any:
    """Index of the lowest set bit of a nonzero word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def last_bit(typing: Any, bits: Any) -> Any:
    """Index of the highest set bit of a nonzero word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        above = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))
        return builder.sub(ir.Constant(_WORD, 63), above)

    return types.uint64(types.uint64), generate


@intrinsic
def ones(typing: Any, bits: Any) -> Any:
    """Number of set bits of a word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def same(typing: Any, array: Any, index: Any, other: Any, offset: Any) -> Any:
    """Bit mask of the equal ones among ``WIDTH`` bytes of two arrays, each from its own index on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _vector(context, builder, signature.args[0], arguments[0], arguments[1])
        second = _vector(context, builder, signature.args[2], arguments[2], arguments[3])
        equal = builder.bitcast(builder.icmp_unsigned("==", first, second), ir.IntType(WIDTH))
        return builder.zext(equal, _WORD)

    return types.uint64(array, types.intp, other, types.intp), generate
