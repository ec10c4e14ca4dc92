"""Which files of a job are one rank's: the windows that a profiler's schedule or a serving engine's stages wrote.

Files whose names differ in nothing but when they were written, in the step they are of, which may be that of their
folder, or in the stage of a serving engine come from one process. Several of them are windows of its time, not ranks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_NUMBER = re.compile(r"\d{10,}(?:\.\d+)?|\d+")
_STAGE = re.compile(r"(?<![A-Za-z])(DECODE|EXTEND|PREFILL)(?![A-Za-z])", re.IGNORECASE)
_STEP = re.compile(r"(?<![A-Za-z])(step|iter(?:ation)?)[-_.]?\d+", re.IGNORECASE)
TIME = 10**9
"""From here on a number in the name of a file is when it was written (seconds, or parts of them), not a rank."""
HELPER = re.compile(
    r"async_?llm|scheduler|tokenizer|front_?end|api_?server|engine_?core|router|controller", re.IGNORECASE,
)
"""Names of the processes of a serving engine that drive ranks and are none."""


def process_name(file: Path) -> str:
    """The file's path without what only tells the windows of its process apart."""
    name = _NUMBER.sub(lambda number: "#" if float(number[0]) >= TIME else number[0], file.name)
    return _STEP.sub("#", str(file.parent / _STAGE.sub("#", name)))


def recordings(files: Sequence[Path]) -> list[tuple[Path, ...]]:
    """The files in groups, each the windows of one process in order of name; the groups in order of their first."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(process_name(file), []).append(file)
    return [tuple(sorted(group)) for group in groups.values()]
