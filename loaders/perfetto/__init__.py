"""Perfetto traces in protocol buffers, as written by PyTorch natively and by any program through the Perfetto SDK.

This module only recognises them, and is imported whenever a file is opened; ``read`` does the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..loader import FormatLoader
from ..protobuf.layout import varint

_PACKET = 0x0A
_NUMBERS = {8, 10, 13, 41, 42, 58, 79, 87, 98, 64, 3, 46}
"""Packet fields that are numbers (time, sequence, flags); those in ``_TELLING`` are messages or bytes."""
_TELLING = {6, 11, 12, 33, 36, 43, 45, 50, 59, 60, 89}
"""Clocks, track events, texts, configuration, markers, system info, compressed packets, defaults, tracks, trace id."""
_HIGHEST = 130


class Perfetto(FormatLoader):
    """The loader of Perfetto traces."""

    name = "perfetto"
    title = "Perfetto trace (.pftrace, .perfetto-trace): track events of PyTorch and others, counters, .gz and .zst"
    suffixes = (".pftrace", ".perfetto-trace", ".perfetto")
    version = 7
    reader = "read"
    fills = ("kernels", "host", "metrics", "cycles", "allocations")

    def sniff(self, head: bytes) -> bool:
        """A series of packets in which every field has the right wire type and some fields only occur in traces."""
        at, is_trace = 0, False
        for _ in range(64):
            if at >= len(head):
                break
            size, begin = _varint(head, at + 1) if head[at] == _PACKET else (-1, 0)
            if size < 0:
                return False
            fields = _fields(head, begin, begin + size)
            if fields is None:
                return False
            is_trace = is_trace or bool(fields & _TELLING)
            at = begin + size
        return is_trace

    def arguments(self, path: Path, offset: int, name: str) -> dict[str, Any]:
        """All debug annotations of one event, read from the file again."""
        from .read import arguments

        return arguments(path, offset, name)


def _fields(head: bytes, at: int, end: int) -> set[int] | None:
    """The field numbers of one packet, as far as ``head`` contains it; None if it cannot be a packet."""
    results = set[int]()
    while at < min(end, len(head)):
        tag, at = _varint(head, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number <= _HIGHEST and number not in range(900, 1000):
            return None
        if (number in _NUMBERS and wire != 0) or (number in _TELLING and wire != 2) or wire not in (0, 1, 2, 5):
            return None
        if wire == 0:
            _, at = _varint(head, at)
        elif wire == 2:
            size, at = _varint(head, at)
            at += size
        else:
            at += 8 if wire == 1 else 4
        results.add(number)
    return results if at <= end or end > len(head) else None



def _varint(head: bytes, at: int) -> tuple[int, int]:
    value, behind = varint(head, at)
    return value, behind if behind >= 0 else len(head) + 1


LOADER = Perfetto()
