"""Reduced datasets: folders of Parquet files that ``warplens reduce`` writes for a job's ranks; they open as a run."""

from __future__ import annotations

from ..loader import FormatLoader
from .layout import DESCRIPTION, MARK, TABLES


class DatasetLoader(FormatLoader):
    """Loader for reduced datasets: scans of their files, with times relative to one zero; nothing is copied."""

    name = "dataset"
    title = "Reduced dataset of a job's ranks (warplens reduce): Parquet files by table and rank"
    suffixes = (".json",)
    version = 1
    reader = "read"
    fills = TABLES
    in_place = True
    directory_file = DESCRIPTION

    def sniff(self, head: bytes) -> bool:
        """Accept a file that begins with ``MARK``."""
        return head.startswith(MARK)


LOADER = DatasetLoader()
