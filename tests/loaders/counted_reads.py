"""A loader that counts how often it reads, for every test of what is kept between two openings."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from warplens.loaders.ingest import spill
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import FormatLoader, Job
from warplens.loaders.trace import Info, Trace


class Counted(FormatLoader):
    """A format that counts how often it reads; the file's text is the kernel's name."""

    name, title, suffixes, version = "counted", "a format for tests", (".counted",), 1

    def __init__(self) -> None:
        self.reads = 0
        self.fails: list[Exception] = []

    def sniff(self, head: bytes) -> bool:
        return head.startswith(b"COUNTED")

    def load(self, job: Job) -> tuple[Trace, ...]:
        self.reads += 1
        if self.fails:
            raise self.fails.pop()
        text = job.path.read_text()
        return (Trace(Info(str(job.path), "x", "counted"), pl.LazyFrame({"index": [0], "name": [text]})),)


def kernel(path: Path, **options: bool) -> str:
    (run,) = open_run(str(path), **options)
    name: str = run.kernels.select("name").collect().item()
    return name


def let_go() -> None:
    """As if this process had ended: it holds no entry any more."""
    for directory in list(spill._shared):
        spill.release(directory)
