"""What a loader is, and what it is given.

A loader is one module with one object, ``LOADER``, of a class derived from ``FormatLoader``, and one line in
``registry.MODULES``, or an entry point of another package. ``sniff`` sees the first 64 KiB after decompression and must
be right alone: for every sample exactly one loader answers true. ``load`` is called in the ingest process; it may write
Arrow files into ``Job.workspace`` (named as ``store`` names them) and return scans of them, or frames in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from .trace import Trace

HEAD_BYTES = 65536  # How much of a file, after decompression, a sniffer sees.


def _nothing(done: int, total: int, events: int) -> None:
    return None


class Job(Struct, frozen=True):
    """One load: the source, where it may write, and how to tell what it is doing. ``path`` is a file or, for formats
    made of several files, a directory. ``progress(bytes_done, bytes_total, events)`` may be called often; it raises
    ``Cancelled`` when the user stopped the load. ``first_rows``, where given, is called at most once with a small Trace
    of the first rows, so that they can be shown while the rest loads. ``compiled=False`` forbids the compiled scanner.
    Where ``lasting`` is false nobody but this process asks for the tables, so they may stay in memory and be spread
    over files of the workspace, ready to be asked many times."""

    path: Path
    workspace: Path
    progress: Callable[[int, int, int], None] = _nothing
    first_rows: Callable[[Trace], None] | None = None
    compiled: bool = True
    lasting: bool = True
    options: dict[str, object] = field(default_factory=dict)


class FormatLoader(ABC):
    """A loader: what it must say of its format, and what it may, at the defaults of a format of single files.

    ``name`` is the word shown to users ('kineto'), ``title`` a line for ``warplens formats``, ``suffixes`` the usual
    file name endings (a hint, never the test), ``version`` an integer that goes up when the tables it writes change.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    version: int

    reader: str = ""
    """What reads its files, imported with the first of them: a module in the loader's package with a function ``load``,
    or the function's name behind a colon. '' where the class has ``load`` itself."""
    fills: tuple[str, ...] = ()
    """The tables it can fill, as far as a recording has what goes into them."""
    named: tuple[str, ...] = ()
    """Endings of names that say it is this format where no format claims the bytes."""
    ready_tables: bool = False
    """Whether its tables need not be written to be asked many times."""
    in_place: bool = False
    """Whether its files are tables already: nothing is copied, and whoever needs them lets it ``load`` them again."""
    directory_file: str | None = None
    """The file that a folder of this format is known by; such a folder is opened by it, whatever else it holds."""
    directory_within: str | None = None
    """The folder inside a recording's folder that holds what is read."""
    twins: tuple[str, ...] = ()
    """Endings of files that repeat, in another format, what a recording of this one beside them holds."""
    folder_is_one_run: bool = False
    """Whether its files in one folder are the ranks of a job whatever they are called."""
    lies_beside: bool = False
    """Whether its files may lie beside a trace of another format: samples of counters taken meanwhile."""
    one_recording: bool = False
    """Whether a file and its ``companions`` are one recording, whichever of them is opened."""

    @abstractmethod
    def sniff(self, head: bytes) -> bool:
        """Whether this is the loader's format, from the first 64 KiB after decompression."""

    def load(self, job: Job) -> tuple[Trace, ...]:
        """Read the whole input: one Trace, or two where the file holds two runs. Raises Unreadable."""
        from concurrent.futures import ThreadPoolExecutor  # which brings much along, and what is cached needs no reader

        module, _, function = self.reader.partition(":")
        # A thread begins a stack of its own. CPython takes 16 kB from the system at each call that passes a border of
        # its stack, and returns them after it: numpy, imported from as deep as here, passed one 3,600 times, which took
        # 90 of the 1,060 ms of a small report.
        with ThreadPoolExecutor(1) as shallow:
            reader = shallow.submit(import_module, f".{module}", type(self).__module__).result()
        read = getattr(reader, function or "load")
        traces: Trace | tuple[Trace, ...] = read(job)
        return traces if isinstance(traces, tuple) else (traces,)

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The files there are beside ``path`` that are read with it, so that the cache notices when one changes."""
        return ()

    def leads(self, path: Path) -> bool:
        """Whether a folder is opened by this file rather than by another of the same recording."""
        return True

    def arguments(self, path: Path, offset: int, name: str) -> dict[str, Any] | None:
        """The arguments of the event of that name at a byte (column ``offset``); None where rows have no offset. Raises
        OSError where the file cannot be read, ValueError where something else is at that place."""
        return None

    @property
    def reads_beside(self) -> bool:
        """Whether a load may read other files than the one it is given."""
        return type(self).companions is not FormatLoader.companions
