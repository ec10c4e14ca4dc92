"""The scanner as machine code for this processor, to be kept and loaded again without what compiled it.

Importing numba takes longer than reading a trace of 100 MB, and its own cache needs it imported. The functions use
nothing of Python nor of numba when they run, so the object file is all there is to them; who loads it needs llvmlite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
from numba import types
from numba.core import compiler
from numba.core.registry import cpu_target

from . import scanner
from .native import Code, processor


def _array(item: Any, dimensions: int = 1) -> Any:
    return types.Array(item, dimensions, "C")


_INT, _BYTES, _INTS = types.int64, _array(types.uint8), _array(types.int64)
_TABLE, _CODES, _FLOATS = _array(types.int64, 2), _array(types.int32, 2), _array(types.float64, 2)
_HASHES, _SLOTS = _array(types.uint64), _array(types.int32)
SIGNATURES = {
    "scan": (
        _BYTES, _INT, _INTS, _array(types.int32), _array(types.float64), _TABLE, _CODES, _FLOATS, _TABLE, _CODES,
        _FLOATS, _TABLE, _CODES, _TABLE, _BYTES, _TABLE, _TABLE, _BYTES, _INTS, _HASHES, _SLOTS, types.uint64, _INTS,
    ),
    "rehash": (_HASHES, _INT, _SLOTS),
}  # fmt: skip


def emit() -> Code:
    """Compile every function; takes seconds. Raises whatever numba does where it cannot."""
    objects, symbols = [], []
    for name, signature in SIGNATURES.items():
        symbol, found = _compile(getattr(scanner, name).py_func, signature)
        symbols.append(symbol)
        objects.append(found)
    return Code(processor(llvm), tuple(symbols), tuple(objects))


def _compile(function: Any, signature: Sequence[Any]) -> tuple[str, bytes]:
    numba: Any = compiler  # it has annotations for some of its names only
    flags = numba.Flags()
    flags.nrt, flags.boundscheck, flags.error_model = False, False, "numpy"
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.release_gil = True
    target = cpu_target.typing_context, cpu_target.target_context
    done = numba.compile_extra(*target, function, signature, types.int64, flags, {})
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=3, jit=True, codemodel="jitdefault",
    )  # fmt: skip
    return done.fndesc.llvm_func_name, machine.emit_object(llvm.parse_assembly(done.library.get_llvm_str()))


def _features() -> str:
    """What this processor can do, AVX-512 left out: masks in registers of their own take longer to become a number."""
    known = llvm.get_host_cpu_features().items()
    return ",".join(f"{'+' if there and 'avx512' not in name else '-'}{name}" for name, there in known)
