"""Categories of the step breakdown. Names and order are torch_tb_profiler's."""

from __future__ import annotations

CATEGORIES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other")
"""In order of priority: an instant goes to the first active category."""
HOST = ("Runtime", "DataLoader", "CPU Exec")
"""Host categories, counted while devices are idle. The rest are device categories, except ``Other``."""
MEANINGS = {
    "Kernel": "a kernel runs on a device",
    "Memcpy": "a copy runs, no kernel",
    "Memset": "a memset runs, no kernel or copy",
    "Communication": "a collective runs, none of the above",
    "Runtime": "devices are idle, the host is in a runtime or driver call",
    "DataLoader": "devices are idle, the host waits for input data",
    "CPU Exec": "devices are idle, the host is in an operator",
    "Other": "none of these",
}
