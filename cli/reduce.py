"""The command ``reduce``: reduce the recordings of a job's ranks, in place, to a small dataset that opens as a run."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..library import UsageError
from .arguments import FINE, UNREADABLE, Command, limit_argument, whole_number
from .output import print_path

if TYPE_CHECKING:
    from ..loaders.dataset.layout import Part
    from .fleet.plan import Plan
    from .fleet.recording import Reduced

ADDRESS = "DASK_SCHEDULER_ADDRESS"
_PROGRESS_S = 0.2


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="DIR", help="folders with the recordings of a job, or recordings")
    parser.add_argument("-o", "--output", metavar="DATASET", required=True, help="folder to write, or to add to")
    parser.add_argument("--scheduler", metavar="ADDRESS", default=os.environ.get(ADDRESS),
                        help=f"use the Dask cluster of this scheduler, as tls://host:8786 (default: {ADDRESS})")
    parser.add_argument("--jobs", type=whole_number, metavar="N",
                        help="processes on this machine; default: as many as its cores and memory allow")
    parser.add_argument("--replace", action="store_true", help="remove the ranks of another job that DATASET holds")
    limit_argument(parser)


def _reduce(arguments: argparse.Namespace) -> int:
    from ..analysis.fleet.reduce import VERSION
    from ..loaders.dataset import write
    from .fleet.plan import plan
    from .fleet.workers import here, on_cluster

    dataset = Path(arguments.output)
    if dataset.exists() and not dataset.is_dir():
        raise UsageError(f"{dataset} is a file; name a folder to write the dataset to")
    known = write.parts(dataset)
    todo = plan(arguments.paths, dataset, known, VERSION)
    if _foreign(dataset):
        raise UsageError(f"{dataset} holds other files and no dataset; name a new folder")
    dataset.mkdir(parents=True, exist_ok=True)
    result = _Made(dataset, todo, known, arguments.replace)
    try:
        if todo.work:
            reduced = on_cluster(todo.work, arguments.scheduler) if arguments.scheduler else here(
                todo.work, arguments.jobs)
            for number, answer in reduced:
                result.take(number, answer)
    except UsageError:
        result.take_back()
        raise
    finally:
        write.clean(dataset, todo.work[0].session if todo.work else "")
        result.line.close()
    return result.finish()


def _foreign(dataset: Path) -> bool:
    """Whether the folder holds files but nothing written by this command."""
    from ..loaders.dataset.layout import DESCRIPTION, MARKERS, STAGING

    there = set(os.listdir(dataset)) if dataset.is_dir() else set()
    return bool(there) and not there & {DESCRIPTION, MARKERS, STAGING}


class _Made:
    """Progress of the plan: the parts in the dataset, and the recordings that failed, each reported by name."""

    def __init__(self, dataset: Path, todo: Plan, known: Sequence[Part], replace: bool) -> None:
        self._dataset, self._todo, self._known, self._replace = dataset, todo, known, replace
        self._taken: dict[str, int] = {part.part: -1 for part in todo.current}
        self._before, self._committed = {part.part: part for part in known}, list["Part"]()
        self._failed: list[str] = []
        self._spent = 0.0
        self._began = time.monotonic()
        self.line = _Line(len(todo.work), sum(size for one in todo.work for _, size, _ in one.stamps))
        for said in todo.unread:
            self._say(said)

    def take(self, number: int, answer: Reduced) -> None:
        """Commit the result of one recording to the dataset. Raises OSError, and UsageError if the
        dataset is another job's."""
        from ..loaders.dataset import write

        one = self._todo.work[number]
        self._spent += answer.seconds
        self.line.step(sum(size for _, size, _ in one.stamps))
        if answer.part is None or answer.folder is None:
            self._outdated(one.stamps)
            self._say(answer.unread)
            return
        before = self._taken.get(answer.part.part)
        if before is not None and before < number:
            self._say(f"{one.name}: skipped, another recording has {_named(answer.part)}.")
            return
        if before is not None:
            self._say(f"{self._todo.work[before].name}: skipped, another recording has {_named(answer.part)}.")
        if other := [part for part in self._known if write.is_of_another_job(part, answer.part)]:
            if not self._replace:
                raise UsageError(f"{self._dataset} is another job's ({_described(other)}); "
                                 "name another dataset, or --replace")
            for part in self._known:
                if part.part not in self._taken:
                    write.forget(self._dataset, part.part)
            self._known = []
        self._taken[answer.part.part] = number
        self._committed.append(write.commit(self._dataset, Path(answer.folder), answer.part))

    def take_back(self) -> None:
        """Remove the parts committed by this call: they are of another job than those before."""
        from ..loaders.dataset import write

        for part in self._committed:
            write.take_back(self._dataset, part, self._before.get(part.part))

    def _outdated(self, stamps: tuple[tuple[str, int, int], ...]) -> None:
        """Drop the parts of a recording that was reduced earlier but can no longer be read."""
        from ..loaders.dataset import write

        files = {name for name, _, _ in stamps}
        for part in write.parts(self._dataset):
            if files & {name for name, _, _ in part.stamps} and part.part not in self._taken:
                write.forget(self._dataset, part.part)

    def finish(self) -> int:
        """Write the dataset's description, print what was done, and return the exit status."""
        from ..loaders.dataset import write

        if not self._taken:
            print(f"warplens: none of {len(self._failed):,} recordings could be read", file=sys.stderr)
            return UNREADABLE
        label = Path(os.path.abspath(self._dataset)).name
        summary = write.finish(self._dataset, label)
        ranks = sum(len(part.ranks) for part in summary.parts)
        done = sum(number >= 0 for number in self._taken.values())
        took = f"{done:,} reduced in {time.monotonic() - self._began:.1f} s" if done else "nothing was new"
        reused = f", {len(self._todo.current):,} were there already" if self._todo.current and done else ""
        lost = f"; {len(self._failed):,} could not be read" if self._failed else ""
        print(f"{ranks:,} rank{'s' if ranks != 1 else ''}: {took}{reused}{lost}", file=sys.stderr)
        print_path(self._dataset)
        return FINE

    def _say(self, sentence: str) -> None:
        from ..analysis.core.text import display

        self._failed.append(sentence)
        self.line.close()
        print(f"warplens: {display(sentence)}", file=sys.stderr)


