"""What was wrong in a file, counted, and the sentences that say so: the same words in every format.

Without polars, which a small trace does not need before it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from threading import Lock

NO_NUMBER, NOT_FINITE, OUT_OF_RANGE = "no number", "not finite", "out of range"
ROUNDED = "rounded by a spreadsheet: the last digits are gone"
NO_TIME, BACKWARDS = "no time (0)", "ends before it starts"
SINCE_BOOT = 10**12
"""Where every other time of a file is later than this (ns, 17 minutes), a time of 0 is no time."""


class Faults:
    """What was wrong in a file: wrong cells by table, column and reason, rows left out (``longer``: for they have more
    cells than the table has headings), and sentences."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self.longer: Counter[str] = Counter()
        self.sentences: list[str] = []
        self._wrong: Counter[tuple[str, str, str]] = Counter()
        self._lock = Lock()  # blocks of a table are decoded on several threads

    def wrong(self, table: str, column: str, reason: str, count: int = 1) -> None:
        """Count wrong cells of a column."""
        if count:
            with self._lock:
                self._wrong[table, column, reason] += count

    def add(self, other: Faults) -> None:
        """Add what another counted."""
        for (table, column, reason), count in other._wrong.items():
            self.wrong(table, column, reason, count)
        self.left_out.update(other.left_out)
        self.longer.update(other.longer)
        self.sentences += other.sentences

    def warnings(self) -> list[str]:
        """All problems as sentences, one per table and reason."""
        columns: dict[tuple[str, str], dict[str, int]] = {}
        for (table, column, reason), count in self._wrong.items():
            columns.setdefault((table, reason), {})[column] = count
        return [
            *self.sentences,
            *(_sentence(table, reason, counts) for (table, reason), counts in columns.items()),
            *(f"{count:,} row{'s' if count > 1 else ''} of {table} without a time or a name "
              f"{'were' if count > 1 else 'was'} left out" for table, count in self.left_out.items()),
            *(f"{count:,} row{'s' if count > 1 else ''} of {table} with more cells than headings "
              f"{'were' if count > 1 else 'was'} left out" for table, count in self.longer.items()),
        ]


def _sentence(table: str, reason: str, counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    what = "1 value" if total == 1 else f"{total:,} values"
    return f"{what} of {table} ({', '.join(counts)}) could not be read: {reason}"


def timeless_launches(count: int, of: int) -> str:
    """The sentence for launches without a start."""
    return f"{count:,} of {of:,} launches carry no time: they are counted, and in no sum"


def timeless_calls(count: int, of: int) -> str:
    """The sentence for calls, operators and ranges without a start."""
    return f"{count:,} of {of:,} calls and ranges carry no time: they are counted, and in no sum"
