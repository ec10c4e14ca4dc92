"""Pickles of plain containers and nothing else: dicts, lists, texts, numbers, pairs of numbers.

A pickle is a program: it may name any function and have it called. This one may not. The bytes are read through once
first, and every operation that is not on the list refuses the file: nothing that names, builds or calls an object
passes, no number of more than 64 bits, no tuple that holds anything but numbers (deep ones would overflow the stack
when they are hashed), no place of the memo beyond as many as the file has bytes (a far one would take all memory), no
length beyond the end of the file. Only then is it given to Python's own unpickler, which is forbidden to look up any
name. Operations as ``pickletools`` of Python's library describes them; PyTorch writes protocol 4.

A snapshot of gigabytes of allocations has tens of millions of operations, so those that need no look at what they say
are passed by one regular expression, a stretch at a time: five times as fast as a loop over them.
"""

from __future__ import annotations

import io
import pickle
import re
from functools import cache
from typing import Any

_LONGS = b"|".join(b"\\x%02x.{%d}" % (size, size) for size in (8, 7, 6, 5, 9, 4, 3, 2, 1, 0))
_NUMBER = rb"(?:K.|\x8a(?:%s)|J....|M..|[N\x88\x89])" % _LONGS
"""Operations that push a number or none: of these a tuple may be made."""
_TUPLED = rb"(?=[KMJN\x88\x89\x8a\x85])(?:\x85|%s\x86|%s%s\x87)" % ((_NUMBER,) * 3)
"""What makes a tuple of the number before it and up to two more; the look ahead saves most tries."""
_SHORT = b"|".join(b"\\x%02x.{%d}" % (size, size) for size in range(256))
_COUNTED = {0x58: 4, 0x42: 4, 0x54: 4, 0x8D: 8, 0x8E: 8}  # Texts and bytes whose lengths are four and eight bytes.
_LENGTHS = {ord(code): size for code, size in zip("KhqMJjrG\x95\x80", (1, 1, 1, 2, 4, 4, 4, 8, 8, 1), strict=True)}
"""How many bytes follow operations of one size."""
_STOP, _LONG, _PUT, _TUPLES = 0x2E, 0x8A, 0x72, (0x85, 0x86, 0x87)


@cache
def _harmless(memo: int) -> re.Pattern[bytes]:
    """Any number of operations that do no harm whatever they say, with places of the memo about up to ``memo`` * 65536.
    """
    high = rb"[\x00-\x%02x]\x00" % memo if memo < 256 else rb".[\x00-\x%02x]" % min(memo >> 8, 255)
    harmless = (
        rb"h.[}\])(aesudl012\x94]*+", rb"[}\])(aesudl012\x94]++", rb"j....", rb"%s(?:%s)?+" % (_NUMBER, _TUPLED),
        rb"q.", rb"[\x8cCU](?:%s)" % _SHORT, rb"G.{8}", rb"\x95.{8}", rb"\x80.", rb"r..%s" % high,
    )
    return re.compile(rb"(?:%s)*+" % b"|".join(harmless), re.DOTALL)


class NotPlain(Exception):
    """The pickle is more than plain containers, or damaged; the message is a clause that says so."""


def check(data: bytes) -> None:
    """Raises NotPlain for an operation that is not allowed, and where the pickle is cut off."""
    at, end, code = 0, len(data), -1
    harmless = _harmless(end >> 16)
    while at < end:
        match = harmless.match(data, at)
        at = match.end() if match else at
        code = data[at] if at < end else -1
        if code == _STOP:
            return
        if code not in _COUNTED:
            break
        begin = at + 1 + _COUNTED[code]
        at = begin + int.from_bytes(data[at + 1 : begin], "little")
    if at + 1 < end and code == _LONG and data[at + 1] > 9:
        raise NotPlain("holds a number of more than 64 bits")
    if at >= end or at + 1 + _length(data, at) > end:
        raise NotPlain("ends in the middle of its data")
    if code == _PUT:
        raise NotPlain("keeps values at places no pickler would choose")
    if code in _TUPLES:
        raise NotPlain("holds a tuple of something other than numbers")
    raise NotPlain("is a pickle that builds or names objects")


def _length(data: bytes, at: int) -> int:
    """How many bytes belong to the operation there, as far as it is one that is passed."""
    if data[at] in b"\x8cCU\x8a":
        return 1 + (data[at + 1] if at + 1 < len(data) else 0)
    return _LENGTHS.get(data[at], 0)


class _Unpickler(pickle.Unpickler):
    """Python's unpickler without the means to reach anything."""

    def find_class(self, module: str, name: str) -> Any:
        raise NotPlain("is a pickle that builds or names objects")

    def persistent_load(self, pid: object) -> Any:
        raise NotPlain("is a pickle that builds or names objects")


def load(data: bytes) -> Any:
    """What the pickle holds. Raises NotPlain."""
    check(data)
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except NotPlain:
        raise
    except Exception as error:  # whatever the unpickler makes of operations in an order no pickler writes
        raise NotPlain(f"is no valid pickle ({type(error).__name__})") from None
