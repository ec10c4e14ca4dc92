"""CSV of ``rocm-smi`` and ``amd-smi``: one row per device and, in watch mode, a time before it.

rocm-smi prints one table per query, with the unit in the heading (``Average Graphics Package Power (W)``) and without
times: a script that logs it in a loop has to write one before each row. amd-smi gives its units only in its
documentation: watts, degrees Celsius, MHz, percent, and memory in units of 2^20 bytes called MB.
"""

from __future__ import annotations

import re
from itertools import pairwise

import polars as pl

from ..loader import Job
from ..recording.faults import Faults
from .loader import CounterLoader, read
from .recording import COLUMNS, Reading

_HEADER = re.compile(rb"(?m)^ ?(?:[\w ]{0,16}time[\w ]{0,16}, ?)?(?:device|gpu) ?,[^\r\n]*", re.I)
_MOST_TABLES = 64  # Maximum number of tables with different headers; rocm-smi writes one per query.
_UNITS = (
    (r"power", "W"), (r"temp", "C"), (r"_util|_activity|^gfx%?$|^mem%?$|usage$|use$", "%"), (r"clock|clk|freq", "MHz"),
    (r"^vram|^mem_used|^total_vram|^used_vram|^free_vram", "MiB"), (r"^pcie_bw", "Mb/s"), (r"voltage", "mV"),
)


def unit_of(name: str) -> str:
    """The unit of a column of amd-smi; '' if it has none."""
    return next((unit for pattern, unit in _UNITS if re.search(pattern, name)), "")


class AmdSmi(CounterLoader):
    """The loader of the logs of rocm-smi and amd-smi."""

    name = "amd-smi"
    title = "amd-smi and rocm-smi as CSV (counters)"
    suffixes = (".csv",)
    version = 6
    advice = "Record it again, as in `amd-smi monitor --csv -w 1` or `rocm-smi --showuse --showpower --csv`."

    def read(self, text: bytes, job: Job) -> Reading:
        """The samples of all tables of the file, concatenated."""
        blocks = _blocks(text)
        reading = _together([one for block in blocks[:_MOST_TABLES] if (
            one := read(block, job.path.name, unit_of, binary=True)) is not None])
        if (lost := len(blocks) - _MOST_TABLES) > 0:
            reading.warnings.append(f"{lost:,} tables with other headers were left out.")
        return reading


def _blocks(text: bytes) -> list[bytes]:
    """The tables of the file: one per distinct header, with all rows that follow any copy of that header."""
    starts = [match.start() for match in _HEADER.finditer(text)]
    bodies: dict[bytes, list[bytes]] = {}
    for start, end in pairwise([*starts, len(text)]):
        header, _, rows = text[start:end].partition(b"\n")
        bodies.setdefault(header.strip(), []).append(rows if rows.endswith(b"\n") else rows + b"\n")
    return [header + b"\n" + b"".join(rows) for header, rows in bodies.items()] or [text]


def _together(readings: list[Reading]) -> Reading:
    clocks = {reading.clock for reading in readings}
    return Reading(
        pl.concat([reading.samples for reading in readings]) if readings else pl.DataFrame(schema=COLUMNS),
        clocks.pop() if len(clocks) == 1 else None, "amd-smi",
        {name: product for reading in readings for name, product in reading.devices.items()},
        faults=_all(readings), left_out=[column for reading in readings for column in reading.left_out],
        untimed="the log has no timestamps: samples are shown in file order (amd-smi monitor -w records times)",
    )


def _all(readings: list[Reading]) -> Faults:
    faults = Faults()
    for reading in readings:
        faults.add(reading.faults)
    return faults


LOADER = AmdSmi()
