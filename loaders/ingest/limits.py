"""Resource limits for untrusted input: their values, reasons, and how to raise them.

A file of a few megabytes can cause hours of work and exhaust a machine's memory: gzip can expand a thousandfold, every
event can have a unique name, every byte of a header can be another empty list. Input beyond what recorders write is
refused with a sentence that names the limit; ``--limit NAME=VALUE`` or WARPLENS_LIMITS="NAME=VALUE,NAME=VALUE" in the
environment raises it. The environment passes limits on to the ingest process.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..errors import Unreadable

VARIABLE = "WARPLENS_LIMITS"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_VALUE = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


class Limit(NamedTuple):
    """One limit: default value, unit, and the reason for the value."""

    default: int
    unit: str
    reason: str


LIMITS = {
    "unfolded": Limit(200, "times its size", "compressed traces grow 5 to 40 times; under 1 GiB it is not checked"),
    "header": Limit(32 << 20, "bytes", "metadata before the events takes kilobytes, rarely a few megabytes"),
    "header-keys": Limit(100_000, "keys", "recorders write a few dozen before the events"),
    "names": Limit(2_000_000, "different texts", "traces have a few thousand; with a number in each name, 100,000"),
    "name-bytes": Limit(512 << 20, "bytes", "all different texts together, which are held in memory"),
    "snapshot": Limit(512 << 20, "bytes", "a memory snapshot is held as objects, about ten times its size"),
    "ranks": Limit(512, "ranks", "in one file: each is analysed separately; recorders write at most a node's ranks"),
    "dataset-ranks": Limit(100_000, "recordings", "in one reduced dataset: its description has a line for each"),
    "devices": Limit(4096, "devices", "in one file: the idle analysis takes 1.5 ms per device"),
}
"""All limits by name."""
UNCOUNTED_BYTES = 1 << 30  # Unpacked size allowed for every compressed file, whatever its own size.


class Exceeded(Exception):
    """An input exceeds a limit; ``unreadable`` converts this to the error for a file."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(name, what)
        self.name, self.what = name, what

    def unreadable(self, path: Path | str) -> Unreadable:
        """The user's error: the limit, its value, and the option that raises it."""
        value, unit = limit(self.name), LIMITS[self.name].unit
        reason = f"{self.what} (the limit {self.name!r} is {value:,} {unit})"
        return Unreadable(path, reason, f"If you trust the file, raise it: --limit {self.name}={2 * value}.")


def limit(name: str) -> int:
    """The current value of a limit. Raises KeyError for an unknown name."""
    return _set(os.environ.get(VARIABLE, "")).get(name, LIMITS[name].default)


def check(name: str, amount: int, what: str) -> None:
    """Raise Exceeded if the amount is above the limit."""
    if amount > limit(name):
        raise Exceeded(name, what)


def parse(text: str) -> tuple[str, int]:
    """Parse 'NAME=VALUE', as in 'header=64M', to (name, value). Raises ValueError with a sentence."""
    name, _, value = text.partition("=")
    if name.strip() not in LIMITS:
        raise ValueError(f"{name.strip()!r} is not a limit; the limits are {', '.join(LIMITS)}")
    match = _VALUE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value.strip()!r} is not a whole number; write it as in {name.strip()}=64M")
    return name.strip(), int(match[1]) * _UNITS[match[2].lower()]


def adjust(text: str) -> None:
    """Set a limit for this process and its child processes. Raises ValueError as ``parse`` does."""
    parse(text)
    os.environ[VARIABLE] = ",".join(filter(None, (os.environ.get(VARIABLE), text)))


@lru_cache(maxsize=8)
def _set(text: str) -> dict[str, int]:
    """The limits set by the variable's text; invalid parts are ignored."""
    values = {}
    for setting in text.split(","):
        try:
            name, value = parse(setting)
        except ValueError:
            continue
        values[name] = value
    return values
