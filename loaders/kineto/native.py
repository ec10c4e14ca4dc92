"""Machine code that was compiled before, as functions over numpy arrays that let go of the interpreter's lock.

Arguments are passed the way numba does: an array is its address, its length and its strides, the result and an error
come back through two pointers. The code checks its own indices; here arrays are checked to be what it was compiled for.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

NAMES = "scan", "rehash"


class Unusable(Exception):
    """The code is damaged, or was made for another processor."""


@dataclass(frozen=True, slots=True)
class Code:
    """Object files, one for each of ``NAMES``, the symbol to call in each, and the processor they are for."""

    processor: str
    symbols: tuple[str, ...]
    objects: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        """As a file, which begins with a checksum of the rest."""
        rest: bytes = msgspec.msgpack.encode([self.processor, self.symbols, self.objects])
        return hashlib.sha256(rest).digest() + rest

    @classmethod
    def from_bytes(cls, data: bytes) -> Code:
        """The inverse of ``to_bytes``. Raises Unusable for a file that is not whole."""
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            raise Unusable("the file is damaged")
        return cls(*msgspec.msgpack.decode(data[32:], type=tuple[str, tuple[str, ...], tuple[bytes, ...]]))


def processor(llvm: Any) -> str:
    """What the code depends on besides its sources: the model of processor and what it can do."""
    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()} {llvm.get_process_triple()}"


class Native:
    """The functions of a ``Code``. Calls from several threads do not disturb each other."""

    def __init__(self, code: Code) -> None:
        """Raises Unusable where the code is for another processor."""
        import llvmlite.binding as llvm

        if code.processor != processor(llvm):
            raise Unusable("the code was compiled for another processor")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        for file in code.objects:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(file))
        self._engine.finalize_object()
        call = ctypes.CFUNCTYPE(ctypes.c_int32)
        self._functions = [call(self._engine.get_function_address(symbol)) for symbol in code.symbols]

    def scan(self, *arguments: Any) -> int:
        """``scanner.scan``."""
        return self._call(0, arguments)

    def rehash(self, *arguments: Any) -> int:
        """``scanner.rehash``."""
        return self._call(1, arguments)

    def _call(self, function: int, arguments: tuple[Any, ...]) -> int:
        result, error = ctypes.c_int64(0), ctypes.c_void_p()
        flat = [value for argument in arguments for value in _flat(argument)]
        if self._functions[function](ctypes.byref(result), ctypes.byref(error), *flat):
            raise RuntimeError(f"the compiled {NAMES[function]} failed")
        return result.value


def _flat(argument: Any) -> Iterator[Any]:
    """An argument as the words numba takes for it."""
    if isinstance(argument, np.ndarray):
        if not argument.flags.c_contiguous or not argument.flags.writeable:
            raise ValueError("an array for compiled code must be writeable and lie in one piece")
        yield from (None, None, ctypes.c_int64(argument.size), ctypes.c_int64(argument.itemsize))
        yield ctypes.c_void_p(argument.ctypes.data)
        yield from map(ctypes.c_int64, (*argument.shape, *argument.strides))
    else:
        yield ctypes.c_uint64(int(argument))
