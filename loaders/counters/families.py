"""Which family of counters a file is of, decided once from its first bytes, so that no two loaders claim the same."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from . import columns

Family = Literal["prometheus", "dcgmi", "nvidia-smi", "amd-smi", "counters-csv"]
_ANSWER = re.compile(rb'\s*\{(?s:.{0,300}?)"resultType"\s*:\s*"(?:matrix|vector)"')
_TYPED = re.compile(rb"(?m)^# (?:HELP|TYPE|UNIT) [A-Za-z_:][\w:]*(?: |$)")
_SAMPLE = re.compile(rb'[A-Za-z_:][\w:]*\{[A-Za-z_]\w*="[^"\n]*"[^\n]*\} +[-+.\dNI]')
_ENTITY = re.compile(rb"(?m)^[^#\n]{0,40}# ?Entity[ \t]+\S")
_FIRST_LINES = 8192
"""Bytes within which a text log has its first header."""


@lru_cache(maxsize=1)  # every loader of counters asks this of the same file
def family(head: bytes) -> Family | None:
    """The family of a file that begins with these bytes; None for anything that is no file of counters."""
    start = head.lstrip()[:1]
    if start in (b"{", b"[", b"<"):
        return "prometheus" if _ANSWER.match(head) else None
    if b"\0" in head[:_FIRST_LINES]:
        return None
    if _ENTITY.search(head[:_FIRST_LINES]):
        return "dcgmi"
    if dmon_header(head) is not None:
        return "nvidia-smi"
    if _TYPED.search(head[:_FIRST_LINES]) or _SAMPLE.match(head):
        return "prometheus"
    return columns.table_family(head)


def dmon_header(head: bytes) -> list[str] | None:
    """The names of the columns of ``nvidia-smi dmon``, from its two header lines among the first; None elsewhere."""
    lines = head[:_FIRST_LINES].decode("utf-8", "replace").split("\n")[:12]
    for line, after in pairwise(lines):
        names, units = dmon_cells(line), dmon_cells(after)
        if line.startswith("#") and after.startswith("#") and "gpu" in names and "Idx" in units:
            return names
    return None


def dmon_cells(line: str) -> list[str]:
    """The cells of a line of dmon, spaces or commas between them."""
    return line.strip().lstrip("#").replace(",", " ").split()
