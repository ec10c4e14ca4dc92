"""How many threads a load may use: what the process may run on, and no more than it was told.

A container may have a share of a machine that shows all its cores, so the limits of its control group count as well.
Source of their files: the kernel's documentation, cgroup-v2 (cpu.max) and cpu.cfs_quota_us of version 1.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

SETTING = "WARPLENS_THREADS"  # The environment variable that says how many threads a load may use at most.
_GROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """The cores this process may use, at least one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, _share(_GROUPS) or count))


def threads(low: int, high: int) -> int:
    """As many threads as there are cores, between these bounds, unless the setting asks for fewer."""
    count = max(low, min(cores(), high))
    with suppress(ValueError):
        return max(1, min(count, int(os.environ.get(SETTING, ""))))
    return count


def _share(groups: Path) -> int | None:
    """The cores that the control group may use, a part of one counted as one; None where it is not limited."""
    with suppress(OSError, ValueError):
        quota, period = (groups / "cpu.max").read_text().split()[:2]
        return None if quota == "max" else -(-int(quota) // int(period))
    with suppress(OSError, ValueError):
        quota, period = ((groups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return -(-int(quota) // int(period)) if int(quota) > 0 else None
    return None
