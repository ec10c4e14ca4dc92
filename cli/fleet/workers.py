"""Worker processes of a reduction: on this machine, or on an existing Dask cluster.

Both yield each result as it arrives. If a process or worker dies, its recording is retried; a recording that kills
every worker is reported by name, and the others go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from ...library import UsageError
from ...loaders.ingest.failures import ended
from ...loaders.ingest.job import pool
from .recording import Recording, Reduced, Stamp, reduce_recording

RETRIES = 2
_LEAST_BYTES = 300 << 20
"""Memory that a process needs for the smallest recording."""
_CONNECT_S = 30
Answers = Iterator[tuple[int, Reduced]]


def here(work: Sequence[Recording], jobs: int | None) -> Answers:
    """Reduce the recordings with ``jobs`` processes on this machine; None: as many as its memory and cores allow."""
    largest = max(sum(map(_memory, one.stamps)) for one in work)
    workers = min(jobs, len(work)) if jobs else pool.most_workers(len(work), max(pool.TASK_BYTES, largest))
    for outcome in pool.run(reduce_recording, work, workers):
        if not outcome.ended:
            continue
        value = outcome.value
        if outcome.error is not None:
            value = _failed(work[outcome.number], outcome.error)
        yield outcome.number, value


def on_cluster(work: Sequence[Recording], address: str) -> Answers:
    """Reduce the recordings on the cluster of that scheduler, one task each. Raises UsageError if it cannot connect."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise UsageError("--scheduler needs the package distributed: pip install 'warplens[fleet]'") from None
    import logging
    import warnings

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # mismatched versions of packages not used here
            client = distributed.Client(address, timeout=_CONNECT_S)
    except (OSError, TimeoutError, ValueError) as error:
        raise UsageError(f"no Dask scheduler answers at {address} ({type(error).__name__})") from None
    except TypeError:  # raised by distributed if no certificate is configured
        raise UsageError(f"{address} needs a TLS certificate: set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
                    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY") from None
    with client:
        futures = {
            client.submit(reduce_recording, one, pure=False, retries=RETRIES): number
            for number, one in enumerate(work)
        }
        for future in distributed.as_completed(list(futures)):
            number = futures.pop(future)
            try:
                value = future.result()
            except Exception as error:
                value = _failed(work[number], error)
            yield number, value
            future.release()


def _memory(stamp: Stamp) -> int:
    """Estimated memory to analyse a file: its uncompressed size (12 times that of a compressed file) plus a base."""
    name, size, _ = stamp
    return _LEAST_BYTES + size * (12 if name.endswith((".gz", ".zst")) else 1)


def _failed(one: Recording, error: Any) -> Reduced:
    """The result for a recording that no process could reduce, with a message."""
    if isinstance(error, pool.WorkerDied):
        return Reduced(None, None, 0.0, str(ended(one.name, error.status)))
    name = type(error).__name__
    if name == "KilledWorker":
        return Reduced(None, None, 0.0, f"{one.name}: every worker that read it was killed; they may be short of "
                                        "memory.")
    first = (str(error).splitlines() or [""])[0][:160]
    return Reduced(None, None, 0.0, f"{one.name}: could not be reduced ({name}: {first}).")
