"""CSV of ``rocm-smi`` and ``amd-smi``: a row a device and, where they were told to watch, a time before it.

rocm-smi prints a table for each question, with its unit in the heading (``Average Graphics Package Power (W)``), and no
time: who logs it in a loop writes one before each row, or has none. amd-smi has its units in its documentation alone:
watts, degrees Celsius, MHz, percent, and memory in units of 2^20 bytes called MB.
"""

from __future__ import annotations

import re
from itertools import pairwise

import polars as pl

from ..errors import Unreadable
from ..ingest import stream
from ..loader import FormatLoader, Job
from ..trace import Trace
from .families import family
from .recording import COLUMNS, Reading, trace
from .tables import TooWide, read

_HEADER = re.compile(rb"(?m)^ ?(?:[\w ]{0,16}time[\w ]{0,16}, ?)?(?:device|gpu) ?,[^\r\n]*", re.I)
_MOST_TABLES = 64
"""Tables with headers of their own; rocm-smi writes one for each question."""
_UNITS = (
    (r"power", "W"), (r"temp", "C"), (r"_util|_activity|^gfx%?$|^mem%?$|usage$|use$", "%"), (r"clock|clk|freq", "MHz"),
    (r"^vram|^mem_used|^total_vram|^used_vram|^free_vram", "MiB"), (r"^pcie_bw", "Mb/s"), (r"voltage", "mV"),
)
_AGAIN = "Record it again, as in `amd-smi monitor --csv -w 1` or `rocm-smi --showuse --showpower --csv`."


def unit_of(name: str) -> str:
    """The unit of a column of amd-smi; '' for what has none."""
    return next((unit for pattern, unit in _UNITS if re.search(pattern, name)), "")


class AmdSmi(FormatLoader):
    """The loader of the logs of rocm-smi and amd-smi."""

    name = "amd-smi"
    title = "amd-smi and rocm-smi as CSV (counters)"
    suffixes = (".csv",)
    version = 1
    fills = ("metrics",)
    lies_beside = True

    def sniff(self, head: bytes) -> bool:
        """A header that begins with the device, after a time at most, and has columns of AMD's tools."""
        return family(head) == "amd-smi"

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``metrics``. Raises Unreadable where it holds no sample."""
        text, ended = stream.whole(job.path)
        job.progress(len(text) // 2, len(text), 0)
        try:
            blocks = _blocks(text)
            readings = [found for block in blocks[:_MOST_TABLES] if (found := read(block, unit_of)) is not None]
        except TooWide as error:
            raise Unreadable(job.path, f"has {error}, which no monitor writes", _AGAIN) from None
        found = _together(readings)
        if found.samples.is_empty():
            raise Unreadable(job.path, "holds no row of samples", _AGAIN)
        if lost := len(blocks) - _MOST_TABLES if len(blocks) > _MOST_TABLES else 0:
            found.warnings.append(f"{lost:,} tables with other headers were left out.")
        if ended:
            found.warnings.append(f"The file is not whole: {ended}.")
        made = trace(job, self.name, found, len(text))
        job.progress(len(text), len(text), found.samples.height)
        return (made,)


def _blocks(text: bytes) -> list[bytes]:
    """The tables of the file: all rows under headers that are the same together, each such header once."""
    starts = [match.start() for match in _HEADER.finditer(text)]
    bodies: dict[bytes, list[bytes]] = {}
    for start, end in pairwise([*starts, len(text)]):
        header, _, rows = text[start:end].partition(b"\n")
        bodies.setdefault(header.strip(), []).append(rows if rows.endswith(b"\n") else rows + b"\n")
    return [header + b"\n" + b"".join(rows) for header, rows in bodies.items()] or [text]


def _together(readings: list[Reading]) -> Reading:
    clocks = {found.clock for found in readings}
    return Reading(
        pl.concat([found.samples for found in readings]) if readings else pl.DataFrame(schema=COLUMNS),
        clocks.pop() if len(clocks) == 1 else None, "amd-smi",
        {name: product for found in readings for name, product in found.devices.items()},
        left_out=[column for found in readings for column in found.left_out],
        untimed="the tool wrote no times: its samples are shown in their order (amd-smi monitor -w writes them)",
    )


LOADER = AmdSmi()
