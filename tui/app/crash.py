"""What is printed after the screen is gone: why nothing could be opened, or where the app failed.

Of a failure the kind of error and the places in our code are told, and nothing that was recorded: a traceback with
locals, or an error's message, may hold names from the trace, which came from someone else.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from textual.worker import WorkerFailed

from ...analysis.core.text import display
from ..session.opening import Run


def crash_report(error: BaseException | None) -> str:
    """A few lines about the error, for the terminal after the screen is gone."""
    while isinstance(error, WorkerFailed):
        error = error.error
    lines = ["warplens failed; this is a fault of warplens, not of your trace.", f"  {type(error).__name__}"]
    if error is not None:
        for frame in traceback.extract_tb(error.__traceback__)[-8:]:
            where = "/".join(frame.filename.replace("\\", "/").split("/")[-3:])
            lines.append(f"  {where}:{frame.lineno} in {frame.name}")
    lines.append("Please report these lines; no part of the trace is in them. WARPLENS_DEBUG=1 shows the full error.")
    return "\n".join(lines)


def said_what_failed(inputs: Sequence[Run]) -> int:
    """Where nothing could be opened, say why once more on the terminal that stays: exit status 3, else 0."""
    if not inputs or any(run.state != "failed" for run in inputs):
        return 0
    for one in inputs:
        print(f"warplens: {display(one.message)} {display(one.advice)}".rstrip(), file=sys.stderr)
    return 3
