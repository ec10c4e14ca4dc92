"""What a slice is drawn as: the family of a device activity, or what kind of thing a thread does.

A slice's code is the place of its class in ``CLASSES``. Codes follow from the recorded kind and, of kernels and of
runtime calls, from the name: a call that waits is told from one that launches.
"""

from __future__ import annotations

from collections.abc import Callable

from ..idle.causes import always_waits
from ..kernels.family import ACTIVITIES, LETTERS, family

FAMILIES = tuple(LETTERS)
HOST_WORDS = {
    "python": "python", "op": "operator", "annotation": "annotation", "dataloader": "DataLoader",
    "launch": "runtime call", "sync": "waits", "sched": "scheduler", "io": "I/O", "overhead": "profiler",
}
"""What a thread does, and what a lane of it is called."""
CLASSES = (*FAMILIES, *HOST_WORDS)
CODES = {name: code for code, name in enumerate(CLASSES)}
NOT_DRAWN, BY_NAME = 255, 254
"""Codes of what has no lane, and of what its name tells."""
ClassOf = Callable[[str], int]


def device_class(kind: str) -> int:
    """The code of an activity of that recorded kind; a wait of a stream is no work."""
    if kind == "sync":
        return NOT_DRAWN
    return CODES[family(None, kind)] if kind in ACTIVITIES and kind != "kernel" else BY_NAME


def kernel_class(name: str) -> int:
    """The code of a kernel by its name."""
    return CODES[family(name, "kernel")]


def host_class(kind: str) -> int:
    """The code of a slice of a thread of that recorded kind."""
    return BY_NAME if kind in ("runtime", "driver") else CODES.get(kind, CODES["annotation"])


def call_class(name: str) -> int:
    """The code of a runtime or driver call by its name."""
    return CODES["sync" if always_waits(name) else "launch"]
