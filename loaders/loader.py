"""What a loader is, and what it is given.

A loader is one module with one object that follows ``Loader`` and one line in ``registry.LOADERS``. ``sniff`` sees the
first 64 KiB after decompression and must be right alone: for every sample exactly one loader answers true. ``load`` is
called in the ingest process; it may write Arrow files into ``Job.workspace`` (named as ``store`` names them) and return
scans of them, or return frames in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from .trace import Trace

HEAD_BYTES = 65536
"""How much of a file, after decompression, a sniffer sees."""


def _nothing(done: int, total: int, events: int) -> None:
    return None


class Job(Struct, frozen=True):
    """One load: the source, where it may write, and how to tell what it is doing.

    ``path`` is a file or, for formats made of several files, a directory. ``progress(bytes_done, bytes_total, events)``
    may be called often; it raises ``Cancelled`` when the user stopped the load. ``first_rows``, where given, is called
    at most once with a small Trace of the first rows, so that they can be shown while the rest loads.
    ``compiled=False`` forbids the compiled scanner. Where ``lasting`` is false nobody but this process asks for the
    tables, so they may stay in memory and be spread over files of the workspace, ready to be asked many times.
    """

    path: Path
    workspace: Path
    progress: Callable[[int, int, int], None] = _nothing
    first_rows: Callable[[Trace], None] | None = None
    compiled: bool = True
    lasting: bool = True
    options: dict[str, object] = field(default_factory=dict)


@runtime_checkable
class Loader(Protocol):
    """A format.

    ``name`` is the word shown to users ('kineto'), ``title`` a line for ``warplens formats``, ``suffixes`` the usual
    file name endings (a hint, never the test), ``version`` an integer that goes up when the tables it writes change.
    A loader whose rows have an ``offset`` also has ``arguments(path, offset, name)``, which reads it there again.
    A loader with ``ready_tables`` gives tables that need not be written to be asked many times.
    Of folders a loader may say: ``directory_file``, the file a folder of its format is known by; ``directory_within``,
    the folder inside it that holds the recording; ``twins``, endings of files that repeat one of its own beside them;
    ``folder_is_one_run``, that its files in one folder are the ranks of a job whatever they are called.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    version: int

    def sniff(self, head: bytes) -> bool:
        """Whether this is the loader's format, from the first 64 KiB after decompression."""
        ...

    # A loader that reads other files beside the one it is given also has
    # ``companions(path: Path) -> tuple[Path, ...]``: those that exist, so that the cache notices when one changes.
    # Where all of them are one recording whichever is opened, it has ``one_recording = True``, and may say by
    # ``leads(path: Path) -> bool`` which of them a folder is opened by.

    def load(self, job: Job) -> tuple[Trace, ...]:
        """Read the whole input: one Trace, or two where the file holds two runs. Raises Unreadable."""
        ...
