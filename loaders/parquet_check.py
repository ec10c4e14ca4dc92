"""Validates the sizes declared in a Parquet file before polars allocates memory for them.

polars allocates for as many values as a page header declares: for −1 values it requests two exabytes, which aborts the
process without an exception. So the footer and all page headers are parsed here, as ``parquet.thrift`` of the format
specification defines them (Thrift compact protocol), and checked against each other and the file size. Page contents
are left to polars, which raises if they are damaged.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

_MAGIC = b"PAR1"
_TAIL = 8  # Bytes after the footer: its length and the magic.
_SURE_ROWS = 1 << 20
_ROWS_A_BYTE = 64
"""A row group may declare so many rows, or so many per byte of the file: no real table consists of constants only."""
_DEEPEST = 24  # Nesting depth of structs and lists; the format needs seven.
_HEADER, _LONGEST_HEADER = 512, 1 << 24
"""Bytes that hold most page headers, and any page header, even one with its page's longest string as statistics."""
_REPEATED = 2
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3  # Page types.

_Fields = dict[int, Any]


class Implausible(ValueError):
    """A Parquet file whose declared sizes contradict each other or the file size. The message ends a sentence."""


def check(path: Path) -> None:
    """Raises Implausible if a declared size cannot be true, OSError if the file cannot be read."""
    with path.open("rb") as source:
        try:
            data = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file
            raise Implausible("it is empty") from None
        with data:
            try:
                _file(data)
            except (LookupError, TypeError, AttributeError):  # a field is missing, of the wrong type, or past the end
                raise Implausible("what says where its columns are is damaged") from None


def _file(data: mmap.mmap) -> None:
    size = len(data)
    if size < 2 * _TAIL or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise Implausible("it does not begin and end as Parquet does")
    start = size - _TAIL - int.from_bytes(data[-_TAIL:-4], "little")
    if start < len(_MAGIC):
        raise Implausible("its footer is longer than the file")
    footer = Compact(data[start : size - _TAIL]).struct()
    flat = all(element.get(3) != _REPEATED for element in footer[2])
    for group in footer.get(4, ()):
        rows = group[3]
        if not 0 <= rows <= max(_SURE_ROWS, _ROWS_A_BYTE * size):
            raise Implausible(f"a part of it claims {rows:,} rows")
        for column in group[1]:
            _column(data, start, column[3], rows if flat else None)


def _column(data: mmap.mmap, end: int, column: _Fields, rows: int | None) -> None:
    """Check one column chunk; ``rows`` is its value count in a table without repeated fields, else None."""
    values, remaining = column[5], column[5]
    if values < 0 or (rows is not None and values != rows) or values > max(_SURE_ROWS, _ROWS_A_BYTE * len(data)):
        raise Implausible(f"a column claims {values:,} values")
    at = column[9] if column.get(11) is None else min(column[9], column[11])
    if column[7] < 0 or not len(_MAGIC) <= at <= end - column[7]:
        raise Implausible("a column is beyond the end")
    end = at + column[7]
    while remaining > 0:
        if at >= end:
            raise Implausible("a column ends before its values do")
        header = Compact(data[at : min(end, at + _HEADER)])
        try:
            page = header.struct()
        except IndexError:
            header = Compact(data[at : min(end, at + _LONGEST_HEADER)])
            page = header.struct()
        at += header.at
        packed, unpacked = page[3], page[2]
        if not 0 <= packed <= end - at or unpacked < 0:
            raise Implausible("a page is longer than its column")
        at += packed
        remaining -= _values(page, remaining, unpacked)


def _values(page: _Fields, remaining: int, unpacked: int) -> int:
    """Number of column values in the page, at most ``remaining``; 0 for a dictionary page."""
    kind = page[1]
    if kind == _DICTIONARY:
        if not 0 <= page[7][1] <= unpacked:
            raise Implausible(f"a dictionary claims {page[7][1]:,} values in {unpacked:,} bytes")
        return 0
    if kind not in (_DATA, _DATA_V2):
        return 0
    encoding = page[5 if kind == _DATA else 8]
    if not 0 <= encoding[1] <= remaining:
        raise Implausible(f"a page claims {encoding[1]:,} of {remaining:,} values")
    if kind == _DATA_V2 and not (0 <= encoding[2] <= encoding[1] and 0 <= encoding[3] <= encoding[1]
                                 and encoding[5] >= 0 and encoding[6] >= 0 and encoding[5] + encoding[6] <= unpacked):
        raise Implausible("the parts of a page are longer than the page")
    return int(encoding[1])


class Compact:
    """Decodes Thrift compact-protocol structs into dicts keyed by field number; doubles stay bytes. Raises IndexError
    if the bytes end early or are not this protocol. ``at`` is the offset of the next struct."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> _Fields:
        """Decode the struct at ``at``."""
        fields: _Fields = {}
        number = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            if not byte:
                return fields
            step, kind = byte >> 4, byte & 15
            number = number + step if step else self._signed()
            fields[number] = kind == 1 if kind < 3 else self._value(kind, depth + 1)

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise IndexError
        if 4 <= kind <= 6:
            return self._signed()
        if kind == 8:
            return self._bytes(self._varint())
        if kind == 12:
            return self.struct(depth)
        if kind in (9, 10):
            return self._list(depth)
        if kind in (1, 2, 3):  # a boolean in a list, a byte
            return self._bytes(1)[0]
        if kind == 7:
            return self._bytes(8)
        raise IndexError  # maps: Parquet uses none

    def _list(self, depth: int) -> list[Any]:
        byte = self._bytes(1)[0]
        count = self._varint() if byte >> 4 == 15 else byte >> 4
        if count > len(self._data) - self.at:  # each element takes at least one byte
            raise IndexError
        return [self._value(byte & 15, depth + 1) for _ in range(count)]

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise IndexError

    def _bytes(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if self.at > len(self._data):
            raise IndexError
        return self._data[begin : self.at]
