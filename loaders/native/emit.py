"""Compiles functions to machine code that can be stored and loaded without numba.

Importing numba takes longer than reading a trace of 100 MB, and numba's own cache requires that import. The functions
use neither the Python nor the numba runtime, so their object files are self-contained. For an x86-64 level these are
linked into an image that needs nothing else; on other processors llvmlite loads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

import llvmlite.binding as llvm
from numba.core import compiler, sigutils
from numba.core.registry import cpu_target

from .functions import Image, Objects, llvm_processor
from .link import ALIGNED, link
from .program import Program


def compile_all(program: Program) -> list[tuple[str, str]]:
    """(symbol, LLVM IR) of each function. The module's functions may be plain or decorated by ``jit``."""
    module = import_module(program.module)
    return [_compiled(getattr(module, name), f"int64({arguments})") for name, arguments in program.functions]


def image(functions: Sequence[tuple[str, str]], level: str) -> Image:
    """Link the functions into one image for all processors of a level. Raises NotLinked."""
    code, entries = b"", []
    for symbol, text in functions:
        linked, entry = link(_object(text, level, reloc="pic", codemodel="small"), symbol)
        code += bytes(-len(code) % ALIGNED)
        entries.append(len(code) + entry)
        code += linked
    return Image(level, tuple(entries), code)


def objects(functions: Sequence[tuple[str, str]]) -> Objects:
    """The functions as object files, compiled for any distance between them in memory."""
    files = tuple(_object(text, None, jit=True, codemodel="jitdefault") for _, text in functions)
    return Objects(llvm_processor(llvm), tuple(symbol for symbol, _ in functions), files)


def _compiled(function: Any, signature: str) -> tuple[str, str]:
    numba, signatures = cast(Any, compiler), cast(Any, sigutils)  # annotated in part only
    arguments, returned = signatures.normalize_signature(signature)
    flags = numba.Flags()
    flags.nrt, flags.boundscheck, flags.error_model = False, False, "numpy"
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.release_gil = True
    target = cpu_target.typing_context, cpu_target.target_context
    plain = getattr(function, "py_func", function)
    result = numba.compile_extra(*target, plain, arguments, returned, flags, {})
    return result.fndesc.llvm_func_name, result.library.get_llvm_str()


def _object(text: str, level: str | None, **model: Any) -> bytes:
    name, features = (llvm.get_host_cpu_name(), _features()) if level is None else (level, "")
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=name, features=features, opt=3, **model)
    code: bytes = machine.emit_object(llvm.parse_assembly(text))
    return code


def _features() -> str:
    """This processor's features without AVX-512, whose mask registers take longer to convert to an integer."""
    features = llvm.get_host_cpu_features().items()
    return ",".join(f"{'+' if present and 'avx512' not in name else '-'}{name}" for name, present in features)
