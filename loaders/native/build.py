"""Compile every program for one target into a folder: ``python -m warplens.loaders.native.build DIR TARGET``.

TARGET is an x86-64 level or ``host``. Run when the package is built (``.ci/compile_on_build.py``) and, with
``warplens[compile]``, on processors the package has no code for. It is a separate process because numba reads its
target CPU from the environment at import.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from itertools import repeat
from pathlib import Path

from .program import HOST, Program, write

PROGRAMS = (
    "loaders.kineto.scan:SCANNER", "loaders.ingest.call_tree.sweep:SWEEP", "loaders.protobuf.walk:WALKER",
    "analysis.replay.program:REPLAY", "analysis.idle.sweep:SWEEP", "analysis.timeline.rows:ROWS",
)
"""Addresses of all ``Program`` objects, as module:name."""


def programs() -> list[Program]:
    """All programs."""
    room = (__package__ or "").removesuffix(".loaders.native")
    programs = (address.split(":") for address in PROGRAMS)
    return [getattr(import_module(f"{room}.{module}"), name) for module, name in programs]


def build(folder: Path, target: str) -> list[Path]:
    """Compile all programs; returns the files written. Raises NotLinked, OSError and any compilation error of numba."""
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor() as pool:  # the scanner takes twice as long as all others together
        return list(pool.map(_written, programs(), repeat(folder), repeat(target)))


def _written(program: Program, folder: Path, target: str) -> Path:
    from .emit import compile_all, image, objects

    digest = program.digest()  # before compiling, as sources may be modified during compilation
    functions = compile_all(program)
    code = objects(functions) if target == HOST else image(functions, target)
    return write(folder, program, target, code, digest)


def main(folder: str, target: str) -> None:
    """Build for the target into the folder, at low priority."""
    if hasattr(os, "nice"):
        os.nice(5)
    if target != HOST:
        os.environ.update(NUMBA_CPU_NAME=target, NUMBA_CPU_FEATURES="")
    gc.disable()
    Path(folder).mkdir(parents=True, exist_ok=True)
    build(Path(folder), target)


if __name__ == "__main__":
    main(*sys.argv[1:])
