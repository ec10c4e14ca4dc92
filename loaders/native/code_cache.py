"""Where compiled functions are kept, whether they are there, and how they get there without anybody waiting.

Code that came with the package (``shipped``) is used where it is the right one. Else it is compiled: that takes
seconds, so it happens once per machine, in a process of its own; the load which asked for it goes on without and may
change over when the code is there. A program that ends as it should lets the compiler finish; with one that was killed,
or a load that was stopped, the compiler ends too. It ends by itself after a time no compilation takes,
and holds a lock meanwhile, so that one which was killed is not waited for. The folder's name depends on all that
the code depends on, numba's and llvmlite's versions among it, so nothing stale is ever used. Code is run, so it comes
only from a folder and a file that nobody else can have written to (``ingest.private``); everything else in its place is
discarded and compiled anew. Without numba, or without a folder to write to, there never is any code.
"""

from __future__ import annotations

import atexit
import gc
import os
import platform
import signal
import stat
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, json

from ..ingest import locks, private
from ..ingest.digest import blake2b
from . import shipped
from .functions import Native, Unusable, from_bytes, to_bytes

if TYPE_CHECKING:
    from subprocess import Popen

_SOURCES = ("jit.py", "simd.py", "emit.py", "link.py", "functions.py")
"""What every program's code depends on."""
_FILE = "code"
_MARK = "compiling"
_MOST_BYTES = 16 << 20
"""No program of ours is longer."""
_LONGEST_SECONDS = 300
"""Compiling takes some 5 s, ten times that on a busy machine."""
_COMPILERS = "numba", "llvmlite"
_FINISH = b"finish"
"""What a compiler is told by a program that ends before it; told nothing, it ends with the program."""
_begun: list[Popen[bytes]] = []


class Program(Struct, frozen=True):
    """Functions that are compiled and kept together, and called by their names.

    ``module`` has them and ``SIGNATURES``, the numba types of their arguments by name, and is imported only where they
    are compiled; each of them returns an int64. ``sources`` are the paths of the files that make up their code; their
    folder is named after ``name`` and all that it depends on.
    """

    name: str
    module: str
    names: tuple[str, ...]
    sources: tuple[str, ...]

    def folder(self) -> Path | None:
        """The folder of the code on this machine; None where numba is not installed or none can be written to."""
        return _folder(self)

    def ready(self) -> bool:
        """Whether the compiled code is there."""
        if _shipped(self) is not None:
            return True
        place = self.folder()
        return place is not None and os.path.lexists(place / _FILE)

    def depends(self) -> str:
        """What the code depends on beside the processor: its sources and the versions of what compiles it."""
        seen = blake2b(repr((self.module, self.names)).encode(), digest_size=16)
        for compiler in _compilers():
            seen.update(_version(compiler))
        for source in (*self.sources, *(str(Path(__file__).with_name(name)) for name in _SOURCES)):
            seen.update(Path(source).read_bytes())
        return seen.hexdigest()

    def functions(self) -> Native | None:
        """The compiled functions; None where they are not there or cannot be used here, which is then so for good."""
        return _functions(self)

    def prepare(self) -> None:
        """Start compiling in a process of its own, unless somebody already does."""
        place = self.folder()
        if place is None or self.ready():
            return
        try:
            mark = _taken(place / _MARK)
        except OSError:  # somebody compiles, or nobody can here
            return
        from subprocess import DEVNULL, PIPE, Popen

        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            # The lock is the open file's, so it is the compiler's from here on.
            _begun.append(Popen(
                [sys.executable, "-P", "-m", __name__, json.encode(self).decode()], env=environment, close_fds=True,
                stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL,
                start_new_session=True, pass_fds=(mark,) if locks.ARE_THERE else (),
            ))
            atexit.register(_let_finish, _begun[-1])
        except OSError:
            return
        finally:
            os.close(mark)

    def compile(self) -> None:
        """Compile everything into the folder; takes seconds. Raises whatever numba does where it cannot."""
        place = self.folder()
        if place is None:
            return
        try:
            from .emit import emit

            private.write(place / _FILE, private.sealed(to_bytes(emit(self.module, self.names))))
        finally:
            private.discard(place / _MARK)


