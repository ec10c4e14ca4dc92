"""The machine code of a program: what was built into the package where it is of these sources, else what numba makes of
them, kept between workers and runs, for the scanner alone takes fifteen seconds.

That a program is compiled from its sources, and anew when they change, is tested where the product does it
(tests/loaders/native); here it is a means.
"""

from __future__ import annotations

import json
import platform
import tempfile
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from msgspec import DecodeError, msgpack

from warplens.loaders import private
from warplens.loaders.native.functions import Code, Native
from warplens.loaders.native.processor import levels_here
from warplens.loaders.native.program import HOST, SHIPPED, CompiledFile, Program

ROOT = Path(__file__).resolve().parents[2]


@cache
def compiled(program: Program) -> list[tuple[str, str]]:
    """The symbols and LLVM's texts of a program's functions, by its sources, its compilers and the processor."""
    from llvmlite import binding as llvm

    from warplens.loaders.native.emit import compile_all

    llvm.initialize_native_target()  # compiling would have done it
    llvm.initialize_native_asmprinter()
    here = repr((llvm.get_host_cpu_name(), sorted(llvm.get_host_cpu_features().items()), platform.python_version()))
    place = ROOT / ".pytest_cache" / "compiled" / program.digest() / sha256(here.encode()).hexdigest()[:16]
    try:
        return [(symbol, text) for symbol, text in json.loads(place.read_bytes())]
    except (OSError, ValueError):
        made = compile_all(program)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, mode="w", delete=False) as file:
            json.dump(made, file)
        Path(file.name).replace(place)
    except OSError:  # a tree nobody may write to
        pass
    return made


def code(program: Program) -> Code:
    """A program as it is loaded: an image where this processor's level is known, else object files."""
    level = next(iter(levels_here()), None)
    with suppress(OSError, ValueError, DecodeError):
        built = read_file(SHIPPED / f"{program.name}-{level or HOST}")
        if built.digest == program.digest():
            return built.code
    from warplens.loaders.native.emit import image, objects

    functions = compiled(program)
    return image(functions, level) if level else objects(functions)


def read_file(path: Path) -> CompiledFile:
    """What a file of code holds. Raises OSError, ValueError and DecodeError."""
    return msgpack.decode(private.unsealed(path.read_bytes()), type=CompiledFile)


def native(program: Program) -> Native:
    """The functions of a program."""
    return Native(code(program), program.names)
