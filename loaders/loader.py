"""``FormatLoader``, the base class of loaders, and ``Job``, the input of one load.

A loader is a module with one object, ``LOADER``, of a class derived from ``FormatLoader``, and one line in
``registry.MODULES``; another package registers it as an entry point. ``sniff`` sees the first 64 KiB after
decompression and must be right by itself: for every sample exactly one loader returns true. ``load`` runs in the ingest
process; it may write Arrow files to ``Job.workspace``, named as in ``store``, and return scans of them, or frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from .trace import Trace

HEAD_BYTES = 65536  # Bytes of a file, after decompression, passed to ``sniff``.


def _nothing(done: int, total: int, events: int) -> None:
    return None


class Job(Struct, frozen=True):
    """One load: the source, a folder to write to, and callbacks. ``path`` is a file or, for formats made of several
    files, a directory. ``progress(bytes_done, bytes_total, events)`` may be called often; it raises ``Cancelled`` if
    the user cancelled the load. ``first_rows``, if given, is called at most once with a small Trace of the first rows,
    to show while the rest loads. ``compiled=False`` disables the compiled scanner. If ``lasting`` is false, only this
    process reads the tables: they may stay in memory or in several workspace files, in a form that is cheap to query
    repeatedly."""

    path: Path
    workspace: Path
    progress: Callable[[int, int, int], None] = _nothing
    first_rows: Callable[[Trace], None] | None = None
    compiled: bool = True
    lasting: bool = True
    options: dict[str, object] = field(default_factory=dict)


class FormatLoader(ABC):
    """A loader and the description of its format; the optional attributes default to a format of single files.

    ``name`` is shown to users ('kineto'), ``title`` is a line of ``warplens formats``, ``suffixes`` are the usual
    file name endings (a hint, never the test), ``version`` is incremented when the tables it writes change.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    version: int

    reader: str = ""
    """The module in the loader's package whose function ``load`` reads a file, or 'module:function'; imported at the
    first file. '' if the class overrides ``load``."""
    fills: tuple[str, ...] = ()
    """The tables it can fill if the recording has the data."""
    named: tuple[str, ...] = ()
    """File name endings that identify this format if no loader recognises the content."""
    ready_tables: bool = False
    """Whether the tables that ``load`` returns are cheap to query repeatedly without being written to Arrow files."""
    in_place: bool = False
    """Whether its files already are tables: nothing is copied, and each process that needs them calls ``load``."""
    directory_file: str | None = None
    """The file that identifies a folder of this format; the folder is opened through it, whatever else is in it."""
    directory_within: str | None = None
    """The subfolder of a recording's folder that contains the files to read."""
    twins: tuple[str, ...] = ()
    """Endings of files that duplicate a recording of this format in the same folder, in another format."""
    folder_is_one_run: bool = False
    """Whether its files in one folder are always the ranks of one job, whatever their names."""
    is_sidecar: bool = False
    """Whether its files hold counter samples recorded alongside a trace of another format, in the same folder."""
    one_recording: bool = False
    """Whether a file and its ``companions`` are one recording, whichever of them is opened."""

    @abstractmethod
    def sniff(self, head: bytes) -> bool:
        """Whether ``head``, the first 64 KiB after decompression, is of this format."""

    def recognises(self, path: Path) -> bool:
        """Whether a file that no loader recognises by its beginning is of this format; by default, by its name."""
        name = path.stem if path.suffix in (".gz", ".zst", ".xz", ".bz2") else path.name
        return name.endswith(self.named or "\n")

    def load(self, job: Job) -> tuple[Trace, ...]:
        """Read the whole input: one Trace, or several if the file holds several runs. Raises Unreadable."""
        from concurrent.futures import ThreadPoolExecutor  # a slow import that a cached input does not need

        module, _, function = self.reader.partition(":")
        # Import on a thread, for its fresh stack: CPython maps a 16 kB chunk whenever a call crosses the end of its
        # data stack and unmaps it on return. Importing numpy from this depth crossed it 3,600 times: 90 of the
        # 1,060 ms of a small report.
        with ThreadPoolExecutor(1) as shallow:
            reader = shallow.submit(import_module, f".{module}", type(self).__module__).result()
        read = getattr(reader, function or "load")
        traces: Trace | tuple[Trace, ...] = read(job)
        return traces if isinstance(traces, tuple) else (traces,)

    def companions(self, path: Path) -> tuple[Path, ...]:
        """Existing files next to ``path`` that are read with it; the cache checks them for changes, too."""
        return ()

    def leads(self, path: Path) -> bool:
        """Whether a folder is opened through this file rather than another file of the same recording."""
        return True

    def arguments(self, path: Path, offset: int, name: str) -> dict[str, Any] | None:
        """The arguments of the event ``name`` at byte ``offset`` (the column ``offset``); None if the format has no
        offsets. Raises OSError if the file cannot be read, ValueError if another event or none is at that offset."""
        return None

    @property
    def reads_other_files(self) -> bool:
        """Whether a load may read files other than ``Job.path``."""
        return type(self).companions is not FormatLoader.companions
