"""Functions as machine code, to be stored and loaded again without what compiled it.

Importing numba takes longer than reading a trace of 100 MB, and its own cache needs it imported. The functions use
nothing of Python nor of numba when they run, so the object file is all there is to them. For a level of x86-64 it is
linked into an image that needs nothing more; on other processors llvmlite loads it.
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
    """The symbol of each of the functions and LLVM's text of it. Functions of the module may be plain or ``jit``'s."""
    module = import_module(program.module)
    return [_compiled(getattr(module, name), f"int64({arguments})") for name, arguments in program.functions]


def image(functions: Sequence[tuple[str, str]], level: str) -> Image:
    """The functions as one image for all processors of a level. Raises NotLinked."""
    code, entries = b"", []
    for symbol, text in functions:
        linked, entry = link(_object(text, level, reloc="pic", codemodel="small"), symbol)
        code += bytes(-len(code) % ALIGNED)
        entries.append(len(code) + entry)
        code += linked
    return Image(level, tuple(entries), code)


def objects(functions: Sequence[tuple[str, str]]) -> Objects:
    """The functions as object files, which do not care how far from each other they are put."""
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
    """What this processor can do, AVX-512 left out: masks in registers of their own take longer to become a number."""
    features = llvm.get_host_cpu_features().items()
    return ",".join(f"{'+' if present and 'avx512' not in name else '-'}{name}" for name, present in features)
