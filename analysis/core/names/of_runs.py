"""The short names of a run, or of two: each recorded name has its own, whatever a list, filter or sentence shows of it.

What tells two names apart is looked for among all activities of the runs, never among the rows of one answer. So the
kernel that a list calls ``gemm bf16 64x64 tn ·64x5`` has that name in ``--top 2``, in the details, in SQL and in
every sentence. ``speaking_of`` says which runs a question is about; ``short_name.fit_name`` then answers for these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import blake2b

import polars as pl
from rich.cells import cell_len

from ....loaders.trace import Trace
from ..derived import derived_value
from ..text import clean, cut, cut_end
from .display_names import display_names
from .short_name import IN_RUNS, short_name

MOST = 4_096
"""Names that are compared with one another; of more each carries a digest of what its short form leaves out."""
_TABLES = (("kernels", "name"), ("kernel_stats", "name"), ("profile", "function"))


class ShortNames:
    """Names that are told apart from one another; ``find`` lists them, when the first is asked for."""

    def __init__(self, find: Callable[[], Collection[str]]) -> None:
        self._find = find
        self._shown: dict[int | None, dict[str, str]] = {}

    @cached_property
    def names(self) -> Collection[str]:
        """The names; none where they are too many to be compared."""
        found = self._find()
        self._many = len(found) > MOST
        return () if self._many else found

    def fit(self, raw: str, width: int | None) -> str | None:
        """The name's own text of at most ``width`` cells (any length for None); None where it is not one of these."""
        names = self.names
        if self._many:
            return _with_digest(raw, width)
        shown = self._shown.get(width)
        if shown is None:
            shown = self._shown[width] = display_names(names, width)
        return shown.get(raw)


def of_runs(runs: Sequence[Trace]) -> ShortNames:
    """The short names of everything that ran on a device in these runs, which are whole."""
    return ShortNames(lambda: sorted({name for run in runs for name in _activities(run)}))


@contextmanager
def speaking_of(names: ShortNames) -> Iterator[None]:
    """Inside, ``fit_name`` gives these short names."""
    before = IN_RUNS.set(names.fit)
    try:
        yield
    finally:
        IN_RUNS.reset(before)


def shown_name(raw: str | None, width: int | None, *names: ShortNames) -> str:
    """The text of a recorded name by the first of ``names`` that it is one of, else its short form, cut."""
    if raw is None:
        return clean(raw)
    for some in names:
        text = some.fit(raw, width)
        if text is not None:
            return text
    form = short_name(raw)
    return form if width is None else cut(form, width)


def _activities(run: Trace) -> list[str]:
    """The different names in the run's tables of activities; a few more than ``MOST`` where there are more."""
    def find() -> list[str]:
        found: set[str] = set()
        for table, column in _TABLES:
            if run.has(table):
                some = run.table(table).select(pl.col(column).unique()).head(MOST + 2).collect(engine="streaming")
                found.update(some[column].cast(pl.String).drop_nulls())
        return sorted(found)

    return derived_value(run, "activity-names", list[str], find)


def _with_digest(raw: str, width: int | None) -> str:
    """The short form where it leaves out nothing, else the form and a digest of the name."""
    form = short_name(raw)
    if form == raw and (width is None or cell_len(form) <= width):
        return form
    tail = f" ·{blake2b(raw.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"
    return form + tail if width is None else cut_end(form, max(1, width - len(tail))) + tail
