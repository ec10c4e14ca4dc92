"""The command as a process; ``python -m warplens`` is the same as ``warplens``."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import NoReturn

from .cli.main import main
from .cli.standard_streams import open_standard_streams


def program() -> NoReturn:
    """Run the command and end with its status, at once: to take all modules apart first takes longer than a view."""
    open_standard_streams()
    try:
        status = main()
    except SystemExit as ended:  # --help, or words that are wrong
        status = ended.code if isinstance(ended.code, int) else 0
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    program()
