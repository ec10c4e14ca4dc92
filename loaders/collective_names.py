"""Which device activities are collectives: the one list of the names that tell them from kernels."""

from __future__ import annotations

import re

COLLECTIVE = re.compile(
    r"nccl|rccl|cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|multimem|symm_mem|deep_?ep", re.IGNORECASE
)
"""Library collectives (nccl, rccl) and the custom ones of serving engines."""


def kernel_kind(name: str) -> str:
    """'collective' for the kernels of a collective, else 'kernel'."""
    return "collective" if COLLECTIVE.search(name) else "kernel"
