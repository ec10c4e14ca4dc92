"""XLA profiles: the ``.xplane.pb`` files that JAX, TensorFlow and PyTorch/XLA write.

This module only recognises them, and is imported whenever a file is opened; ``read`` does the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..loader import FormatLoader
from ..protobuf.layout import varint

_PLANE = 0x0A
_ID, _NAME = 0x08, 0x12
_NAMES = (b"/host:", b"/device:", b"Task Environment", b"/job:", b"#Chip", b"TPU")


class Xla(FormatLoader):
    """The loader of XSpace files."""

    name = "xla"
    title = "XLA profile (.xplane.pb of JAX, TensorFlow, PyTorch/XLA): kernels with their HLO ops, host threads, steps"
    suffixes = (".xplane.pb",)
    version = 6
    reader = "read"
    fills = ("kernels", "host", "metrics", "cycles")
    folder_is_one_run = True
    twins = (".trace.json.gz", ".trace.json", "perfetto_trace.json.gz")

    def sniff(self, head: bytes) -> bool:
        """A first plane that begins with its id (optional) and a known name, the order used by every writer."""
        size, at = varint(head, 1) if head[:1] == bytes([_PLANE]) else (0, 0)
        end = at + size
        if size and head[at : at + 1] == bytes([_ID]):
            _, at = varint(head, at + 1)
        if not size or head[at : at + 1] != bytes([_NAME]):
            return False
        length, at = varint(head, at + 1)
        return at + length <= end and head[at : at + length].startswith(_NAMES)

    def arguments(self, path: Path, offset: int, name: str) -> dict[str, Any]:
        """All statistics of one event, read from the file again."""
        from .space import arguments

        return arguments(path, offset, name)



LOADER = Xla()
