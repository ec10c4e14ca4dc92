"""The causes of idle time in words. Imports nothing, so that cached idle time is shown without loading the analysis."""

from __future__ import annotations

CAUSES = {
    "input": "the launching thread loaded input data",
    "sync": "the launching thread waited for the device",
    "allocation": "the launching thread allocated, freed or registered memory, or loaded code",
    "copy": "the launching thread was in a copy or memset call",
    "runtime": "the launching thread was in another runtime or driver call",
    "python": "the launching thread ran Python",
    "op": "the launching thread was in an operator or annotation, outside runtime calls",
    "untraced": "nothing was recorded on the launching thread",
    "launch": "the launch call itself was running",
    "dispatch": "launched less than 20 µs before: the device's own launch latency",
    "queued": "launched, but blocked: probably on an event, another stream or a peer",
    "graph": "between two kernels of one graph launch",
    "profiler": "profiler overhead",
    "lost": "a kernel was launched that has no record: lost by the profiler",
    "unknown": "no launch call was recorded for the next activity",
}
"""Every cause and its meaning; a nanosecond of idle time has exactly one."""

LABELS = {
    "input": "DataLoader (input)", "sync": "host sync", "allocation": "allocation", "copy": "copy calls",
    "runtime": "other runtime calls", "python": "Python code", "op": "host operators", "untraced": "untraced host code",
    "launch": "launch calls", "dispatch": "dispatch", "queued": "queued work", "graph": "gaps in graphs",
    "profiler": "profiler", "lost": "lost records", "unknown": "unknown launches",
}
"""The label of each cause in sentences and charts; it contains the word that lists and filters use."""

CAUSE_LETTERS = {
    "input": "I", "python": "P", "op": "H", "launch": "L", "runtime": "X", "sync": "S", "allocation": "F",
    "dispatch": "D", "queued": "Q", "profiler": "T", "unknown": "U", "copy": "Y", "graph": "G", "untraced": "N",
    "lost": "Z",
}
"""The letter of each cause in bars, before names and in legends: capitals wait, small letters (families) work."""

ROLES = {"input": "python", "python": "python", "untraced": "python", "op": "op", "launch": "launch",
         "runtime": "launch", "allocation": "launch", "copy": "launch", "sync": "sync", "profiler": "launch"}
"""The colour of each cause: warm where the user can change it; causes not listed are the device's own."""


def idle_name(cause: str) -> str:
    """The display name of idle time with that cause: 'idle: DataLoader (input)'."""
    return f"idle: {LABELS[cause]}"
