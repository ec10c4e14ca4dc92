"""Calls precompiled machine code on numpy arrays, with the GIL released.

Arguments follow numba's calling convention: an array is passed as its address, length and strides; result and error are
returned through two pointers. The code checks its own indices; this module checks the memory layout of arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from .processor import levels_here

_READ_AND_RUN = 1 | 4  # PROT_READ and PROT_EXEC.


class Unusable(Exception):
    """The code was compiled for another processor."""


class Image(Struct, frozen=True, tag=True):
    """Position-independent code, the offset of each function in it, and the x86-64 level it needs."""

    level: str
    places: tuple[int, ...]
    code: bytes


class Objects(Struct, frozen=True, tag=True):
    """Object files for llvmlite, one per function, the symbol to call in each, and the processor they are for."""

    processor: str
    symbols: tuple[str, ...]
    files: tuple[bytes, ...]


Code = Image | Objects


def llvm_processor(llvm: Any) -> str:
    """This processor, its features and the platform, as LLVM names them."""
    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()} {llvm.get_process_triple()}"


class Native:
    """The functions of a ``Code``, by name. Thread-safe."""

    def __init__(self, code: Code, names: Sequence[str]) -> None:
        """``names`` are the functions in the order of the code. Raises Unusable if the code is for another processor,
        OSError if memory cannot be made executable, ImportError if object files need llvmlite, which is missing."""
        self._memory, addresses = _mapped(code) if isinstance(code, Image) else _loaded(code)
        call = ctypes.CFUNCTYPE(ctypes.c_int32)
        self._functions = {name: call(address) for name, address in zip(names, addresses, strict=True)}

    def call(self, name: str, *arguments: Any) -> int:
        """Call a function with arrays and integers; their types are not checked. Raises ValueError for an array that is
        not contiguous or not writeable."""
        result, error = ctypes.c_int64(0), ctypes.c_void_p()
        flat = [value for argument in arguments for value in _flat(argument)]
        if self._functions[name](ctypes.byref(result), ctypes.byref(error), *flat):
            raise RuntimeError(f"the compiled {name} failed")
        return result.value


def _mapped(image: Image) -> tuple[Any, list[int]]:
    """Map the image as read-only executable memory; returns it and the function addresses."""
    if image.level not in levels_here():
        raise Unusable("the code was compiled for another processor")
    from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

    memory = mmap(-1, len(image.code), flags=MAP_PRIVATE | MAP_ANONYMOUS)
    memory[:] = image.code
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(begin), len(memory), _READ_AND_RUN):
        raise OSError(ctypes.get_errno(), "memory may not be run")
    return memory, [begin + entry for entry in image.places]


def _loaded(code: Objects) -> tuple[Any, list[int]]:
    """Load the object files; returns the LLVM engine and the function addresses."""
    import llvmlite.binding as llvm

    if code.processor != llvm_processor(llvm):
        raise Unusable("the code was compiled for another processor")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for file in code.files:
        engine.add_object_file(llvm.ObjectFileRef.from_data(file))
    engine.finalize_object()
    return engine, [engine.get_function_address(symbol) for symbol in code.symbols]


def _flat(argument: Any) -> Iterator[Any]:
    """Flatten an argument to the machine words of numba's calling convention."""
    if isinstance(argument, np.ndarray):
        if not argument.flags.c_contiguous or not argument.flags.writeable:
            raise ValueError("an array for compiled code must be writeable and lie in one piece")
        yield from (None, None, ctypes.c_int64(argument.size), ctypes.c_int64(argument.itemsize))
        yield ctypes.c_void_p(argument.ctypes.data)
        yield from map(ctypes.c_int64, (*argument.shape, *argument.strides))
    else:
        yield ctypes.c_uint64(int(argument))
