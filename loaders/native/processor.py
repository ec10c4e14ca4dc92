"""The processor's x86-64 level, and how many of its cores a load may use.

The levels are those of the System V ABI's x86-64 supplement; LLVM uses the same names. Other processors have none, so
their code is compiled on the machine itself. A container may see all cores of the machine but be limited to a share of
them, so cgroup limits are considered as well: cpu.max (cgroup v2) and cpu.cfs_quota_us (v1), see the kernel
documentation.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_SECOND = frozenset("cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3".split())
_THIRD = _SECOND | frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe".split())
LEVELS = {"x86-64-v3": _THIRD, "x86-64-v2": _SECOND}  # Feature flags of each level as Linux names them, best first.
_CPUINFO_BYTES = 1 << 14
SETTING = "WARPLENS_THREADS"  # The environment variable with the maximum number of threads of a load.
_GROUPS = Path("/sys/fs/cgroup")


def _processor_lines() -> list[bytes]:
    """Lines of /proc/cpuinfo about the first processor; empty on other systems."""
    try:
        with Path("/proc/cpuinfo").open("rb") as file:
            return file.read(_CPUINFO_BYTES).partition(b"\n\n")[0].split(b"\n")
    except OSError:
        return []


@cache
def levels_here() -> tuple[str, ...]:
    """The levels this processor supports, best first; empty if unknown."""
    flags = {
        flag for line in _processor_lines() if line.startswith(b"flags")
        for flag in line.partition(b":")[2].decode(errors="replace").split()
    }
    return tuple(level for level, needed in LEVELS.items() if needed <= flags)


def cores() -> int:
    """Number of cores this process may use, at least 1."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, _share(_GROUPS) or count))


def threads(low: int, high: int) -> int:
    """Thread count: the number of cores within these bounds; ``WARPLENS_THREADS`` may lower it further."""
    count = max(low, min(cores(), high))
    with suppress(ValueError):
        return max(1, min(count, int(os.environ.get(SETTING, ""))))
    return count


def _share(groups: Path) -> int | None:
    """The cgroup's CPU limit in cores, rounded up; None if there is none."""
    with suppress(OSError, ValueError):
        quota, period = (groups / "cpu.max").read_text().split()[:2]
        return None if quota == "max" else -(-int(quota) // int(period))
    with suppress(OSError, ValueError):
        quota, period = ((groups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return -(-int(quota) // int(period)) if int(quota) > 0 else None
    return None
