"""Compile every program for one level of processors into a folder: ``… -m warplens.loaders.native.ship DIR LEVEL``.

Run where the package is built, by ``.ci/compile_on_build.py``. numba has to be told the level before it is imported
(NUMBA_CPU_NAME, NUMBA_CPU_FEATURES), which is why this is a process of its own.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path

from . import shipped
from .code_cache import Program

PROGRAMS = (
    "kineto.scan.program:SCANNER", "ingest.call_tree.program:SWEEP", "nsys.program:DECODER", "protobuf.program:WALKER",
)
"""Where the programs are, in ``loaders``."""


def programs() -> list[Program]:
    """All programs."""
    room = (__package__ or "").removesuffix(".native")
    places = (place.split(":") for place in PROGRAMS)
    return [getattr(import_module(f"{room}.{module}"), name) for module, name in places]


def ship(folder: Path, level: str) -> list[Path]:
    """The files written. Raises whatever numba does where it cannot compile, NotLinked, OSError."""
    from .emit import compile_all, image

    made = []
    for program in programs():
        code = image(compile_all(program.module, program.names), level)
        made.append(shipped.write(folder, program.name, program.depends(), code))
    return made


def main() -> None:
    """Ship into the folder of the first argument for the level of the second one."""
    gc.disable()
    ship(Path(sys.argv[1]), sys.argv[2])


if __name__ == "__main__":
    main()
