"""A CSV file of any size as frames of text, a block at a time.

A block ends at the end of a line that is outside quotes, for what a program says in a marker may hold a line's end.
Names of columns are in lower case. Nothing is converted here.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ... import csv_table
from ...ingest.stream import Source, line_blocks
from .headers import columns

_MOST_JOINED = 4


def frames(source: Source, size: int = 8 << 20, header: list[str] | None = None) -> Iterator[pl.DataFrame]:
    """Blocks of rows; ``header`` names the columns where the file does not. None where its first line names none."""
    for block in _whole_rows(source, size):
        if header is None:
            header = columns(block)
            if not header:
                return
            cut = block.find(b"\n") + 1
            block = block[cut:] if cut else b""
            header = [name if header.index(name) == at else f"{name} ({at})" for at, name in enumerate(header)]
        if block.strip():
            rows = csv_table.read(block, header)
            if rows.columns != header and rows.width == len(header):  # a damaged header is not read alike by all
                rows.columns = header
            yield rows.filter(~pl.all_horizontal(pl.all().is_null()))


def _whole_rows(source: Source, size: int) -> Iterator[bytes]:
    waiting, joined = b"", 0
    for block in line_blocks(source, size):
        waiting = waiting + block if waiting else block
        joined += 1
        if waiting.count(b'"') % 2 and joined < _MOST_JOINED:
            continue
        yield waiting
        waiting, joined = b"", 0
    if waiting:
        yield waiting
