"""Many runs as one input: which runs, in which order; each is read once, and one that fails does not stop the others.

The summary of each run is kept in the cache, or in the file of ``--store``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..library import Unreadable, UsageError, table
from .output import emit

if TYPE_CHECKING:
    from ..analysis.history.sums import RunSums
    from ..loaders.trace import Trace


def print_history(run: Trace, arguments: argparse.Namespace) -> dict[str, Any]:
    """Print the history by series or by run, and return its facts. Raises UsageError."""
    from ..analysis.contract.options import Options

    shown = table(
        "history", (run,), Options(), filter=arguments.filter, sort=arguments.sort, ascending=arguments.ascending,
        name_width=arguments.name_width, tree=getattr(arguments, "each_run", False),
    )
    emit([shown], arguments)
    return shown.facts


def open_history(paths: Sequence[str], arguments: argparse.Namespace) -> tuple[Trace, Unreadable | None]:
    """All runs as one input; and the error of the last run if that one is unreadable, else None. Raises UsageError, and
    Unreadable if runs were unreadable and fewer than two are left."""
    from ..analysis.history.runs import history_trace
    from ..analysis.history.sums import packed, unpacked_sums
    from ..loaders.ingest import summary_store

    store = Path(name) if (name := getattr(arguments, "store", None)) else None
    stored = summary_store.read(store) if store else None
    named, in_time = _named(paths, getattr(arguments, "list", None))
    if "-" in [path for path, _ in named]:
        raise UsageError("a history needs files; it cannot read - (stdin)")
    if not named and (stored is None or stored.is_empty()):
        raise UsageError("name three runs or more, a folder of them, or a --store that has some")
    worker = getattr(arguments, "worker", None)
    of_worker = "" if worker is None else f" worker {worker}"
    stamps = [summary_store.stamp_of(path) + of_worker for path, _ in named]
    first = {stamp: number for number, stamp in reversed(list(enumerate(stamps)))}
    notes = list(dict.fromkeys(
        f"{path} was given more than once; it counts once."
        for number, (path, _) in enumerate(named) if first[stamps[number]] != number))
    stored_runs = set(stored["stamp"]) if stored is not None else set()
    wanted = [number for number, stamp in enumerate(stamps) if first[stamp] == number and stamp not in stored_runs]
    result, lost = _read([named[number] for number in wanted], arguments)
    errors = [str(error) for error in lost.values()]
    rows = [(stamps[wanted[at]], one) for at, one in result.items()]
    if in_time:
        rows.sort(key=lambda row: _when(row[1]))
    runs = [one for _, one in rows]
    if store is not None:
        frame = summary_store.add(store, [(stamp, packed(one).decode()) for stamp, one in rows])
        runs = [unpacked_sums(text) for text in frame["summary"]]
    too_few = bool(lost) and len(runs) < 2
    for line in (*notes, *errors[too_few:]):
        _say(line)
    if too_few:
        raise next(iter(lost.values()))
    last = lost.get(len(wanted) - 1) if wanted and wanted[-1] == len(named) - 1 else None
    return history_trace(runs, [*notes, *errors]), last


def _read(named: Sequence[tuple[str, str]], arguments: argparse.Namespace) -> tuple[
        dict[int, RunSums], dict[int, Unreadable]]:
    """The summary of each readable run and the error of each other one, both by index in ``named``."""
    from msgspec.structs import replace

    from ..analysis.history.sums import cache_name, packed_sums, unpacked_sums
    from ..loaders.ingest.summaries import summaries

    result: dict[int, RunSums] = {}
    lost: dict[int, Unreadable] = {}
    line = _Line(len(named))
    try:
        paths = {number: path for number, (path, _) in enumerate(named)}
        for number, one in summaries(paths, cache_name(), packed_sums, not arguments.no_cache, arguments.worker):
            if isinstance(one, Unreadable):
                lost[number] = one
            else:
                sums = unpacked_sums(one)
                result[number] = replace(sums, label=named[number][1] or sums.label)
            line.step()
    finally:
        line.close()
    return dict(sorted(result.items())), dict(sorted(lost.items()))


def _named(paths: Sequence[str], listing: str | None) -> tuple[list[tuple[str, str]], bool]:
    """Path and label ('': the run's own) of every run, and whether to sort them by time."""
    named = [(path, "") for path in paths]
    if listing is not None:
        folder = Path(listing).parent
        try:
            lines = Path(listing).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "no text"
            raise UsageError(f"--list {listing}: cannot be read ({reason})") from error
        for line in lines:
            path, _, label = line.partition("\t")
            if path.strip() and not path.startswith("#"):
                named.append((str(folder / path.strip()), label.strip()))
    if len(named) == 1 and Path(named[0][0]).is_dir():
        from ..loaders.ingest.discovery import inputs_in

        inside = [(str(path), "") for path in inputs_in(Path(named[0][0]))]
        if len(inside) > 1:
            return inside, True
    return named, False


def _when(run: RunSums) -> tuple[float, float]:
    """Sort key in seconds: time of recording (else file time), then file time."""
    try:
        written = Path(run.source).stat().st_mtime
    except OSError:
        written = 0.0
    return datetime.fromisoformat(run.recorded).timestamp() if run.recorded is not None else written, written


def _say(sentence: str) -> None:
    from ..analysis.core.text import display

    print(f"warplens: {display(sentence)}", file=sys.stderr)


class _Line:
    """Progress line on stderr with the number of runs read; only on a terminal and after half a second."""

    def __init__(self, runs: int) -> None:
        import time

        self._runs, self._read, self._shown = runs, 0, False
        self._clock, self._next = time.monotonic, time.monotonic() + 0.5

    def step(self) -> None:
        """Count one more run."""
        self._read += 1
        if sys.stderr.isatty() and self._clock() > self._next:
            self._next, self._shown = self._clock() + 0.1, True
            sys.stderr.write(f"\r\x1b[K{self._read} of {self._runs} runs read")
            sys.stderr.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
