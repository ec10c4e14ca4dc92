"""The walk as numba compiles it: with functions that read a varint, hash a text and read eight bytes natively."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..native.jit import inlined, item, word_at
from .walk import walking

_MIX, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT, _EIGHT, _ONE = np.uint64(29), np.uint64(8), np.uint64(1)


@inlined
def _varint(data: Any, at: Any, end: Any) -> Any:
    """The varint at ``at`` as 64 bits, and the position after it, which is 0 if it is truncated or too long."""
    value, shift = np.int64(0), np.int64(0)
    while at < end and shift < 70:
        byte = np.int64(item(data, at))
        at += 1
        if shift < 64:
            value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return np.int64(0), np.int64(0)


@inlined
def _hash(data: Any, at: Any, size: Any, seed: Any) -> Any:
    """A 64-bit hash of a text; the seed is random, so that a file cannot be made to collide."""
    mixed = np.uint64(seed) ^ (np.uint64(size) * _OTHER)
    offset, remaining = at, size
    while remaining > 0:
        word = word_at(data, offset)
        if remaining < 8:
            word &= (_ONE << (_EIGHT * np.uint64(remaining))) - _ONE
        mixed = (mixed ^ word) * _MIX
        mixed ^= mixed >> _SHIFT
        mixed = mixed * _OTHER + np.uint64(seed)
        offset += 8
        remaining -= 8
    return np.int64(mixed ^ (mixed >> _SHIFT))


@inlined
def _fixed(data: Any, at: Any) -> Any:
    return np.int64(word_at(data, at))


walk = walking(_varint, _hash, _fixed)
