"""Reduced datasets: what ``warplens reduce`` makes of a job's ranks, a folder of Parquet files that opens as a run."""

from __future__ import annotations

from ..loader import FormatLoader
from .layout import DESCRIPTION, MARK, TABLES


class DatasetLoader(FormatLoader):
    """Scans of the dataset's own files, times brought to one zero; nothing is copied."""

    name = "dataset"
    title = "Reduced dataset of a job's ranks (warplens reduce): Parquet files by table and rank"
    suffixes = (".json",)
    version = 1
    reader = "read"
    fills = TABLES
    in_place = True
    directory_file = DESCRIPTION

    def sniff(self, head: bytes) -> bool:
        """By the mark that its description begins with."""
        return head.startswith(MARK)


LOADER = DatasetLoader()
