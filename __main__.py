"""The command as a process; ``python -m warplens`` is the same as ``warplens``."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what the module signal wraps: that takes some ms
import os
import sys


def _stop(number: int, frame: object) -> None:
    """^C while modules are imported: nothing has begun, and a traceback would say nothing."""
    os.write(2, b"warplens: stopped\n")
    os._exit(INTERRUPTED)


INTERRUPTED = 130
if "multiprocessing" not in sys.modules:  # no child of the command
    _signal.signal(_signal.SIGINT, _stop)

import atexit  # noqa: E402
import contextlib  # noqa: E402
from typing import NoReturn  # noqa: E402

from .cli.main import main  # noqa: E402
from .cli.standard_streams import open_standard_streams  # noqa: E402


def program() -> NoReturn:
    """Run the command and end with its status, at once: to take all modules apart first takes longer than a view."""
    open_standard_streams()
    try:
        if _signal.getsignal(_signal.SIGINT) is _stop:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        status = main()
    except SystemExit as ended:  # --help, or words that are wrong
        status = ended.code if isinstance(ended.code, int) else 0
    except KeyboardInterrupt:
        _stop(0, None)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    program()
