"""warplens for scripts and notebooks: open runs, query the views, and get the answers as polars frames.

``import warplens`` exports these names. Nothing heavy is imported before a run is opened; tables stay lazy until
collected. Names and arguments documented in docs/python.md are stable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypedDict

from .loaders.errors import Unreadable

if TYPE_CHECKING:
    from typing import Unpack

    import polars as pl

    from .analysis.contract.options import Options
    from .analysis.table.table import Table
    from .loaders.trace import Info, Trace

__all__ = ["Answer", "Run", "Unreadable", "UsageError", "diff", "history", "open"]


class UsageError(ValueError):
    """The request cannot be met: an unknown view, column or scope, or a view these runs lack the data for. ``hint``,
    the end of the message, says what to do, e.g. the nearest names to a misspelt one."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.message, self.hint = message, hint
        super().__init__(f"{message.rstrip('.')}. {hint}" if hint else message)


class ViewOptions(TypedDict, total=False):
    """Options of a view, as on the command line: scope, rows and order; times in ns from the start of the trace."""

    cycle: int
    rank: int
    device: str
    pid: int
    from_ns: int
    to_ns: int
    window_b: tuple[int | None, int | None]
    warm_up: bool
    cycle_anchor: str
    columns: int
    changes: Sequence[str]
    per: str
    filter: str
    sort: str
    ascending: bool
    top: int
    tree: bool


class Answer:
    """A view's answer. ``frame``: its rows, with units in the column names; ``facts``: values beyond the rows;
    ``summary``: the sentences above the rows; ``notes``: what was left out or is unknown."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.frame: pl.DataFrame = table.shown()
        self.facts: dict[str, Any] = table.all_facts
        self.summary = list(table.summary)

    @property
    def notes(self) -> list[str]:
        """Notes on data left out, repaired or unknown, and warnings on the recordings."""
        from .analysis.table.export.state import notes

        return notes(self._table)

    def to_markdown(self) -> str:
        """The answer as markdown for a ticket: sentences, rows, notes and a legend."""
        return self._rendered("md")

    def to_json(self) -> str:
        """The answer as JSON, as printed by ``warplens report --format json``."""
        return self._rendered("json")

    def _rendered(self, form: str) -> str:
        from .analysis.table.export import render

        return render(self._table, form).decode("utf-8", "replace")

    def _repr_html_(self) -> str:
        """Notebook display: the sentences and the first rows."""
        from html import escape

        from .analysis.core.text import clean

        said = "".join(f"<p>{escape(clean(line))}</p>" for line in (*self.summary, *self.notes))
        return said + self.frame._repr_html_()

    def __repr__(self) -> str:
        return "\n".join([f"<{self._table.view}: {self.frame.height:,} rows>", *self.summary])


class _TableOf:
    """Descriptor for a table of the recording as a lazy frame; docs/data-model.md lists its columns."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, run: Run, owner: type) -> pl.LazyFrame:
        return run.trace.table(self._name)


class Run:
    """One recording, as returned by ``open``. Its tables are lazy frames; one the format cannot fill has no rows."""

    kernels = _TableOf()
    host = _TableOf()
    metrics = _TableOf()
    allocations = _TableOf()
    call_chains = _TableOf()
    profile = _TableOf()
    operators = _TableOf()
    kernel_stats = _TableOf()
    breakdown = _TableOf()

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @property
    def info(self) -> Info:
        """Metadata of the recording: source, format, devices, ranks, warnings."""
        return self.trace.info

    @property
    def cycles(self) -> pl.LazyFrame:
        """The cycles used by all views, recorded or detected: ``cycle start_ns dur_ns busy_ns complete warm_up …``."""
        from .analysis.contract.options import Options
        from .analysis.cycles.detection import cycles_of

        return cycles_of(self.trace, Options())

    def view(self, name: str, *, b: Run | None = None, **options: Unpack[ViewOptions]) -> Answer:
        """The answer of the view ``name`` for this run, or for the comparison of this run with ``b``. Raises
        UsageError."""
        from .analysis.contract.view import CannotAnswer
        from .analysis.core.run_labels import distinct_labels

        runs = distinct_labels((self.trace, *([b.trace] if b is not None else [])))
        given: dict[str, Any] = dict(options)
        table_options = {key: given.pop(key) for key in ("per", "filter", "sort", "ascending", "top", "tree")
                         if key in given}
        if (per := table_options.get("per", "cycle")) not in ("cycle", "recording"):
            raise UsageError(f"per={per!r}: sums are per cycle or per recording")
        try:
            return Answer(table(name, runs, _options(given), **table_options))
        except CannotAnswer as error:  # the facts of a view without rows are of a scope that the run does not have
            raise UsageError(str(error)) from error

    def __repr__(self) -> str:
        return f"<Run {self.info.label} ({self.info.format})>"


