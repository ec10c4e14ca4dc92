"""Levels of x86-64: what a processor must be able to do for code that was compiled for more than the build machine.

The levels are those of the System V ABI's x86-64 supplement; LLVM knows them by the same names. Other processors have
none here, so for them code is compiled on the machine itself.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_SECOND = frozenset("cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3".split())
_THIRD = _SECOND | frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe".split())
LEVELS = {"x86-64-v3": _THIRD, "x86-64-v2": _SECOND}
"""What Linux calls the abilities of each level, the best level first."""
_CPUINFO_BYTES = 1 << 14


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
