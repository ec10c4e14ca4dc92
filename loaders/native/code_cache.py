"""Where compiled functions are kept, whether they are there, and how they get there without anybody waiting.

Compiling takes seconds, so it happens once per machine, in a process of its own that outlives the load which asked for
it; that load goes on without and may change over when the code is there. The folder's name depends on all that the
code depends on, so nothing stale is ever used. Without numba, or without a folder to write to, there never is any code.
"""

from __future__ import annotations

import gc
import os
import platform
import sys
import tempfile
import time
from functools import cache
from importlib import util
from pathlib import Path

from msgspec import Struct, json

from ..ingest.digest import blake2b
from .functions import Native, Unusable, from_bytes, to_bytes

_SOURCES = ("jit.py", "simd.py", "emit.py", "link.py", "functions.py")
"""What every program's code depends on."""
_FILE = "code"
_STALE_SECONDS = 300


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
        place = self.folder()
        return place is not None and (place / _FILE).exists()

    def functions(self) -> Native | None:
        """The compiled functions; None where they are not there or cannot be used here, which is then so for good."""
        return _functions(self)

    def prepare(self) -> None:
        """Start compiling in a process of its own, unless somebody already does."""
        place = self.folder()
        if place is None or self.ready():
            return
        mark = place / "compiling"
        try:
            if mark.exists() and time.time() - mark.stat().st_mtime > _STALE_SECONDS:
                mark.unlink(missing_ok=True)
            mark.open("x").close()
        except OSError:
            return
        import subprocess

        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        subprocess.Popen(
            [sys.executable, "-m", __name__, json.encode(self).decode()], env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def compile(self) -> None:
        """Compile everything into the folder; takes seconds. Raises whatever numba does where it cannot."""
        place = self.folder()
        if place is None:
            return
        try:
            from .emit import emit

            whole = to_bytes(emit(self.module, self.names))
            part = place / f"{_FILE}.{os.getpid()}"
            part.write_bytes(whole)
            part.replace(place / _FILE)
        finally:
            (place / "compiling").unlink(missing_ok=True)


@cache
def _folder(program: Program) -> Path | None:
    if util.find_spec("numba") is None:
        return None
    import platformdirs

    machine = sys.version, platform.node(), platform.machine()
    seen = blake2b(repr((machine, program.module, program.names)).encode(), digest_size=12)
    for source in (*program.sources, *(str(Path(__file__).with_name(name)) for name in _SOURCES)):
        status = os.stat(source)
        seen.update(f"{source} {status.st_size} {status.st_mtime_ns}".encode())
    name = f"{program.name}-{seen.hexdigest()}"
    for base in (platformdirs.user_cache_path("warplens"), Path(tempfile.gettempdir()) / f"warplens-{_user()}"):
        try:
            (base / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue
        if os.access(base / name, os.W_OK) and _ours(base):
            return base / name
    return None


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _ours(path: Path) -> bool:
    """Code is loaded from there, so nobody else may have made the folder."""
    return not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()


@cache
def _functions(program: Program) -> Native | None:
    place = program.folder()
    if place is None:
        return None
    try:
        return Native(from_bytes((place / _FILE).read_bytes()), program.names)
    except Unusable:  # damaged, or this name now belongs to another machine: let the next load compile anew
        (place / _FILE).unlink(missing_ok=True)
    except Exception:
        pass
    return None


def main() -> None:
    """Compile the program that the command line gives as JSON, out of everybody's way."""
    if hasattr(os, "nice"):
        os.nice(5)
    gc.disable()
    json.decode(sys.argv[1], type=Program).compile()


if __name__ == "__main__":
    main()
