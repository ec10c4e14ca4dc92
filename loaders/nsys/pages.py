"""Reads columns of an SQLite table directly from the file's pages, a block of rows at a time.

A database engine returns rows one value at a time: half a million rows per second in Python. A table is a b-tree of
pages; a leaf page holds records; a record is a header of type codes followed by the values
(https://sqlite.org/fileformat2.html, stable since 2004). Codes 1 to 6 are integers of growing width, 7 is a float, 8
and 9 are 0 and 1 without bytes; from 12 on, even codes are blobs and odd ones text, and the code gives the length.
The records of many pages are decoded together by array operations with checked indices. Anything unusual (a record that
overflows its page, a WITHOUT ROWID table, an invalid page) raises ``Unusual``, and the caller falls back to SQLite.

Measured for 16 columns of a million kernels (two cores, November 2026): 0.38 s and 0.6 s of CPU time, against 0.81 and
1.4 for connectorx, 1.38 and 1.4 for ADBC's driver, 5.4 for Python's sqlite3.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from typing import Any

import numpy as np

BLOCK_BYTES = 4 << 20  # Bytes of pages decoded together: some 50,000 records.
PAD = 16  # Zero bytes after the pages, so that eight bytes can be read at any position.
_LEAF, _INTERIOR = 0x0D, 0x05
_NULL, _REAL, _ONE, _LENGTHS = 0, 7, 9, 12  # Type codes; from ``_LENGTHS`` on they encode a length.
_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0], dtype=np.int64)  # Bytes per value of codes 0 to 11.
_SHIFTS = np.array([63, 56, 48, 40, 32, 24, 16, 8, 0], dtype=np.int64)
Ints = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Unusual(Exception):
    """Raised for anything this reader leaves to SQLite."""


class Column:
    """A decoded column: ``values`` (for text: the lengths, with the positions in ``starts``), ``valid`` where not null.

    Where a number is stored as a float (``real``), its bits are in ``raw``.
    """

    __slots__ = ("raw", "real", "starts", "valid", "values")

    def __init__(
        self, values: Ints, valid: Mask, starts: Ints | None = None, raw: Ints | None = None, real: Mask | None = None
    ) -> None:
        self.values, self.valid, self.starts, self.raw, self.real = values, valid, starts, raw, real

    def integers(self) -> Ints:
        """The values as integers. Raises Unusual if any is a float."""
        if self.raw is not None:
            raise Unusual
        return self.values

    def floats(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The values as floating-point numbers."""
        if self.raw is None or self.real is None:
            return self.values.astype(np.float64)
        return np.where(self.real, self.raw.view(np.float64), self.values)


class RecordBlock:
    """Records in order: their rowids, and the requested columns by position in the table."""

    def __init__(self, data: Bytes, rowids: Ints, columns: dict[int, Column]) -> None:
        self.data, self.rowids, self.columns = data, rowids, columns
        self.rows = len(rowids)

    def text(self, column: int) -> list[str | None]:
        """The texts of a column; invalid UTF-8 becomes replacement characters."""
        column_values = self.columns[column]
        assert column_values.starts is not None
        data = self.data.tobytes()
        starts, lengths = column_values.starts.tolist(), column_values.values.tolist()
        return [
            str(data[start : start + length], "utf-8", "replace") if valid else None
            for start, length, valid in zip(starts, lengths, column_values.valid.tolist(), strict=True)
        ]




