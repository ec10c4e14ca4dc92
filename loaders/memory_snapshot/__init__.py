"""PyTorch memory snapshots, as written by ``torch.cuda.memory._dump_snapshot('file.pickle')``.

A snapshot is a pickle of the caching allocator's current state (``segments`` with their blocks) and, if recorded, its
history (``device_traces``, with Python stacks). The allocator settings, which come from the environment, are not read.
"""

from __future__ import annotations

import re

from ..errors import Unreadable
from ..ingest import limits, stream
from ..loader import FormatLoader, Job
from ..native.allocator import without_collecting
from ..trace import Trace
from . import plain_pickle, read

_HEAD = re.compile(rb"\x80[\x02-\x05](?s:.{0,400}?)(?:segments|device_traces)")
_AGAIN = "Write it again with `torch.cuda.memory._dump_snapshot('file.pickle')`."


class MemorySnapshot(FormatLoader):
    """Loader for memory snapshots."""

    name = "memory-snapshot"
    title = "PyTorch memory snapshot (.pickle): allocations with their stacks, allocated and reserved memory"
    suffixes = (".pickle", ".pkl")
    version = 6
    fills = ("metrics", "allocations")
    is_sidecar = True

    def sniff(self, head: bytes) -> bool:
        """Accept a pickle that begins like a snapshot."""
        return _HEAD.match(head) is not None

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``allocations`` and ``metrics``. Raises Unreadable if it is damaged or not a snapshot."""
        with without_collecting():
            return (self._load(job),)

    def _load(self, job: Job) -> Trace:
        data, fault = stream.read_all(job.path)
        job.progress(len(data) // 4, len(data), 0)
        try:
            limits.check("snapshot", len(data), f"holds {len(data):,} bytes")
            content = plain_pickle.load(data)
            job.progress(len(data) // 2, len(data), 0)
            snapshot = read.read(content, len(data))
        except limits.Exceeded as error:
            raise error.unreadable(job.path) from None
        except plain_pickle.NotPlain as error:
            raise Unreadable(job.path, f"is {fault}" if fault else str(error), _AGAIN) from None
        trace = read.trace(job.path, self.name, snapshot, len(data))
        job.progress(len(data), len(data), snapshot.events)
        return trace.warn(fault) if fault else trace


LOADER = MemorySnapshot()
