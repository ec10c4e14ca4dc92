"""The causes of idle time, and which cause a host slice stands for while it is the innermost slice of its thread."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import polars as pl

from ...loaders.schema import NAME
from ..core.batches import CALLS
from ..core.call_tree import HostSlices, Mask

BY_SLICE = ("input", "sync", "allocation", "copy", "runtime", "python", "op")  # Causes a slice can stand for.
DISPATCH_NS = 20_000  # Time a device may take to start launched work.

_OPS = ("op", "annotation", "dataloader")
_SYNC = re.compile(r"Synchronize|StreamWait|EventQuery|StreamQuery|signal_wait", re.I)
_ALLOCATION = re.compile(
    r"Malloc|Free(?!ze)|HostAlloc|HostRegister|HostUnregister|ModuleLoad|LibraryLoad|MemCreate|MemMap|MemUnmap|MemRelease"
    r"|AddressReserve", re.I,
)
_COPY = re.compile(r"Memcpy|Memset", re.I)
_INPUT = re.compile(r"DataLoader")
_DEVICE_SIDE = re.compile(r"StreamWait", re.I)
"""Calls that make a stream wait for an event: the device waits, the call returns at once."""
_ASYNC = re.compile(r"Async", re.I)
_VERSION = re.compile(r"_v\d{4,5}$")
Kinds = npt.NDArray[np.int8]


def function(name: str) -> str:
    """The function name without the API version that Nsight Systems appends (cudaMalloc_v3020)."""
    return _VERSION.sub("", name)


def functions(names: pl.Series) -> pl.Series:
    """The function names without API versions."""
    plain = {name: function(name) for name in names.unique().cast(pl.String).drop_nulls() if function(name) != name}
    return names.cast(pl.String).replace(plain).cast(NAME) if plain else names


def cause_of_call(name: str) -> str:
    """The cause that a runtime or driver call of that name stands for."""
    for cause, pattern in (("sync", _SYNC), ("allocation", _ALLOCATION), ("copy", _COPY)):
        if pattern.search(name):
            return cause
    return "runtime"


def named_cause(name: str, kind: str | None) -> str | None:
    """The cause that the name alone decides: ``input``, or the cause of a call; None for other slices."""
    if kind in _OPS and _INPUT.search(name):
        return "input"
    return cause_of_call(name) if kind in CALLS else None


def causes_of(slices: HostSlices) -> tuple[Kinds, Mask]:
    """Per slice, the index of its cause in ``BY_SLICE`` (-1: none), and whether it loads input. Only the loading slice
    itself is marked; slices inside it count as input, too."""
    by_kind = {**dict.fromkeys(_OPS, "op"), "io": "op", "python": "python"}
    causes = slices.kind.mapped(lambda kind: BY_SLICE.index(by_kind[kind]) if kind in by_kind else -1)
    by_name = slices.name.mapped(lambda name: -1 if name is None else BY_SLICE.index(cause_of_call(name)))
    np.copyto(causes, by_name, where=slices.of_kind(*CALLS))
    return causes, slices.named(_INPUT.search, slices.of_kind(*_OPS))


def always_waits(name: str) -> bool:
    """Whether calls of that name return only when the device is done: synchronisations and copies without ``Async``."""
    cause = cause_of_call(name)
    return (cause == "sync" and not _DEVICE_SIDE.search(name)) or (cause == "copy" and not _ASYNC.search(name))


def blocking(slices: HostSlices) -> Mask:
    """The calls that return only when the device is done."""
    return slices.named(always_waits, slices.of_kind(*CALLS))