def decoded(data: Bytes, cells: Ints, ends: Ints, limit: int, ints: Sequence[int], texts: Sequence[int]) -> RecordBlock:
    """The columns of the records that begin at ``cells`` and end before ``ends``, none longer than ``limit``. Indices
    are clipped to the data and verified only at the end, when all sizes are known. Raises Unusual.
    """
    rows, columns = len(cells), dict[int, Column]()
    payload, at = _varint(data, cells)
    if rows and int(payload.max()) > limit:
        raise Unusual  # a record that continues on an overflow page
    rowids, at = _varint(data, at)
    if rows and bool((at + payload > ends).any()):
        raise Unusual
    header, pos = _varint(data, at)
    body, header_end, end = at + header, at + header, at + payload
    words = np.ndarray((len(data) - 7,), dtype=">i8", buffer=data.data, strides=(1,))
    for column in range(max((*ints, *texts), default=-1) + 1):
        code: Ints | Bytes = data.take(pos, mode="clip")
        lowest, most_code = (int(code.min()), int(code.max())) if rows else (0, 0)
        if most_code >= _LENGTHS:
            code, pos = _varint(data, np.minimum(pos, len(data) - PAD))
            size: Ints | int = np.where(code >= _LENGTHS, (code - _LENGTHS) >> 1, _SIZES.take(code, mode="clip"))
        else:
            size = int(_SIZES[lowest]) if lowest == most_code else _SIZES.take(code, mode="clip")
            pos += 1
        if column in texts:
            columns[column] = Column(np.broadcast_to(size, code.shape), (code >= _LENGTHS) & (code % 2 == 1), body)
        elif column in ints:
            same = lowest if lowest == most_code < _LENGTHS else None
            columns[column] = _numbers(words, body, size, code, same)
        if not isinstance(size, int) or size:
            body = body + size
        if most_code >= _LENGTHS and bool((body > end).any()):
            raise Unusual
    # Everything above used indices clipped to the block; this verifies them.
    if rows and (bool((pos > header_end).any()) or bool((body > end).any())):
        raise Unusual  # fewer columns than the table: a column was added after the record was written
    return RecordBlock(data, rowids, columns)


def _numbers(
    words: np.ndarray[Any, Any], body: Ints, size: Ints | int, code: Ints | Bytes, same: int | None
) -> Column:
    """Integers of any width: eight bytes are read, and an arithmetic shift drops the excess ones.

    ``same`` is the code shared by all rows, as in most columns; None if they differ.
    """
    if same is not None and size == 0:
        return Column(np.full(len(code), same == _ONE, dtype=np.int64), np.full(len(code), same != _NULL))
    raw = words[np.minimum(body, len(words) - 1)].astype(np.int64)
    value = raw >> _SHIFTS.take(size, mode="clip")
    if same is not None:
        real = np.full(len(code), same == _REAL)
        return Column(value, np.ones(len(code), dtype=bool), raw=raw if same == _REAL else None, real=real)
    constant = size == 0
    if bool(np.any(constant)):
        value[constant] = code[constant] == _ONE
    real = code == _REAL
    return Column(value, (code != _NULL) & (code < _LENGTHS), raw=raw if bool(real.any()) else None, real=real)


