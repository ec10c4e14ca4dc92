"""What the time of a step divides into. The categories and their order are torch_tb_profiler's."""

from __future__ import annotations

CATEGORIES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other")
"""In the order in which they claim an instant."""
HOST = ("Runtime", "DataLoader", "CPU Exec")
"""What the host does while devices are idle; ``Other`` is nobody's, and the rest is what devices do."""
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
