"""Pairing of devices: which device of B is compared with which device of A.

A job that runs on GPU 1 today and ran on GPU 3 yesterday is the same job. If the runs have the same number of devices
and no device name in common, devices are paired in order; if they share a name, devices are paired by name. A run that
names no device ran on the only device of the other run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from ...loaders.schema import NAME

HOST = "Host"
LINK = " link"
"""Ends the name under which what a device copies over its link is listed apart."""


def mapped(a: Iterable[str | None], b: Iterable[str | None]) -> dict[str, str]:
    """B's device name → A's, for those that differ; empty if devices are paired by name."""
    sides = [{name for name in side if name and name != HOST} for side in (a, b)]
    left, right = (sorted({name.removesuffix(LINK) for name in side}, key=natural) for side in sides)
    if not left or len(left) != len(right) or set(left) & set(right):
        return {}
    pairs = dict(zip(right, left, strict=True))
    return pairs | {name: pairs[name.removesuffix(LINK)] + LINK for name in sorted(sides[1]) if name.endswith(LINK)}


def only_device(a: Iterable[str | None], b: Iterable[str | None]) -> str | None:
    """The only device of one run if the other run names none; None in all other cases."""
    sides = set(a), set(b)
    named = [side for side in sides if side != {None}]
    if len(named) != 1 or len(named[0]) != 1 or HOST in named[0]:
        return None
    return next(iter(named[0]))


def together(a: Iterable[str | None], b: Iterable[str | None]) -> bool:
    """Whether one run names no device (a table of sums) and the other has several, which are then summed."""
    none, several = sorted((set(a), set(b)), key=lambda side: len(side - {None}))
    return none == {None} and len(several) > 1


def renamed_devices(pairs: dict[str, str]) -> pl.Expr:
    """The column ``device`` of a table of B with the names of A's devices; dtype as in every table."""
    return pl.col("device").cast(pl.String).replace(pairs).cast(NAME)


def natural(name: object) -> tuple[tuple[int, str], ...]:
    """Sort key that puts GPU 10 after GPU 2."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(name)) if part)


def note(pairs: dict[str, str]) -> list[str]:
    """One sentence for the notes if devices were paired in order."""
    if not pairs:
        return []
    devices = [f"B's {theirs} with A's {own}" for theirs, own in pairs.items() if not theirs.endswith(LINK)]
    more = " and so on" if len(devices) > 4 else ""
    return [f"The runs used different device numbers: compared {', '.join(devices[:4])}{more}."]
