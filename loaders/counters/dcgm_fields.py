"""Fields of DCGM by their names and by the short tags of ``dcgmi dmon``: in which unit each is, as its manual says.

Ratios of the profiling module (0 to 1) become percent. Memory is in MiB, PCIe throughput of the device counters in
KB/s, of the profiling module in B/s, as NVLink's.
"""

from __future__ import annotations

import re

_NAMES: tuple[tuple[str, str], ...] = (
    (r"_PROF_.*(?:ACTIVE|OCCUPANCY|RATIO)", "ratio"), (r"_PROF_(?:PCIE|NVLINK)_.*BYTES", "B/s"),
    (r"_FB_USED_PERCENT", "ratio"), (r"_FB_|_BAR1_", "MiB"), (r"_PCIE_[TR]X_THROUGHPUT", "kB/s"),
    (r"_NVLINK_BANDWIDTH", "MB/s"), (r"ENERGY", "mJ"), (r"POWER|_ENFORCED_POWER_LIMIT", "W"), (r"TEMP", "C"),
    (r"CLOCK_THROTTLE|CLOCKS_EVENT", ""), (r"CLOCK", "MHz"), (r"_UTIL$|_UTIL[^A-Z]|FAN_SPEED", "%"),
    (r"_VIOLATION$", "us"),
)
_TAGS: dict[str, str] = {
    "GPUTL": "%", "MCUTL": "%", "ENUTL": "%", "DCUTL": "%", "GRACT": "ratio", "SMACT": "ratio", "SMOCC": "ratio",
    "TENSO": "ratio", "DRAMA": "ratio", "FP64A": "ratio", "FP32A": "ratio", "FP16A": "ratio", "TIMMA": "ratio",
    "THMMA": "ratio", "TDMMA": "ratio", "INTAC": "ratio", "PCITX": "B/s", "PCIRX": "B/s", "NVLTX": "B/s",
    "NVLRX": "B/s", "NVLBT": "MB/s", "TXTPT": "kB/s", "RXTPT": "kB/s", "POWER": "W", "POWR": "W", "TOTEC": "mJ",
    "TMPTR": "C", "GTEMP": "C", "MTEMP": "C", "MMTMP": "C", "GPUT": "C", "SMCLK": "MHz", "MMCLK": "MHz",
    "VICLK": "MHz", "SMMAX": "MHz", "FBTTL": "MiB", "FBUSD": "MiB", "FBFRE": "MiB", "B1USD": "MiB", "FANSP": "%",
}  # fmt: skip


def unit_of(name: str) -> str:
    """The unit of a field by its name (``DCGM_FI_DEV_SM_CLOCK``) or tag (``SMCLK``); '' where it has none."""
    if name in _TAGS:
        return _TAGS[name]
    if not name.startswith("DCGM_FI_"):
        return ""
    return next((unit for pattern, unit in _NAMES if re.search(pattern, name)), "")
