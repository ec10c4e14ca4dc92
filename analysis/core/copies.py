"""The direction and memory kind of a copy, from its name. Each profiler spells them its own way."""

from __future__ import annotations

import re

import polars as pl

from .call_tree import Mask

_HOST, _DEVICE = r"(?:host|h)", r"(?:device|d)"
_TO = r"[ _-]*(?:to|2|->)[ _-]*"
_DIRECTIONS = (
    ("H2D", re.compile(rf"(?<![a-z]){_HOST}{_TO}{_DEVICE}(?![a-z])")),
    ("D2H", re.compile(rf"(?<![a-z]){_DEVICE}{_TO}{_HOST}(?![a-z])")),
    ("P2P", re.compile(r"(?<![a-z])(?:p|peer)[ _-]*(?:to|2)[ _-]*(?:p|peer)(?![a-z])")),
    ("D2D", re.compile(rf"(?<![a-z]){_DEVICE}{_TO}{_DEVICE}(?![a-z])")),
    ("H2H", re.compile(rf"(?<![a-z]){_HOST}{_TO}{_HOST}(?![a-z])")),
)
_CAPITALS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SIDES = re.compile(r"\((.+?)\s*->\s*(.+?)\)")
_PLACES = ("pageable", "pinned", "managed")


def direction(name: str) -> str | None:
    """H2D, D2H, D2D, P2P (another device) or H2H from the name of a copy; None if it does not say."""
    words = _CAPITALS.sub(" ", _SIDES.sub("", name)).lower().replace("memcpy", "memcpy ")
    match = next((word for word, pattern in _DIRECTIONS if pattern.search(words)), None)
    sides = _SIDES.search(name)
    if match is None and sides:  # only the memory kinds are named
        at = ["D" if side.lower().startswith(("device", "array")) else "H" for side in sides.groups()]
        return "2".join(at)
    return match


def memory(name: str) -> str | None:
    """pageable, pinned or managed if the name of a copy says so for either side; None if it does not."""
    text = name.lower()
    if "unified" in text:  # a migration of managed memory
        return "managed"
    return next((place for place in _PLACES if place in text), None)


def over_link(names: pl.Series) -> Mask:
    """Mask of the copies between device memory and the host or another device: those that cross a link."""
    some = names.unique()
    linked = [name for name in some.cast(pl.String).drop_nulls() if direction(name) in ("H2D", "D2H", "P2P")]
    return names.is_in(pl.Series(linked, dtype=names.dtype).implode()).fill_null(False).to_numpy()
