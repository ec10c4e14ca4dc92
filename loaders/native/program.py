"""Where the machine code of a program is, and whether it may be used here.

A wheel carries the code for its platform and an editable install compiles it into the tree, so a load only reads a
file of some kilobytes. Code belongs to the sources it was compiled from: a digest of them stands in the file. On a
processor that no shipped code is for, ``warplens[compile]`` brings numba, and the first big load has the code compiled
into the user's cache for the loads after it. Without code every reader has a plain way that gives the same tables.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from importlib import util
from pathlib import Path

from msgspec import DecodeError, Struct, msgpack

from .. import private
from ..private import blake2b
from .functions import Code, Native, Unusable
from .processor import levels_here

SHIPPED = Path(__file__).with_name("built")
HOST = "host"  # The target of code for this very processor, where none of the levels is known.
_COMPILER_SOURCES = ("jit.py", "emit.py", "link.py", "functions.py")


class Program(Struct, frozen=True):
    """Functions that are compiled together and called by their names. ``module`` has them and is imported only where
    they are compiled. ``functions`` are (name, numba's types of the arguments, as in "int64[::1], int64"); each returns
    an int64. ``sources`` are the paths of the files that make up their code."""

    name: str
    module: str
    functions: tuple[tuple[str, str], ...]
    sources: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What the functions are called, in the order of the code."""
        return tuple(name for name, _ in self.functions)

    def digest(self) -> str:
        """Of everything the code is compiled from."""
        digest = blake2b(repr((self.module, self.functions)).encode(), digest_size=16)
        for source in (*self.sources, *(str(Path(__file__).with_name(name)) for name in _COMPILER_SOURCES)):
            digest.update(Path(source).read_bytes())
        return digest.hexdigest()

    def load(self) -> Native | None:
        """The compiled functions; None where no code fits these sources and this processor."""
        located = locate(self)
        return None if located is None else located.native

    def prepare(self) -> None:
        """Have the code compiled for later loads, in a process of its own, where there is none and numba is there."""
        if locate(self) is None and can_compile():
            _compile_in_background()


class CompiledFile(Struct, frozen=True):
    """What a file of code holds."""

    digest: str
    code: Code


class Located(Struct, frozen=True):
    """Code that is usable here: where it was read from and the processors it is for."""

    native: Native
    folder: Path
    target: str


@cache
def locate(program: Program) -> Located | None:
    """The code that came with the package, else what was compiled on this machine; None without either."""
    digest = program.digest()
    for folder in (SHIPPED, compiled_here()):
        for target in (*levels_here(), HOST):
            with suppress(OSError, ValueError, DecodeError, Unusable, ImportError):
                data = private.unsealed((folder / f"{program.name}-{target}").read_bytes())
                file = msgpack.decode(data, type=CompiledFile)
                if file.digest == digest and (folder == SHIPPED or private.is_private(folder)):
                    return Located(Native(file.code, program.names), folder, target)
    return None


def compiled_here() -> Path:
    """The folder of code that was compiled on first use, in the user's cache."""
    import platformdirs

    return platformdirs.user_cache_path("warplens") / "compiled"


def write(folder: Path, program: Program, target: str, code: Code, digest: str) -> Path:
    """Put code into a folder, whole or not at all; ``digest`` is of the sources it came from. Raises OSError."""
    file = folder / f"{program.name}-{target}"
    private.write(file, private.sealed(msgpack.encode(CompiledFile(digest, code))))
    file.chmod(0o644)  # in an installed package everybody may read it
    return file


def can_compile() -> bool:
    """Whether numba and llvmlite are installed (``warplens[compile]``)."""
    return all(util.find_spec(name) is not None for name in ("numba", "llvmlite"))


@cache
def _compile_in_background() -> None:
    """Once per process; it goes on when this process ends, for it takes seconds and then never again."""
    from subprocess import DEVNULL, Popen

    with suppress(OSError):
        folder = private.make(compiled_here())
        command = [sys.executable, "-P", "-m", f"{__package__}.build", str(folder), *(levels_here() or (HOST,))[:1]]
        process = Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)
        process.returncode = 0  # nobody waits for it, and an unwaited child is a warning
