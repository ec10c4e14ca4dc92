"""Pickles of plain containers and nothing else: dicts, lists, texts, numbers, pairs of numbers.

A pickle is a program: it may name any function and have it called. This one may not. The bytes are read through once
first, and every operation that is not on the list refuses the file: nothing that names, builds or calls an object
passes, no number of more than 64 bits, no tuple that holds anything but numbers (deep ones would overflow the stack
when they are hashed), no place of the memo that is not the next one (a far one would take all memory), no length beyond
the end of the file. Only then is it given to Python's own unpickler, which is forbidden to look up any name.
Operations as ``pickletools`` of Python's library describes them; PyTorch writes protocol 4.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

_OTHER, _FIXED, _COUNTED1, _COUNTED4, _COUNTED8, _LONG, _PUT1, _PUT4, _MEMOIZE, _TUPLE = range(10)
_SCALARS = b"KJMN\x88\x89"
"""Operations that push a number or none, from which a tuple may be made."""


def _table() -> tuple[list[int], list[int]]:
    """Of each operation: what has to be looked at, and how many bytes follow it."""
    kinds, sizes = [_OTHER] * 256, [0] * 256
    for code in b"}])(aesudl01N.2\x88\x89":
        kinds[code] = _FIXED
    for code, size in ((0x80, 1), (ord("J"), 4), (ord("K"), 1), (ord("M"), 2), (ord("G"), 8), (ord("h"), 1),
                       (ord("j"), 4), (0x95, 8)):  # fmt: skip
        kinds[code], sizes[code] = _FIXED, size
    for code in b"\x8cCU":
        kinds[code] = _COUNTED1
    for code in b"XBT":
        kinds[code] = _COUNTED4
    for code in b"\x8d\x8e":
        kinds[code] = _COUNTED8
    kinds[0x8A], kinds[ord("q")], kinds[ord("r")], kinds[0x94] = _LONG, _PUT1, _PUT4, _MEMOIZE
    for code in b"\x85\x86\x87":
        kinds[code] = _TUPLE
    return kinds, sizes


_KINDS, _SIZES = _table()
_WIDTHS = {_COUNTED1: 1, _COUNTED4: 4, _COUNTED8: 8}


class NotPlain(Exception):
    """The pickle is more than plain containers, or damaged; the message is a clause that says so."""


def operations(data: bytes) -> int:
    """How many operations the pickle has. Raises NotPlain for one that is not allowed, and where it is cut off."""
    at, count, memo, end = 0, 0, 0, len(data)
    scalars = 0  # numbers that were pushed one after the other just now
    kinds, sizes = _KINDS, _SIZES
    while at < end:
        code = data[at]
        kind = kinds[code]
        count += 1
        at += 1
        if kind == _FIXED:
            scalars = scalars + 1 if code in _SCALARS else 0
            at += sizes[code]
            if code == 0x2E:  # STOP
                return count
            continue
        if kind in _WIDTHS:
            width = _WIDTHS[kind]
            at += width + int.from_bytes(data[at : at + width], "little")
            scalars = 0
        elif kind == _MEMOIZE:
            memo += 1
        elif kind in (_PUT1, _PUT4):
            width = 1 if kind == _PUT1 else 4
            if int.from_bytes(data[at : at + width], "little") > memo:
                raise NotPlain("keeps values at places no pickler would choose")
            memo, at = memo + 1, at + width
        elif kind == _LONG:
            if at >= end or data[at] > 9:
                raise NotPlain("holds a number of more than 64 bits")
            at, scalars = at + 1 + data[at], scalars + 1
        elif kind == _TUPLE:
            if scalars < code - 0x84:
                raise NotPlain("holds a tuple of something other than numbers")
            scalars = 0
        else:
            raise NotPlain("is a pickle that builds or names objects")
        if at > end:
            break
    raise NotPlain("ends in the middle of its data")


class _Unpickler(pickle.Unpickler):
    """Python's unpickler without the means to reach anything."""

    def find_class(self, module: str, name: str) -> Any:
        raise NotPlain("is a pickle that builds or names objects")

    def persistent_load(self, pid: object) -> Any:
        raise NotPlain("is a pickle that builds or names objects")


def load(data: bytes) -> tuple[Any, int]:
    """What the pickle holds, and how many operations made it. Raises NotPlain."""
    count = operations(data)
    try:
        return _Unpickler(io.BytesIO(data)).load(), count
    except NotPlain:
        raise
    except Exception as error:  # whatever the unpickler makes of operations in an order no pickler writes
        raise NotPlain(f"is no valid pickle ({type(error).__name__})") from None
