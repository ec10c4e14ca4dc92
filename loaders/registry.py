"""The formats, the most used first, and how a file finds its loader.

Loader modules are imported when a file is opened, not when the package is, and only as far as it takes to find the one
that claims it: each imports the libraries it needs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from .. import extensions
from .in_place import IN_PLACE
from .loader import FormatLoader

MODULES: tuple[str, ...] = (
    "kineto",
    "nsys",
    "nsys.report",
    "nsys:PARQUET",
    "perfetto",
    "xla",
    "ascend",
    "ascend:DATABASE",
    "rocm:CSV",
    "rocm:RPD",
    "rocm:ROCPROF",
    "rocm:COMPUTE",
    "rocm:JSON",
    "rocm:ROCPD",
    "cycle_profile",
    "kernel_table",
    "ncu",
    "ncu.report",
    "nsys_stats",
    "tb_views",
    "comparison",
    "memory_snapshot",
    "counters.nvidia:NVIDIA_SMI",
    "counters.nvidia:DCGMI",
    "counters.prometheus",
    "counters.amd_smi",
    "counters.loader",
    "dataset",
)
"""Modules of this package that define ``LOADER``, or the loader's name behind a colon. A new format is one file and one
line here."""
DIRECTORY_FILES = {
    "kernel_details.csv": "ascend",
    "StringIds.parquet": "nsys-parquet",
    "pmc_perf.csv": "rocprofiler-compute",
    "result_perf_data.csv": "cycle-profile",
    "dataset.json": "dataset",
}
"""The loaders of this package by their ``directory_file``: a folder is recognised without importing any of them."""
DIRECTORIES_WITHIN = ("ASCEND_PROFILER_OUTPUT",)  # Every ``directory_within`` of this package.
SAMPLERS = frozenset({
    "cycle-profile", "memory-snapshot", "nvidia-smi", "dcgmi", "prometheus", "amd-smi", "counters-csv",
})  # fmt: skip
"""The loaders of this package whose files may lie beside a trace (``lies_beside``)."""


def ours() -> Iterator[FormatLoader]:
    """The loaders of this package, each imported when it is asked for."""
    return map(_imported, MODULES)


def _imported(address: str) -> FormatLoader:
    module, _, name = address.partition(":")
    loader: FormatLoader = getattr(import_module(f".{module}", __package__), name or "LOADER")
    return loader


def named(name: str) -> FormatLoader | None:
    """The loader of that name; others are imported only as far as it takes to find it."""
    wanted = name.replace("-", "_")
    likely = sorted(MODULES, key=lambda module: wanted not in (module, module.rpartition(".")[2]))
    if (loader := next((one for one in map(_imported, likely) if one.name == name), None)) is not None:
        return loader
    return next((loader for loader in installed() if loader.name == name), None)


@cache
def installed() -> tuple[FormatLoader, ...]:
    """Those that other packages bring, under the entry point group ``warplens.loaders``."""
    registered = extensions("loaders")
    for name, loader in registered.items():
        if not isinstance(loader, FormatLoader):
            print(f"warplens: ignoring the loader {name!r}: it is no FormatLoader", file=sys.stderr)
    return tuple(loader for loader in registered.values() if isinstance(loader, FormatLoader))


def loaders() -> tuple[FormatLoader, ...]:
    """All of them."""
    return (*ours(), *installed())


def directory_files() -> dict[str, str]:
    """The name of the loader by the file that a folder of its format is known by."""
    theirs = {loader.directory_file: loader.name for loader in installed() if loader.directory_file}
    return DIRECTORY_FILES | theirs


def directories_within() -> tuple[str, ...]:
    """The folders inside a recording's folder that some format puts what is read into."""
    return (*DIRECTORIES_WITHIN, *(one.directory_within for one in installed() if one.directory_within))


def samplers() -> frozenset[str]:
    """The formats whose files may lie beside a trace of another: samples of counters taken meanwhile."""
    return SAMPLERS | {loader.name for loader in installed() if loader.lies_beside}


def claims(head: bytes) -> tuple[FormatLoader, ...]:
    """Who recognises these first bytes (after decompression): one of ours, of which no two do, else the installed."""
    for loader in ours():
        if loader.sniff(head):
            return (loader,)
    return tuple(loader for loader in installed() if loader.sniff(head))


def claims_of(path: Path, head: bytes) -> tuple[FormatLoader, ...]:
    """Who recognises the file: by its first bytes, or by its name where nobody knows the bytes."""
    module, beginning = IN_PLACE.get(path.name, ("", b""))
    if module and head.startswith(beginning):
        return (import_module(f".{module}", __package__).LOADER,)
    return claims(head) or tuple(loader for loader in ours() if path.name.endswith(loader.named or "\n"))
