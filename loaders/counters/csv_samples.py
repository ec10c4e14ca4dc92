"""Any CSV with a column of times: a column a counter, or a row a sample (its counter's name beside its value)."""

from __future__ import annotations

from ..loader import Job
from .loader import CounterLoader
from .recording import Reading
from .tables import read

_LIKE = "A table of samples has a column of times (timestamp, time, ts) and columns of numbers."


class CounterCsv(CounterLoader):
    """The loader of tables of samples that no known tool wrote."""

    name = "counters-csv"
    title = "CSV with a column of times: counters in columns, or a row a sample (metric, value)"
    suffixes = (".csv", ".tsv")
    version = 2
    too_wide = ""

    def read(self, text: bytes, job: Job) -> Reading | None:
        """The columns under each other."""
        return read(text)

    def advice(self, text: bytes) -> str:
        """What such a table has."""
        return _LIKE


LOADER = CounterCsv()
