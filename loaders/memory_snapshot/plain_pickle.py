"""Safe loading of pickles that contain only plain data: dicts, lists, strings, numbers, tuples of numbers.

A pickle is a program that may call any function, so the bytes are validated first. Any opcode not on the allowlist
rejects the file. Rejected are: opcodes that look up, build or call objects; numbers of more than 64 bits; tuples of
anything but numbers (hashing deeply nested ones overflows the stack); memo indices beyond the number of bytes of the
file (a large index would exhaust memory); lengths beyond the end of the file. Only then does Python's own unpickler
load it, with all name lookups disabled. Opcodes are described in ``pickletools`` of the standard library; PyTorch
writes protocol 4.

A snapshot of gigabytes of allocations has tens of millions of opcodes. Those that are harmless whatever their argument
are matched in runs by one regular expression, five times as fast as a loop over them.
"""

from __future__ import annotations

import io
import pickle
import re
from functools import cache
from typing import Any

_LONGS = b"|".join(b"\\x%02x.{%d}" % (size, size) for size in (8, 7, 6, 5, 9, 4, 3, 2, 1, 0))
_NUMBER = rb"(?:K.|\x8a(?:%s)|J....|M..|[N\x88\x89])" % _LONGS
"""Opcodes that push a number, None or a boolean, the permitted elements of tuples."""
_TUPLED = rb"(?=[KMJN\x88\x89\x8a\x85])(?:\x85|%s\x86|%s%s\x87)" % ((_NUMBER,) * 3)
"""Opcodes that make a tuple of the preceding number and up to two more; the lookahead avoids most attempts."""
_SHORT = b"|".join(b"\\x%02x.{%d}" % (size, size) for size in range(256))
_COUNTED = {0x58: 4, 0x42: 4, 0x54: 4, 0x8D: 8, 0x8E: 8}  # String opcodes → size of their length field.
_LENGTHS = {ord(code): size for code, size in zip("KhqMJjrG\x95\x80", (1, 1, 1, 2, 4, 4, 4, 8, 8, 1), strict=True)}
"""Opcode → number of argument bytes, for opcodes with a fixed size."""
_STOP, _LONG, _PUT, _TUPLES = 0x2E, 0x8A, 0x72, (0x85, 0x86, 0x87)
_MARKED = (0x28, 0x74, 0x29)  # A mark, the tuple of what follows it, the empty tuple.
_MOST_TUPLES = 50_000


@cache
def _harmless(memo: int) -> re.Pattern[bytes]:
    """Matches a run of opcodes that are harmless whatever their argument, with memo indices up to about
    ``memo`` * 65536."""
    high = rb"[\x00-\x%02x]\x00" % memo if memo < 256 else rb".[\x00-\x%02x]" % min(memo >> 8, 255)
    harmless = (
        rb"h.[}\])(aesudl012\x94]*+", rb"[}\])(aesudl012\x94]++", rb"j....", rb"%s(?:%s)?+" % (_NUMBER, _TUPLED),
        rb"q.", rb"[\x8cCU](?:%s)" % _SHORT, rb"G.{8}", rb"\x95.{8}", rb"\x80.", rb"r..%s" % high,
    )
    return re.compile(rb"(?:%s)*+" % b"|".join(harmless), re.DOTALL)


class NotPlain(Exception):
    """The pickle contains more than plain data, or is damaged; the message is a clause saying so."""


def check(data: bytes, tuples: bool = False) -> None:
    """Raises NotPlain for a forbidden opcode or a truncated pickle. With ``tuples``, tuples of anything are allowed,
    but no more than can be nested in one another."""
    at, end, code, built = 0, len(data), -1, 0
    harmless = _harmless(end >> 16)
    while at < end:
        match = harmless.match(data, at)
        at = match.end() if match else at
        code = data[at] if at < end else -1
        if code == _STOP:
            return
        if tuples and code in (*_TUPLES, *_MARKED) and built < _MOST_TUPLES:
            at, built = at + 1, built + 1
            continue
        if code not in _COUNTED:
            break
        begin = at + 1 + _COUNTED[code]
        at = begin + int.from_bytes(data[at + 1 : begin], "little")
    if at + 1 < end and code == _LONG and data[at + 1] > 9:
        raise NotPlain("holds a number of more than 64 bits")
    if at >= end or at + 1 + _length(data, at) > end:
        raise NotPlain("ends in the middle of its data")
    if code == _PUT:
        raise NotPlain("stores values at positions no pickler would choose")
    if code in _TUPLES:
        raise NotPlain("holds a tuple of something other than numbers")
    raise NotPlain("is a pickle that builds or names objects")


def _length(data: bytes, at: int) -> int:
    """Number of argument bytes of the opcode at ``at``; 0 for unknown opcodes."""
    if data[at] in b"\x8cCU\x8a":
        return 1 + (data[at + 1] if at + 1 < len(data) else 0)
    return _LENGTHS.get(data[at], 0)


class _Unpickler(pickle.Unpickler):
    """Python's unpickler with name lookups and persistent ids disabled."""

    def find_class(self, module: str, name: str) -> Any:
        raise NotPlain("is a pickle that builds or names objects")

    def persistent_load(self, pid: object) -> Any:
        raise NotPlain("is a pickle that builds or names objects")


def load(data: bytes, tuples: bool = False) -> Any:
    """Check and load the pickle. Raises NotPlain."""
    check(data, tuples)
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except NotPlain:
        raise
    except Exception as error:  # the unpickler may raise anything for opcodes in an invalid order
        raise NotPlain(f"is not a valid pickle ({type(error).__name__})") from None
