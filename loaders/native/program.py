"""Finds the machine code of a program that is valid for these sources and this processor.

A wheel contains the code for its platform and an editable install compiles it into the tree, so a load only reads a
file of some kilobytes. The file holds a digest of the sources it was compiled from. For processors without shipped
code, ``warplens[compile]`` installs numba, and the first large load compiles the code into the user's cache for later
loads. Without compiled code every reader has a plain path that gives the same tables.
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
HOST = "host"  # Target for exactly this processor, used if its x86-64 level is unknown.
_COMPILER_SOURCES = ("jit.py", "emit.py", "link.py", "functions.py")


class Program(Struct, frozen=True):
    """Functions that are compiled together and called by name. ``module`` defines them and is imported only to compile
    them. ``functions`` are (name, numba argument types, as in "int64[::1], int64"); each returns an int64. ``sources``
    are the paths of all files that make up their code."""

    name: str
    module: str
    functions: tuple[tuple[str, str], ...]
    sources: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Function names, in the order of the code."""
        return tuple(name for name, _ in self.functions)

    def digest(self) -> str:
        """Digest of everything the code is compiled from."""
        digest = blake2b(repr((self.module, self.functions)).encode(), digest_size=16)
        for source in (*self.sources, *(str(Path(__file__).with_name(name)) for name in _COMPILER_SOURCES)):
            digest.update(Path(source).read_bytes())
        return digest.hexdigest()

    def load(self) -> Native | None:
        """The compiled functions; None if no code matches these sources and this processor."""
        located = locate(self)
        return None if located is None else located.native

    def prepare(self) -> None:
        """Compile missing code in a background process for later loads, if numba is installed."""
        if locate(self) is None and can_compile():
            _compile_in_background()


class CompiledFile(Struct, frozen=True):
    """Content of a code file."""

    digest: str
    code: Code


class Located(Struct, frozen=True):
    """Code usable on this machine, the folder it was read from, and its target."""

    native: Native
    folder: Path
    target: str


@cache
def locate(program: Program) -> Located | None:
    """The code shipped with the package, else code compiled on this machine; None if neither is valid."""
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
    """The folder in the user's cache for code compiled on first use."""
    import platformdirs

    return platformdirs.user_cache_path("warplens") / "compiled"


def write(folder: Path, program: Program, target: str, code: Code, digest: str) -> Path:
    """Write code to a folder atomically; ``digest`` is that of its sources. Raises OSError."""
    file = folder / f"{program.name}-{target}"
    private.write(file, private.sealed(msgpack.encode(CompiledFile(digest, code))))
    file.chmod(0o644)  # readable by all users of an installed package
    return file


def can_compile() -> bool:
    """Whether numba and llvmlite are installed (``warplens[compile]``)."""
    return all(util.find_spec(name) is not None for name in ("numba", "llvmlite"))


@cache
def _compile_in_background() -> None:
    """Start the compilation, once per process; it takes seconds and continues if this process ends."""
    from subprocess import DEVNULL, Popen

    with suppress(OSError):
        folder = private.make(compiled_here())
        command = [sys.executable, "-P", "-m", f"{__package__}.build", str(folder), *(levels_here() or (HOST,))[:1]]
        process = Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)
        process.returncode = 0  # it is never waited for; without a return code Popen would emit a ResourceWarning
