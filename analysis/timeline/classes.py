"""Classes of slices for drawing: the family of a device activity, or the kind of host work.

A slice's code is the index of its class in ``CLASSES``. It follows from the recorded kind and, for kernels and runtime
calls, from the name: waiting calls and launching calls are separate classes.
"""

from __future__ import annotations

from collections.abc import Callable

from ..idle.causes import always_waits
from ..kernels.family import LETTERS, WITH_FAMILY, family

FAMILIES = tuple(LETTERS)
HOST_WORDS = {
    "python": "python", "op": "operator", "annotation": "annotation", "dataloader": "DataLoader",
    "launch": "runtime call", "sync": "waits", "sched": "system call", "io": "I/O", "overhead": "profiler",
}
"""Classes of host work, and the label of a lane in which each is the most common."""
CLASSES = (*FAMILIES, *HOST_WORDS)
CODES = {name: code for code, name in enumerate(CLASSES)}
NOT_DRAWN, BY_NAME = 255, 254
"""Codes of slices without a lane, and of slices whose class follows from the name."""
ClassOf = Callable[[str], int]


def device_class(kind: str) -> int:
    """Code of a device activity of that recorded kind; a stream wait (``sync``) is not drawn."""
    if kind == "sync":
        return NOT_DRAWN
    return CODES[family(None, kind)] if kind in WITH_FAMILY and kind != "kernel" else BY_NAME


def kernel_class(name: str) -> int:
    """Code of a kernel by its name."""
    return CODES[family(name, "kernel")]


def host_class(kind: str) -> int:
    """Code of a host slice of that recorded kind."""
    return BY_NAME if kind in ("runtime", "driver") else CODES.get(kind, CODES["annotation"])


def call_class(name: str) -> int:
    """Code of a runtime or driver call by its name."""
    return CODES["sync" if always_waits(name) else "launch"]
