"""Code that was compiled when the package was built or installed, in its own folder.

The first big trace on a machine then finds the code there. It is used only by the very sources it was compiled from,
with the numba and llvmlite it was compiled by, on a processor of its level, and only where nobody but the user or the
administrator can have written it: whoever may write there could change our modules as well. In any other case there is
none, and ``code_cache`` compiles as it always did.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import DecodeError, Struct, msgpack

from ..ingest import private
from .functions import Image
from .levels import levels_here

FOLDER = Path(__file__).with_name("built")
_MOST_BYTES = 16 << 20


class Shipped(Struct, frozen=True):
    """Code and what it depends on."""

    depends: str
    image: Image


def read(name: str, depends: str) -> Image | None:
    """The code of a program for the best level of this processor, None where there is none to be trusted and used."""
    for level in levels_here():
        try:
            data = private.unsealed(private.read_installed(FOLDER / f"{name}-{level}", _MOST_BYTES))
            found = msgpack.decode(data, type=Shipped)
        except (OSError, ValueError, DecodeError):
            continue
        if found.depends == depends and found.image.processor == level:
            return found.image
    return None


def write(folder: Path, name: str, depends: str, image: Image) -> Path:
    """Put code into a folder of a package that is being built. Raises OSError."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.chmod(0o755)
    file = folder / f"{name}-{image.processor}"
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.write_bytes(private.sealed(msgpack.encode(Shipped(depends, image))))
    part.chmod(0o644)
    part.replace(file)
    return file