Source = str | PathLike[str] | Run


def open(
    path: str | PathLike[str], *, worker: int | None = None, capture: str | PathLike[str] | None = None,
    cache: bool = True, progress: Callable[[int, int, int], None] | None = None,
) -> Run:
    """Open a file, or a folder with the ranks of a job. ``worker`` selects one run of a file with several, from 0;
    ``capture``: a recording of the graph capture; ``progress`` is called with bytes read, total bytes and events read.
    Raises Unreadable, or UsageError if the file holds several runs and none was selected."""
    from .loaders.ingest.opening import open_run

    runs = open_run(
        fspath(path), worker=worker, use_cache=cache, progress=progress, capture=fspath(capture) if capture else None
    )
    if len(runs) > 1:
        raise UsageError(f"{fspath(path)} holds {len(runs)} runs: choose one with worker=0 or worker=1")
    return Run(runs[0])


def diff(a: Source, b: Source, **options: Unpack[ViewOptions]) -> Answer:
    """Significant changes from ``a`` to ``b``, and the resource that explains them: the view ``diff`` of two runs or
    paths. Raises Unreadable, UsageError."""
    first, second = (one if isinstance(one, Run) else open(one) for one in (a, b))
    return first.view("diff", b=second, **options)


def history(runs: Sequence[Source], **options: Unpack[ViewOptions]) -> Answer:
    """Step changes over many runs of one job, in the order given: the view ``history``. Unreadable runs are left out
    and noted. Raises Unreadable if none can be read, UsageError."""
    from .analysis.history.runs import history_trace
    from .analysis.history.sums import cache_name, packed_sums, sums_of, unpacked_sums
    from .loaders.ingest.summaries import summaries

    result = {at: sums_of(one.trace) for at, one in enumerate(runs) if isinstance(one, Run)}
    paths = {at: fspath(one) for at, one in enumerate(runs) if not isinstance(one, Run)}
    lost: dict[int, Unreadable] = {}
    for at, one in summaries(paths, cache_name(), packed_sums):
        if isinstance(one, Unreadable):
            lost[at] = one
        else:
            result[at] = unpacked_sums(one)
    if lost and not result:
        raise lost[min(lost)]
    trace = history_trace([result[at] for at in sorted(result)], [str(lost[at]) for at in sorted(lost)])
    return Run(trace).view("history", **options)


def _options(given: dict[str, Any]) -> Options:
    from .analysis.contract.changes import parse
    from .analysis.contract.options import Options, number_of_columns

    pid, rank, cycle = (given.pop(name, None) for name in ("pid", "rank", "cycle"))
    try:
        given["changes"] = tuple(parse(text).text for text in given.get("changes", ()))
        re.compile(given.get("cycle_anchor") or "")
        if "columns" in given:
            given["columns"] = number_of_columns(given["columns"])
        return Options(pid_a=pid, pid_b=pid, rank=rank, rank_b=rank, cycle=cycle, cycle_b=cycle, **given)
    except TypeError as error:
        from .analysis.core.text import nearest

        names = sorted(ViewOptions.__annotations__)
        unknown = next((name for name in given if name not in names), None)
        if unknown is None:
            raise UsageError(str(error)) from None
        raise UsageError(f"no option {unknown}", nearest(unknown, names)) from None
    except re.error as error:
        raise UsageError(f"cycle_anchor is not a regular expression: {error}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None


def table(name: str, runs: tuple[Trace, ...], options: Options, *, filter: str | None = None, **how: Any) -> Table:
    """The view's answer as a renderable ``Table``; ``how``: further arguments of ``report``. Raises UsageError."""
    from .analysis.contract.view import CannotAnswer
    from .analysis.core.text import nearest
    from .analysis.query.report import NoSuchColumn, report
    from .analysis.table.filters import BadFilter, Filter
    from .analysis.views import VIEWS

    names = [entry.name for entry in VIEWS]
    if name not in names:
        raise UsageError(f"no view {name}", nearest(name, names))
    try:
        return report(name, runs, options, condition=Filter(filter) if filter else None, **how)
    except (BadFilter, NoSuchColumn, CannotAnswer) as error:
        raise UsageError(str(error)) from error