def _described(parts: Sequence[Part]) -> str:
    """The ranks of the parts, and the folder of the first."""
    count = len({rank for part in parts for rank in part.ranks})
    folder = Path(parts[0].stamps[0][0]).parent.name if parts[0].stamps else "it"
    return f"{count:,} rank{'s' if count != 1 else ''} of {folder}"


def _named(part: Part) -> str:
    ranks = part.ranks
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"


class _Line:
    """Progress line on stderr, on a terminal only."""

    def __init__(self, recordings: int, size: int) -> None:
        self._recordings, self._size = recordings, size
        self._done = self._read = 0
        self._began = self._last = time.monotonic()
        self._shown, self._on = False, sys.stderr.isatty()

    def step(self, size: int) -> None:
        """Count one more recording of ``size`` bytes."""
        self._done, self._read = self._done + 1, self._read + size
        now = time.monotonic()
        if self._on and now - self._last >= _PROGRESS_S:
            self._last, self._shown = now, True
            rate = self._read / (now - self._began)
            left = f", {(self._size - self._read) / rate:,.0f} s left" if rate else ""
            sys.stderr.write(f"\r\x1b[K{self._done:,} of {self._recordings:,} recordings  {rate / 1e6:,.0f} MB/s{left}")
            sys.stderr.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


COMMAND = Command("reduce", "Reduce a job's ranks, here or on a Dask cluster, to a small dataset that opens as a run.",
                 _arguments, _reduce)
