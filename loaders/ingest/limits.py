"""How much of anything an input may ask for: the one place of limits, what they keep away, and how they are raised.

A file of a few megabytes can stand for hours of work and all of a machine's memory: gzip unfolds a thousand times,
every event can have a name of its own, every byte of a header can be another empty list. What no recorder writes is
refused with a sentence that names the limit; ``--limit NAME=VALUE``, or WARPLENS_LIMITS="NAME=VALUE,NAME=VALUE" in the
environment, raises it. The environment is how a limit reaches the process that reads.
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
    """One limit: its value unless it is set, its unit, and why it is what it is."""

    default: int
    unit: str
    reason: str


LIMITS = {
    "unfolded": Limit(200, "times its size", "compressed traces unfold 5 to 40 times; below 1 GiB nobody counts"),
    "header": Limit(32 << 20, "bytes", "what traces have before their events is kilobytes, rarely some megabytes"),
    "header-keys": Limit(100_000, "keys", "recorders write a few dozen before the events"),
    "names": Limit(2_000_000, "different texts", "traces have some thousand; with a number in each name, 100,000"),
    "name-bytes": Limit(512 << 20, "bytes", "all different texts together; they are held in memory"),
    "snapshot": Limit(512 << 20, "bytes", "a memory snapshot is held as objects, some ten times its size"),
    "ranks": Limit(512, "ranks", "of one file: each is looked at alone; recorders put no more than a node's together"),
    "dataset-ranks": Limit(100_000, "recordings", "of one reduced dataset: each has a line in what describes it"),
    "devices": Limit(4096, "devices", "of one file: when each waited is looked at alone, 1.5 ms each"),
}
"""Every limit by name."""
UNCOUNTED_BYTES = 1 << 30  # Of a compressed file, what it may unfold to whatever its own size.


class Exceeded(Exception):
    """An input passes a limit; ``unreadable`` says so of a file."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(name, what)
        self.name, self.what = name, what

    def unreadable(self, path: Path | str) -> Unreadable:
        """The refusal: which limit, what it is, and the option that raises it."""
        value, unit = limit(self.name), LIMITS[self.name].unit
        reason = f"{self.what} (the limit {self.name!r} is {value:,} {unit})"
        return Unreadable(path, reason, f"If you trust the file, raise it: --limit {self.name}={2 * value}.")


def limit(name: str) -> int:
    """The value of a limit now. Raises KeyError for a name that is none."""
    return _set(os.environ.get(VARIABLE, "")).get(name, LIMITS[name].default)


def check(name: str, amount: int, what: str) -> None:
    """Raise Exceeded where the amount passes the limit."""
    if amount > limit(name):
        raise Exceeded(name, what)


def parse(text: str) -> tuple[str, int]:
    """A limit and its value from 'NAME=VALUE', as in 'header=64M'. Raises ValueError with a sentence."""
    name, _, value = text.partition("=")
    if name.strip() not in LIMITS:
        raise ValueError(f"{name.strip()!r} is not a limit; the limits are {', '.join(LIMITS)}")
    match = _VALUE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value.strip()!r} is not a whole number; write it as in {name.strip()}=64M")
    return name.strip(), int(match[1]) * _UNITS[match[2].lower()]


def adjust(text: str) -> None:
    """Set a limit for this process and those it starts. Raises ValueError as ``parse`` does."""
    parse(text)
    os.environ[VARIABLE] = ",".join(filter(None, (os.environ.get(VARIABLE), text)))


@lru_cache(maxsize=8)
def _set(text: str) -> dict[str, int]:
    """What the variable says; a part that says nothing is passed over."""
    values = {}
    for setting in text.split(","):
        try:
            name, value = parse(setting)
        except ValueError:
            continue
        values[name] = value
    return values
