"""What the loaders of counters share: the whole text is read, becomes one ``Reading`` and then one Trace.

A format says which family its files are of, how their text is read, and what to do where nothing can be. The one here
is for tables of samples that no known tool wrote: a column of times, and one column per counter or one row per sample.
"""

from __future__ import annotations

from abc import abstractmethod

from ..errors import Unreadable
from ..ingest import stream
from ..loader import FormatLoader, Job
from ..trace import Trace
from .columns import family
from .recording import Reading, trace
from .tables import TooWide, read


class CounterLoader(FormatLoader):
    """A loader of files of samples; ``name`` is the family that ``columns.family`` knows them by."""

    fills = ("metrics",)
    lies_beside = True

    advice: str = ""
    """What to do about a file that holds nothing: a sentence."""
    holds_nothing = "holds no row of samples"
    """What is said of a file without any."""
    too_wide = "which no monitor writes"
    """What is said of a table with more columns than are read; '' where the number speaks for itself."""

    def sniff(self, head: bytes) -> bool:
        """Whether the first bytes are of this family, which is decided once for all of them."""
        return family(head) == self.name

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``metrics``. Raises Unreadable where it holds no sample."""
        text, fault = stream.whole(job.path)
        job.progress(len(text) // 2, len(text), 0)
        try:
            reading = self.read(text, job)
        except TooWide as error:
            why = f"has {error}, {self.too_wide}" if self.too_wide else f"has {error}"
            raise Unreadable(job.path, why, self.advice_for(text)) from None
        if reading is None or reading.samples.is_empty():
            raise Unreadable(job.path, self.holds_nothing, self.advice_for(text))
        if fault:
            reading.warnings.append(fault)
        result = trace(job, self.name, reading, len(text))
        job.progress(len(text), len(text), reading.samples.height)
        return (result,)

    def advice_for(self, text: bytes) -> str:
        """The advice for a file with this text."""
        return self.advice

    @abstractmethod
    def read(self, text: bytes, job: Job) -> Reading | None:
        """The samples of the text, None where it has no table of them. May raise TooWide and Unreadable."""


class CounterCsv(CounterLoader):
    """The loader of tables of samples that no known tool wrote."""

    name = "counters-csv"
    title = "CSV with a column of times: one column per counter, or one row per sample (metric, value)"
    suffixes = (".csv", ".tsv")
    version = 2
    too_wide = ""
    advice = "A table of samples has a column of times (timestamp, time, ts) and columns of numbers."

    def read(self, text: bytes, job: Job) -> Reading | None:
        """The columns under each other."""
        return read(text)


LOADER = CounterCsv()
