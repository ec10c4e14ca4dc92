"""Categories of the step breakdown. Names and order are torch_tb_profiler's."""

from __future__ import annotations

CATEGORIES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other")
"""In order of priority: an instant goes to the first active category."""
HOST = ("Runtime", "DataLoader", "CPU Exec")
"""Host categories, counted while devices are idle. The rest are device categories, except ``Other``."""
MEANINGS = {
    "Kernel": "a kernel runs on a device",
    "Memcpy": "a copy runs, and no kernel",
    "Memset": "a set runs, and none of those",
    "Communication": "a collective runs that nothing above hides",
    "Runtime": "the host is in a runtime or driver call, and devices are idle",
    "DataLoader": "the host waits for input data, and devices are idle",
    "CPU Exec": "the host is in an operator, and devices are idle",
    "Other": "none of these",
}
