"""Any CSV with a column of times: a column a counter, or a row a sample (its counter's name beside its value)."""

from __future__ import annotations

from ..errors import Unreadable
from ..ingest import stream
from ..loader import FormatLoader, Job
from ..trace import Trace
from .families import family
from .recording import trace
from .tables import TooWide, read

_LIKE = "A table of samples has a column of times (timestamp, time, ts) and columns of numbers."


class CounterCsv(FormatLoader):
    """The loader of tables of samples that no known tool wrote."""

    name = "counters-csv"
    title = "CSV with a column of times: counters in columns, or a row a sample (metric, value)"
    suffixes = (".csv", ".tsv")
    version = 1
    fills = ("metrics",)
    lies_beside = True

    def sniff(self, head: bytes) -> bool:
        """A header with a column of times, rows whose times do not go back, and numbers."""
        return family(head) == "counters-csv"

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``metrics``. Raises Unreadable where it holds no sample."""
        text, ended = stream.whole(job.path)
        job.progress(len(text) // 2, len(text), 0)
        try:
            found = read(text)
        except TooWide as error:
            raise Unreadable(job.path, f"has {error}", _LIKE) from None
        if found is None or found.samples.is_empty():
            raise Unreadable(job.path, "holds no row of samples", _LIKE)
        if ended:
            found.warnings.append(f"The file is not whole: {ended}.")
        made = trace(job, self.name, found, len(text))
        job.progress(len(text), len(text), found.samples.height)
        return (made,)


LOADER = CounterCsv()
