"""Speedscope: a tree as flame graphs for speedscope.app, one per weight that it has.

Every stack is one sample weighted with its self time in nanoseconds, or its CPU samples, so that "left heavy" shows the
tree and its sums. Format: https://www.speedscope.app/file-format-schema.json (shared frames, profiles of type
``sampled``); the importer of speedscope 1.25.0 reads these files with the same sums.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...core.text import visible
from ..flame import Flame, flames_of, weights_of
from ..table import Table
from . import WrongFormat
from .folded import NOT_A_TREE


def render(tables: Sequence[Table]) -> bytes:
    """One document with one profile per flame graph. Raises WrongFormat."""
    (table,) = tables
    if not weights_of(table):
        raise WrongFormat(f"speedscope {NOT_A_TREE}")
    numbers: dict[str, int] = {}
    profiles = [_profile(name, flame, numbers) for name, flame in flames_of(table)]
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json", "exporter": "warplens",
        "name": " → ".join(visible(source.label) for source in table.sources), "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in numbers]}, "profiles": profiles,
    }
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()


def _profile(name: str, flame: Flame, numbers: dict[str, int]) -> dict[str, object]:
    samples, weights, stack = [], [], list[int]()
    for frame, own in zip(flame.frames, flame.own(), strict=True):
        del stack[frame.depth :]
        stack.append(numbers.setdefault(visible(frame.name) or "?", len(numbers)))
        if own:
            samples.append(list(stack))
            weights.append(own)
    unit = "none" if flame.weight == "samples" else "nanoseconds"
    return {"type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": sum(weights),
            "samples": samples, "weights": weights}