def _varint(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """SQLite's variable-length integers at these positions, and the positions after them."""
    value = data[at].astype(np.int64)
    at = at + 1
    more = np.flatnonzero(value >= 128)
    if len(more):
        value[more] &= 127
    for _ in range(7):
        if not len(more):
            return value, at
        byte = data[at[more]]
        value[more] = value[more] << 7 | (byte & 127)
        at[more] += 1
        more = more[byte >= 128]
    if len(more):
        raise Unusual  # nine bytes: no length, type code or rowid is that large
    return value, at


class Pages:
    """The pages of a database file. Raises Unusual if its layout is not as expected, OSError like ``open``.

    Pages are read, not memory-mapped: a mapped file counts as memory in use, and kills the process if it shrinks.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = FileIO(path)
        self._buffers = threading.local()
        head = os.pread(self._file.fileno(), 100, 0)
        if len(head) < 100:
            self.close()
            raise Unusual
        size = int.from_bytes(head[16:18], "big")
        self.size = 65536 if size == 1 else size
        self.usable = self.size - head[20]
        if self.size < 512 or self.usable < 480 or int.from_bytes(head[56:60], "big") not in (0, 1):
            self.close()
            raise Unusual
        self.at_once = max(1, BLOCK_BYTES // self.size)
        self.count = os.fstat(self._file.fileno()).st_size // self.size

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def leaves(self, root: int) -> Ints:
        """The numbers (0-based) of a table's leaf pages in row order; ``root`` is the number (1-based) of its root."""
        level = np.array([root - 1], dtype=np.int64)
        with _inside():
            for _ in range(20):
                self._check(level)
                if self._page(int(level[0]))[100 if level[0] == 0 else 0] == _LEAF:
                    return level  # all pages of this level are leaves, else ``block`` raises
                if len(level) > self.count:
                    break
                level = np.concatenate([self._children(int(page)) for page in level])
        raise Unusual

    def block(self, leaves: Ints, ints: Sequence[int], texts: Sequence[int]) -> RecordBlock:
        """The records of these leaf pages in order, with the columns at these positions decoded.

        The result is valid until the same thread calls ``block`` again.
        """
        with _inside():
            self._check(leaves)
            data = self._read(leaves)
            cells, ends = self.cells(data, leaves)
            return decoded(data, cells, ends, self.usable - 35, ints, texts)

    def cells(self, data: Bytes, leaves: Ints) -> tuple[Ints, Ints]:
        """Where each record in these leaf pages begins, and where its page ends. Raises Unusual."""
        base = np.arange(len(leaves), dtype=np.int64) * self.size
        header = base + np.where(leaves == 0, 100, 0)
        if (data[header] != _LEAF).any():
            raise Unusual
        counts = _big(data, header + 3, 2)
        if ((header - base) + 8 + 2 * counts > self.usable).any():
            raise Unusual
        page = np.repeat(np.arange(len(leaves), dtype=np.int64), counts)
        nth = np.arange(len(page), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
        return base[page] + _big(data, header[page] + 8 + 2 * nth, 2), base[page] + self.usable

    def _check(self, pages: Ints) -> None:
        if len(pages) and (int(pages.min()) < 0 or int(pages.max()) >= self.count):
            raise Unusual

    def _read(self, leaves: Ints) -> Bytes:
        """The pages in one buffer owned by this thread, followed by zeros."""
        size = len(leaves) * self.size
        buffer: Bytes | None = getattr(self._buffers, "buffer", None)
        if buffer is None or len(buffer) < size + PAD:
            # Allocating costs more than reading into the buffer: every new memory page is a page fault.
            self._buffers.buffer = buffer = np.empty(size + PAD, dtype=np.uint8)
        data = buffer[: size + PAD]
        data[size:] = 0
        view, filled = data.data, 0
        for run in np.split(leaves, np.flatnonzero(np.diff(leaves) != 1) + 1):
            wanted = len(run) * self.size
            if os.preadv(self._file.fileno(), [view[filled : filled + wanted]], int(run[0]) * self.size) != wanted:
                raise Unusual  # the file was truncated meanwhile
            filled += wanted
        return data

    def _page(self, page: int) -> Bytes:
        page_bytes = os.pread(self._file.fileno(), self.size, page * self.size)
        if len(page_bytes) != self.size:
            raise Unusual
        return np.frombuffer(page_bytes, dtype=np.uint8)

    def _children(self, page: int) -> Ints:
        data, start = self._page(page), 100 if page == 0 else 0
        if data[start] != _INTERIOR:
            raise Unusual
        count = int(data[start + 3]) << 8 | int(data[start + 4])
        if start + 12 + 2 * count > self.usable:
            raise Unusual
        at = _big(data, start + 12 + 2 * np.arange(count, dtype=np.int64), 2)
        if len(at) and int(at.max()) + 4 > self.usable:
            raise Unusual
        last = _big(data, np.array([start + 8], dtype=np.int64), 4)
        return np.concatenate([_big(data, at, 4), last]) - 1


@contextmanager
def _inside() -> Iterator[None]:
    """Turns an out-of-range index into Unusual."""
    try:
        yield
    except IndexError:
        raise Unusual from None


def _big(data: Bytes, at: Ints, width: int) -> Ints:
    """Big-endian unsigned integers of ``width`` bytes at these positions."""
    value = data[at].astype(np.int64)
    for byte in range(1, width):
        value = value << 8 | data[at + byte]
    return value
