"""All loaders, most used first, and the search for the one that recognises a file.

Loader modules are imported when a file is opened, not with the package, and only until one recognises the file, because
each imports the libraries it needs.
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
    "converted",
    "operations",
    "flight_recorder",
    "megatron_timers",
)
"""Modules of this package that define ``LOADER``, or 'module:NAME'. A new format is one file and one line here."""
DIRECTORY_FILES = {
    "kernel_details.csv": "ascend",
    "StringIds.parquet": "nsys-parquet",
    "pmc_perf.csv": "rocprofiler-compute",
    "result_perf_data.csv": "cycle-profile",
    "dataset.json": "dataset",
    "warplens.json": "converted",
}
"""``directory_file`` → loader name, repeated here so that a folder is recognised without importing loaders."""
DIRECTORIES_WITHIN = ("ASCEND_PROFILER_OUTPUT",)  # Every ``directory_within`` of this package's loaders.
SAMPLERS = frozenset({
    "cycle-profile", "memory-snapshot", "nvidia-smi", "dcgmi", "prometheus", "amd-smi", "counters-csv",
})  # fmt: skip
"""This package's loaders with ``is_sidecar``: counter samples recorded alongside a trace."""


def ours() -> Iterator[FormatLoader]:
    """This package's loaders; each is imported when the iterator reaches it."""
    return map(_imported, MODULES)


def _imported(address: str) -> FormatLoader:
    module, _, name = address.partition(":")
    loader: FormatLoader = getattr(import_module(f".{module}", __package__), name or "LOADER")
    return loader


def named(name: str) -> FormatLoader | None:
    """The loader called ``name``, or None; modules are imported only until it is found."""
    wanted = name.replace("-", "_")
    likely = sorted(MODULES, key=lambda module: wanted not in (module, module.rpartition(".")[2]))
    if (loader := next((one for one in map(_imported, likely) if one.name == name), None)) is not None:
        return loader
    return next((loader for loader in installed() if loader.name == name), None)


@cache
def installed() -> tuple[FormatLoader, ...]:
    """Loaders of other packages, from the entry point group ``warplens.loaders``."""
    registered = extensions("loaders")
    for name, loader in registered.items():
        if not isinstance(loader, FormatLoader):
            print(f"warplens: ignoring the loader {name!r}: it is not a FormatLoader", file=sys.stderr)
    return tuple(loader for loader in registered.values() if isinstance(loader, FormatLoader))


def loaders() -> tuple[FormatLoader, ...]:
    """All loaders: this package's, then those of other packages."""
    return (*ours(), *installed())


def directory_files() -> dict[str, str]:
    """``directory_file`` → loader name, for all loaders."""
    theirs = {loader.directory_file: loader.name for loader in installed() if loader.directory_file}
    return DIRECTORY_FILES | theirs


def directories_within() -> tuple[str, ...]:
    """Every ``directory_within`` of all loaders."""
    return (*DIRECTORIES_WITHIN, *(one.directory_within for one in installed() if one.directory_within))


def samplers() -> frozenset[str]:
    """Names of all loaders with ``is_sidecar``: counter samples recorded alongside a trace of another format."""
    return SAMPLERS | {loader.name for loader in installed() if loader.is_sidecar}


def claims(head: bytes) -> tuple[FormatLoader, ...]:
    """The loaders that recognise the first bytes (after decompression): the first match of this package, whose sniffers
    never overlap, else all matches of other packages."""
    for loader in ours():
        if loader.sniff(head):
            return (loader,)
    return tuple(loader for loader in installed() if loader.sniff(head))


def claims_of(path: Path, head: bytes) -> tuple[FormatLoader, ...]:
    """The loaders that recognise the file by its first bytes or, if none does, by its name."""
    module, beginning = IN_PLACE.get(path.name, ("", b""))
    if module and head.startswith(beginning):
        return (import_module(f".{module}", __package__).LOADER,)
    return claims(head) or tuple(loader for loader in ours() if loader.recognises(path))
