"""The one pattern that recognises collectives among kernel names."""

from __future__ import annotations

import re

COLLECTIVE = re.compile(
    r"nccl|rccl|cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|multimem|symm_mem|deep_?ep", re.IGNORECASE
)
"""Kernels of NCCL and RCCL, and the custom collectives of serving engines."""


def kernel_kind(name: str) -> str:
    """'collective' if the name is that of a collective's kernel, else 'kernel'."""
    return "collective" if COLLECTIVE.search(name) else "kernel"
