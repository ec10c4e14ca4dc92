"""A view of a recording, as the command line answers it: what recomputed figures are compared with."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from warplens.cli.main import main


class Answered(NamedTuple):
    """Rows and facts of the JSON that ``report`` writes."""

    rows: list[dict[str, Any]]
    facts: dict[str, Any]


@cache
def view_of(path: Path, view: str, *more: str) -> Answered:
    """What ``warplens report PATH --view VIEW --format json`` writes; ``more``: options, or a second path.

    The same question of the same recording is asked once for all tests, which change none of what is answered.
    """
    with TemporaryDirectory() as folder:
        written = Path(folder, "answer.json")
        assert main(["report", str(path), *more, "--view", view, "--format", "json", "-o", str(written)]) == 0
        made = json.loads(written.read_bytes())
    return Answered(made["rows"], made["facts"])
