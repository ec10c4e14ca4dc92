"""What is printed when the app fails: the kind of error and the places in our code, and nothing that was recorded.

A traceback with locals, or an error's message, may hold names from the trace, which came from someone else.
"""

from __future__ import annotations

import traceback

from rich.segment import Segment


def crash_lines(error: BaseException | None) -> list[Segment]:
    """A few lines about the error, for the terminal after the screen is gone."""
    lines = ["warplens failed; this is a fault of warplens, not of your trace.", f"  {type(error).__name__}"]
    if error is not None:
        for frame in traceback.extract_tb(error.__traceback__)[-8:]:
            where = "/".join(frame.filename.replace("\\", "/").split("/")[-3:])
            lines.append(f"  {where}:{frame.lineno} in {frame.name}")
    lines.append("Please report these lines; no part of the trace is in them. WARPLENS_DEBUG=1 shows the full error.")
    return [Segment(line + "\n") for line in lines]
