"""PyTorch Kineto and other Chrome trace JSON: what torch.profiler, Ascend's profiler and JAX write.

Two readers give the same tables: ``plain`` (msgspec) and, for big files, ``pipeline`` (blocks through a compiled
scanner on two threads). Both fill the raw columns of ``columns``; ``tables`` and ``dialect`` say what those mean.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..loader import Job
from ..trace import Trace

_TOP = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{\s*(?:"|\})', re.DOTALL)
_LIST = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\[\s*\{', re.DOTALL)
_KINETO_KEYS = re.compile(
    rb'"(?:schemaVersion|deviceProperties|computeProperties|distributedInfo|baseTimeNanoseconds|displayTimeUnit)"\s*:'
)
_EVENT_KEYS = (re.compile(rb'"ph"\s*:\s*"[A-Za-z]"'), re.compile(rb'"pid"\s*:'))


class Kineto(Struct, frozen=True):
    """The loader."""

    name: str = "kineto"
    title: str = "PyTorch Kineto / Chrome trace JSON (also Ascend and JAX), .gz and .zst"
    suffixes: tuple[str, ...] = (".pt.trace.json", ".json")
    version: int = 1
    ready_tables: bool = True

    def sniff(self, head: bytes) -> bool:
        """A list of events, or an object that has one or the keys Kineto writes before it."""
        if _TOP.match(head):
            return b'"traceEvents"' in head or (b'"schemaVersion"' in head and bool(_KINETO_KEYS.search(head)))
        return bool(_LIST.match(head)) and all(pattern.search(head) for pattern in _EVENT_KEYS)

    def load(self, job: Job) -> tuple[Trace, ...]:
        """Read the file, whatever its size, in bounded memory."""
        from .load import load

        return (load(job),)

    def arguments(self, path: Path, offset: int, name: str) -> dict[str, Any]:
        """``arguments.arguments``."""
        from .arguments import arguments

        return arguments(path, offset, name)


LOADER = Kineto()
