"""JSON of rocprofv3 (``rocprofiler-sdk-tool``): recognised here, read by ``read_json``."""

from __future__ import annotations

import re

from ..loader import FormatLoader, Job
from ..trace import Trace

_TOP = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')


class RocprofJson(FormatLoader):
    """The loader of rocprofv3's JSON."""

    name = "rocprofv3-json"
    title = "rocprofv3 JSON (.json, .gz): kernels, copies, HIP/HSA/RCCL calls, markers, counters"
    suffixes = (".json", ".json.gz")
    version = 2
    fills = ("kernels", "host", "metrics")

    def sniff(self, head: bytes) -> bool:
        """An object whose first key is the tool's name."""
        return _TOP.match(head.removeprefix(b"\xef\xbb\xbf")) is not None

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace for each process in the file. Raises Unreadable where it is no JSON."""
        from .read_json import load

        return load(job)


LOADER = RocprofJson()
