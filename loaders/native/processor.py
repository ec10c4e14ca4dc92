"""The processor: for which level of x86-64 code may be made here, and how many of its cores a load may use.

The levels are those of the System V ABI's x86-64 supplement; LLVM knows them by the same names. Other processors have
none here, so for them code is compiled on the machine itself. A container may have a share of a machine that shows all
its cores, so the limits of its control group count as well: the kernel's documentation, cgroup-v2 (cpu.max) and
cpu.cfs_quota_us of version 1.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_SECOND = frozenset("cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3".split())
_THIRD = _SECOND | frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe".split())
LEVELS = {"x86-64-v3": _THIRD, "x86-64-v2": _SECOND}  # What Linux calls the features of each level, the best first.
_CPUINFO_BYTES = 1 << 14
SETTING = "WARPLENS_THREADS"  # The environment variable that says how many threads a load may use at most.
_GROUPS = Path("/sys/fs/cgroup")


def _processor_lines() -> list[bytes]:
    """What Linux says of the first processor; nothing elsewhere."""
    try:
        with Path("/proc/cpuinfo").open("rb") as file:
            return file.read(_CPUINFO_BYTES).partition(b"\n\n")[0].split(b"\n")
    except OSError:
        return []


@cache
def levels_here() -> tuple[str, ...]:
    """The levels that this processor has, the best first; none where that is not known."""
    flags = {
        flag for line in _processor_lines() if line.startswith(b"flags")
        for flag in line.partition(b":")[2].decode(errors="replace").split()
    }
    return tuple(level for level, needed in LEVELS.items() if needed <= flags)


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
