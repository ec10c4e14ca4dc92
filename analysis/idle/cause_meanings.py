"""The causes of idle time in words. Imports nothing: the idle view is told by what was kept without what finds them."""

from __future__ import annotations

CAUSES = {
    "input": "the launching thread loaded input data",
    "sync": "the launching thread waited for the device",
    "allocation": "memory or code was allocated, freed, registered or loaded",
    "copy": "the launching thread was in a call that copies or sets memory",
    "runtime": "the launching thread was in another runtime or driver call",
    "python": "the launching thread ran Python",
    "op": "the launching thread was in an operator or annotation, outside of calls",
    "untraced": "nothing was recorded of the launching thread",
    "launch": "the launch call itself was running",
    "dispatch": "launched, and the device took its first 20 µs to start",
    "queued": "launched long before, and did not start: an event, another stream, a peer",
    "graph": "between two kernels of one graph launch",
    "profiler": "the profiler was at work",
    "unknown": "no launch call was recorded for what came next",
}
"""Every cause and its meaning; a nanosecond of idle time has exactly one."""

LABELS = {
    "input": "DataLoader", "sync": "host waits for the device", "allocation": "allocation", "copy": "copy call",
    "runtime": "other runtime call", "python": "Python code", "op": "host ops", "untraced": "untraced host code",
    "launch": "launch call", "dispatch": "start of launched work", "queued": "blocked in the queue",
    "graph": "inside a graph launch", "profiler": "profiler", "unknown": "launch not recorded",
}
"""What a list of functions calls each cause."""

ROLES = {"input": "python", "python": "python", "untraced": "python", "op": "op", "launch": "launch",
         "runtime": "launch", "allocation": "launch", "copy": "launch", "sync": "sync", "profiler": "launch"}
"""The colour of each cause: warm where somebody can change it; those that are missing are the device's own."""
