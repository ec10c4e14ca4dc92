"""PyTorch Kineto and other Chrome trace JSON, as written by torch.profiler, Ascend's profiler and JAX.

Two readers produce the same tables: ``plain`` (msgspec) and, for large files, ``pipeline`` (blocks through a compiled
scanner on several threads). Both fill the raw columns of ``columns``; ``tables`` and ``dialect`` interpret them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..loader import FormatLoader

_KINETO_KEYS = (
    rb'"(?:schemaVersion|deviceProperties|computeProperties|distributedInfo|baseTimeNanoseconds|displayTimeUnit)"\s*:'
)
_EVENT_KEYS = rb'"ph"\s*:\s*"[A-Za-z]"', rb'"pid"\s*:'


LEGACY = re.compile(rb'"pid"\s*:\s*"(?:CPU|CUDA) functions"')
"""What ``torch.autograd.profiler`` wrote before Kineto, without categories."""


class Kineto(FormatLoader):
    """Loader for Chrome trace JSON."""

    name = "kineto"
    title = "PyTorch Kineto / Chrome trace JSON (also Ascend and JAX), .gz and .zst"
    suffixes = (".pt.trace.json", ".json")
    version = 15
    reader = "load"
    fills = ("kernels", "host", "metrics", "cycles", "allocations")
    ready_tables = True

    def sniff(self, head: bytes) -> bool:
        """Accept a list of events, or an object with one or with the keys that Kineto writes before it."""
        text = head.lstrip()
        inside = text[1:].lstrip()
        if text.startswith(b"{") and inside.startswith((b'"', b"}")):
            return b'"traceEvents"' in head or (b'"schemaVersion"' in head and bool(re.search(_KINETO_KEYS, head)))
        if text.startswith(b"[") and LEGACY.search(text):
            return False
        return text.startswith(b"[") and inside.startswith(b"{") and all(re.search(key, head) for key in _EVENT_KEYS)

    def arguments(self, path: Path, offset: int, name: str) -> dict[str, Any]:
        """All arguments of one event, reread from the file."""
        from .recovery import arguments

        return arguments(path, offset, name)


LOADER = Kineto()
