"""What ``dcgmi dmon`` prints: one row per device (``GPU 0``, ``GPU-I 3``), fields under the short tags of DCGM.

It writes no times; who wants them puts them before each line (``dcgmi dmon -e 203 | ts '%Y-%m-%dT%H:%M:%.S'``), which
is read, too. The header is repeated and has a second line with "ID" and, in newer versions, units.
"""

from __future__ import annotations

import re

import polars as pl

from ..loader import Job
from . import quantities, times
from .dcgm_fields import unit_of
from .loader import CounterLoader
from .recording import CounterColumn, Reading, melted, put_together

_ROW = re.compile(
    r"^(?P<when>[^#]{0,40}?)\s*(?P<device>(?:GPU|GPU[-_]C?I|Switch|CPU|Core) ?\d{1,6}(?:/\d{1,6}){0,3})\s+"
    r"(?P<rest>\S.*)$"
)
_UNITS = re.compile(r"(?:^|\s)ID(?:\s|$)")
"""The second line of a header."""
_MOST_HEADERS = 64


class Dcgmi(CounterLoader):
    """The loader of logs of dcgmi dmon."""

    name = "dcgmi"
    title = "dcgmi dmon (counters)"
    suffixes = (".txt", ".log")
    version = 2
    advice = "Record it again, as in `dcgmi dmon -e 203,1002,155 -d 100`."

    def read(self, text: bytes, job: Job) -> Reading:
        """The rows under the header that stands above them."""
        return _read(text.decode("utf-8", "replace"))


def _read(text: str) -> Reading:
    blocks: dict[tuple[str, ...], list[tuple[str, str, list[str]]]] = {}
    rows: list[tuple[str, str, list[str]]] | None = None
    width = stray = 0
    for line in text.split("\n"):
        before, mark, names = line.partition("#")
        if mark and len(before) <= 40 and names.strip().startswith("Entity"):
            fields = tuple(names.split()[1:])
            rows = blocks.setdefault(fields, []) if fields in blocks or len(blocks) < _MOST_HEADERS else None
            width = len(fields)
            continue
        row = _ROW.match(line[:100_000])
        cells = row["rest"].split() if row else []
        if row and rows is not None and len(cells) == width:
            rows.append((row["when"], row["device"], cells))
        elif line.strip() and not _UNITS.search(line[:60]):
            stray += 1
    untimed = "dcgmi dmon writes no times: its samples are shown in their order"
    return put_together([_block(fields, rows) for fields, rows in blocks.items() if rows], "dcgmi dmon", untimed, stray)


def _block(fields: tuple[str, ...], rows: list[tuple[str, str, list[str]]]) -> tuple[pl.DataFrame, str | None]:
    when, devices, cells = zip(*rows, strict=True)
    at = times.read(pl.Series(when, dtype=pl.String))
    tracks = []
    for number, name in enumerate(fields):
        numbers = quantities.numbers(pl.Series([row[number] for row in cells], dtype=pl.String), unit_of(name))
        if numbers is not None:
            tracks.append(CounterColumn(name, *numbers))
    spaced = [re.sub(r"^(GPU) ?(\d)", r"\1 \2", device) for device in devices]
    return melted(tracks, at, pl.Series(spaced, dtype=pl.String), None), None if at is None else at.clock


LOADER = Dcgmi()
