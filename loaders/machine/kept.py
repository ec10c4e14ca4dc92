"""Where the compiled scanner is kept, whether it is there, and how it gets there without anybody waiting.

Compiling takes seconds, so it happens once per machine, in a process of its own that outlives the load which asked for
it; that load goes on with the plain reader and changes over when the code is there. The folder's name depends on all
that the code depends on, so nothing stale is ever used. Without numba, or without a folder to write to, the plain
reader does it all.
"""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from functools import cache
from importlib import util
from pathlib import Path

from ..kineto.native import Native, Unusable, from_bytes, to_bytes

SOURCES = ("columns.py", "layout.py", "simd.py", "lexer.py", "keys.py", "scanner.py", "emit.py", "link.py", "native.py")
_STALE_SECONDS = 300


@cache
def folder() -> Path | None:
    """The folder of the compiled code for these sources on this machine; None where numba is not installed."""
    if util.find_spec("numba") is None:
        return None
    import platformdirs

    here = Path(__file__).parent.parent / "kineto"
    seen = hashlib.sha256(repr((sys.version, platform.node(), platform.machine(), str(here))).encode())
    for source in SOURCES:
        status = (here / source).stat()
        seen.update(f"{source} {status.st_size} {status.st_mtime_ns}".encode())
    name = f"scanner-{seen.hexdigest()[:24]}"
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


def ready() -> bool:
    """Whether the compiled code is there."""
    place = folder()
    return place is not None and (place / _FILE).exists()


def prepare() -> None:
    """Start compiling in a process of its own, unless somebody already does."""
    place = folder()
    if place is None or ready():
        return
    mark = place / "compiling"
    try:
        if mark.exists() and time.time() - mark.stat().st_mtime > _STALE_SECONDS:
            mark.unlink(missing_ok=True)
        mark.open("x").close()
    except OSError:
        return
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.Popen(
        [sys.executable, "-m", __name__], env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


@cache
def functions() -> Native | None:
    """The compiled functions; None where they are not there or cannot be used here, which is then so for good."""
    place = folder()
    if place is None:
        return None
    try:
        return Native(from_bytes((place / _FILE).read_bytes()))
    except Unusable:  # damaged, or this name now belongs to another machine: let the next load compile anew
        (place / _FILE).unlink(missing_ok=True)
    except Exception:
        pass
    return None


def main() -> None:
    """Compile everything into the folder."""
    place = folder()
    if place is None:
        return
    try:
        if hasattr(os, "nice"):
            os.nice(5)
        from ..kineto.emit import emit

        gc.disable()
        whole = to_bytes(emit())
        part = place / f"{_FILE}.{os.getpid()}"
        part.write_bytes(whole)
        part.replace(place / _FILE)
    finally:
        (place / "compiling").unlink(missing_ok=True)


_FILE = "code"


if __name__ == "__main__":
    main()