def _taken(mark: Path) -> int:
    """The open file that says who compiles, locked. Raises OSError where another process has it."""
    flags = os.O_RDWR | os.O_CREAT | locks.OWN | (0 if locks.ARE_THERE else os.O_EXCL)
    with suppress(FileNotFoundError):
        state = os.lstat(mark)
        left = not locks.ARE_THERE and time.time() - state.st_mtime > _LONGEST_SECONDS
        if left or not stat.S_ISREG(state.st_mode):
            private.discard(mark)
    descriptor = os.open(mark, flags, 0o600)
    try:
        locks.exclusive(descriptor, wait=False)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@cache
def _folder(program: Program) -> Path | None:
    if not (compilers := _compilers()):
        return None
    import platformdirs

    machine = sys.version, platform.node(), platform.machine()
    seen = blake2b(repr((machine, program.module, program.names)).encode(), digest_size=12)
    for compiler in compilers:
        seen.update(_version(compiler))
    for source in (*program.sources, *(str(Path(__file__).with_name(name)) for name in _SOURCES)):
        status = os.stat(source)
        seen.update(f"{source} {status.st_size} {status.st_mtime_ns}".encode())
    name = f"{program.name}-{seen.hexdigest()}"
    for base in (platformdirs.user_cache_path("warplens"), Path(tempfile.gettempdir()) / f"warplens-{_user()}"):
        try:
            place = private.make(Path(os.path.realpath(base))) / name
            if os.path.lexists(place) and not private.is_private(place):
                private.discard(place)
            private.make(place)
        except OSError:
            continue
        if os.access(place, os.W_OK):
            return place
    return None


@cache
def _compilers() -> tuple[Path, ...]:
    """Where numba and llvmlite are; nothing where one of them is not installed."""
    found = [util.find_spec(name) for name in _COMPILERS]
    places = tuple(Path(spec.origin) for spec in found if spec is not None and spec.origin)
    return places if len(places) == len(_COMPILERS) else ()


def _version(package: Path) -> bytes:
    """What a compiler says its version is, without importing it: that takes longer than reading most traces."""
    try:
        return package.with_name("_version.py").read_bytes()
    except OSError:
        status = package.stat()
        return f"{package} {status.st_size} {status.st_mtime_ns}".encode()


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


@cache
def _shipped(program: Program) -> Native | None:
    """The functions that came with the package."""
    if not shipped.FOLDER.is_dir() or not _compilers():
        return None
    try:
        code = shipped.read(program.name, program.depends())
        return None if code is None else Native(code, program.names)
    except (Unusable, OSError):
        return None


@cache
def _functions(program: Program) -> Native | None:
    if (ready := _shipped(program)) is not None:
        return ready
    place = program.folder()
    if place is None:
        return None
    try:
        if private.is_private(place):
            whole = private.unsealed(private.read(place / _FILE, _MOST_BYTES))
            return Native(from_bytes(whole), program.names)
    except FileNotFoundError:
        return None
    except (Unusable, ValueError, OSError):  # altered, or of another machine by this name: the next load compiles anew
        private.discard(place / _FILE)
    except Exception:
        pass
    return None


def _let_finish(compiler: Popen[bytes]) -> None:
    if compiler.stdin is not None:
        with suppress(OSError, ValueError):  # it has ended
            compiler.stdin.write(_FINISH)
            compiler.stdin.close()
    compiler.returncode = 0  # else its end is missed at ours, with a warning


def _end_with_the_program() -> None:
    """Wait for the end of who began this process; end too, unless told to finish."""
    if not os.read(0, len(_FINISH)):
        os._exit(0)


def main() -> None:
    """Compile the program that the command line gives as JSON, out of everybody's way."""
    if hasattr(os, "nice"):
        os.nice(5)
    if hasattr(signal, "alarm"):
        signal.alarm(_LONGEST_SECONDS)
    threading.Thread(target=_end_with_the_program, daemon=True).start()
    gc.disable()
    json.decode(sys.argv[1], type=Program).compile()


if __name__ == "__main__":
    main()
