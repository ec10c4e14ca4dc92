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
    "input": "DataLoader (input)", "sync": "host sync", "allocation": "allocation", "copy": "copy calls",
    "runtime": "other runtime calls", "python": "Python code", "op": "host ops", "untraced": "untraced host code",
    "launch": "launch calls", "dispatch": "dispatch", "queued": "queued work", "graph": "gaps in graphs",
    "profiler": "profiler", "unknown": "unknown launches",
}
"""What sentences and pictures call each cause: the word that lists and filters have is in it."""

ROLES = {"input": "python", "python": "python", "untraced": "python", "op": "op", "launch": "launch",
         "runtime": "launch", "allocation": "launch", "copy": "launch", "sync": "sync", "profiler": "launch"}
"""The colour of each cause: warm where somebody can change it; those that are missing are the device's own."""


def idle_name(cause: str) -> str:
    """What is lost by that cause: 'idle: DataLoader (input)'."""
    return f"idle: {LABELS[cause]}"
