"""Messages printed after the TUI has closed: why nothing could be opened, or where the app crashed.

Of a crash only the error type and the code locations are printed, never recorded data: a traceback with locals, or an
error message, may contain names from the trace, which came from someone else.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from textual.worker import WorkerFailed

from ...analysis.core.text import display
from ..session.opening import Run


def crash_report(error: BaseException | None) -> str:
    """A few lines about the error, to print after the TUI has closed."""
    while isinstance(error, WorkerFailed):
        error = error.error
    lines = ["warplens failed; this is a fault of warplens, not of your trace.", f"  {type(error).__name__}"]
    if error is not None:
        for frame in traceback.extract_tb(error.__traceback__)[-8:]:
            where = "/".join(frame.filename.replace("\\", "/").split("/")[-3:])
            lines.append(f"  {where}:{frame.lineno} in {frame.name}")
    lines.append("Please report these lines; no part of the trace is in them. WARPLENS_DEBUG=1 shows the full error.")
    return "\n".join(lines)


def report_failed_inputs(inputs: Sequence[Run]) -> int:
    """If no input could be opened, print why to stderr and return 3; else 0."""
    if not inputs or any(run.state != "failed" for run in inputs):
        return 0
    for one in inputs:
        print(f"warplens: {display(one.message)} {display(one.advice)}".rstrip(), file=sys.stderr)
    return 3
