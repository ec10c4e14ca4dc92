"""Reading in a child process while this one imports what makes tables of the rows.

Of a command that reads 100 MB a quarter is spent importing polars, which needs the interpreter's lock all the time, as
do the readers between two blocks. Two processes do not share that lock; the rows come back through memory both see.
What both need, numpy above all, is imported before they part. And a file that brings the reader down costs a sentence,
not the command. Only where that is of use: Linux, a file that takes a while, two processors, and a process that has
neither threads nor polars yet.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec.structs import replace

from ..ingest import failures
from ..loader import Job

if TYPE_CHECKING:
    from .interning import Texts
    from .load import Scanned

LEAST_BYTES, MOST_BYTES = 12_000_000, 160_000_000
"""Decompressed bytes, about, from which it is worth a process, and up to which nobody runs out of memory for rows."""
_GROWTH = {".gz": 8, ".zst": 8}
_PROGRESS = struct.Struct("<qqq")
_PLACES = struct.Struct("<qq")
_ALIGNED = 64


def read_apart(job: Job) -> Scanned | None:
    """What ``load.scan`` gives; None where this process had better do it. Raises as it does, and where it crashes."""
    if not _useful(job):
        return None
    import_module(".load", __package__)  # and numpy with it, which both need
    try:
        memory = os.memfd_create("warplens-rows")
    except OSError:
        return None
    try:
        ours, theirs = os.pipe()
        try:
            child = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            return None
        if child == 0:
            _child(job, memory, theirs)
        os.close(theirs)
        found = _await(job, child, ours, memory)
    finally:
        os.close(memory)
    if isinstance(found, BaseException):
        raise found
    return found


def _useful(job: Job) -> bool:
    return (
        sys.platform == "linux"
        and "polars" not in sys.modules
        and threading.active_count() == 1
        and job.first_rows is None
        and not os.environ.get("WARPLENS_DEBUG")
        and len(os.sched_getaffinity(0)) > 1
        and LEAST_BYTES <= job.path.stat().st_size * _GROWTH.get(job.path.suffix, 1) <= MOST_BYTES
    )


def _child(job: Job, memory: int, pipe: int) -> NoReturn:
    """Read, leave what was found in the memory, end; nothing of the other process's may be flushed or cleaned up."""
    status = 1
    try:
        try:
            _leave(_scanned(job, pipe), memory)
        except (KeyboardInterrupt, BrokenPipeError):  # nobody waits any more
            raise
        except BaseException as error:  # a panic of polars is no Exception
            _leave(_portable(error), memory)
        status = 0
    finally:
        os._exit(status)


def _portable(error: BaseException) -> BaseException:
    """An error as it can be taken to another process, in words if need be."""
    alone = error.with_traceback(None)
    try:
        return alone if type(pickle.loads(pickle.dumps(alone))) is type(error) else RuntimeError(repr(error))
    except Exception:
        return RuntimeError(repr(error))


def _scanned(job: Job, pipe: int) -> Scanned:
    from .load import scan

    # Not lasting: files are written with polars, by whoever has it.
    return scan(replace(job, lasting=False, progress=lambda *counts: os.write(pipe, _PROGRESS.pack(*counts))))


def _await(job: Job, child: int, pipe: int, memory: int) -> Scanned | BaseException:
    """Import what will be needed, pass progress on, wait for the child and take what it left."""
    status = None
    try:
        with os.fdopen(pipe, "rb") as told:
            import_module(".table_frames", __package__)
            while len(counts := told.read(_PROGRESS.size)) == _PROGRESS.size:
                job.progress(*_PROGRESS.unpack(counts))
        _, status = os.waitpid(child, 0)
    finally:
        if status is None:  # stopped while it reads
            with suppress(ProcessLookupError):
                os.kill(child, 9)
            os.waitpid(child, 0)
    if status:
        return failures.ended(str(job.path), os.waitstatus_to_exitcode(status))
    found: Scanned | BaseException = _take(memory)
    return found


class _Pickler(pickle.Pickler):
    """Threads and locks stay behind; so does what texts mean, in codes of the process that made them."""

    def reducer_override(self, value: Any) -> Any:
        from .interning import Texts

        if isinstance(value, ThreadPoolExecutor):
            return ThreadPoolExecutor, (1,)
        if isinstance(value, type(threading.Lock())):
            return threading.Lock, ()
        if isinstance(value, Texts):
            return _texts, (value.strings, value.device_word)
        return NotImplemented


def _texts(strings: Any, device_word: str) -> Texts:
    from .interning import Texts

    made = Texts(strings)
    made.device_word = device_word
    return made


def _leave(found: object, memory: int) -> None:
    """Write a value, the bytes of its arrays behind it."""
    arrays: list[pickle.PickleBuffer] = []
    with os.fdopen(os.dup(memory), "wb") as file:
        file.seek(_PLACES.size)
        _Pickler(file, protocol=5, buffer_callback=arrays.append).dump(found)
        ends = []
        for array in arrays:
            file.seek(-file.tell() % _ALIGNED, os.SEEK_CUR)
            begin = file.tell()
            file.write(array.raw())
            ends.append((begin, file.tell()))
        index = file.tell()
        pickle.dump(ends, file)
        end = file.tell()
        file.seek(0)
        file.write(_PLACES.pack(index, end))


def _take(memory: int) -> Any:
    """The value that was left. Its arrays stay where they are, and are read-only."""
    view = memoryview(mmap.mmap(memory, 0, prot=mmap.PROT_READ))
    index, end = _PLACES.unpack_from(view)
    arrays = [view[begin:stop] for begin, stop in pickle.loads(view[index:end])]
    return pickle.loads(view[_PLACES.size : index], buffers=arrays)
