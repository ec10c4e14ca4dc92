"""What the names of files say about ranks: their place in a layout, a number, a timestamp or step of one process."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

_MARK = re.compile(
    r"(node|rank|worker|proc|process|gpu|dev|device|(?<![a-z])[dptec]p)[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)
_OUTERMOST = ("node", "pp", "dp", "ep", "cp", "tp")
"""Words of a layout, those whose ranks lie furthest apart first."""
_RANK = re.compile(r"(?<![a-z])rank[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_LONG_NUMBER = re.compile(r"\d{10,}(?:\.\d+)?|\d+")
_STAGE = re.compile(r"(?<![A-Za-z])(DECODE|EXTEND|PREFILL)(?![A-Za-z])", re.IGNORECASE)
_STEP = re.compile(r"(?<![A-Za-z])(step|iter(?:ation)?)[-_.]?\d+", re.IGNORECASE)
_TIME = 10**9
"""A number in a file name that is at least this large is a timestamp (seconds or smaller units), not a rank."""


class RanksOf(NamedTuple):
    """A distinct rank for each file, how it is known (``recorded``, ``layout`` or ``number``), and, of a layout
    of more than numbered ranks, each file's place in it ('PP1 TP0')."""

    ranks: list[int]
    by: Literal["recorded", "layout", "number"]
    labels: list[str]


def ranks_of(files: Sequence[Path], recorded: Sequence[tuple[int, ...]]) -> RanksOf | None:
    """The rank of each file; None if the files cannot be identified as ranks of one job."""
    single = all(len(ranks) == 1 for ranks in recorded)
    if single and len(set(recorded)) == len(recorded):
        return RanksOf([ranks[0] for ranks in recorded], "recorded", [])
    named = _by_name(files)
    if named is None:
        return None
    if single and named.labels and len(set(recorded)) == 1:  # each part of the layout counts its own ranks
        return named
    agree = (len(ranks) != 1 or ranks[0] == rank for ranks, rank in zip(recorded, named.ranks, strict=True))
    return named if all(agree) else None


def _layouts(names: Sequence[str]) -> list[tuple[tuple[str, int], ...]]:
    """The words and numbers of the layout in each name, outermost first: ``(("pp", 1), ("tp", 0))``. What is the same
    in all names tells nothing: it may be a size ('tp8')."""
    each = [{word.lower(): int(number) for word, number in _MARK.findall(name)} for name in names]
    alike = dict(set(each[0].items()).intersection(*(one.items() for one in each))) if len(each) > 1 else {}
    places = {word: at for at, word in enumerate(_OUTERMOST)}
    return [tuple(sorted(((word, number) for word, number in one.items() if word not in alike),
                         key=lambda one: (places.get(one[0], len(places)), one[0]))) for one in each]


def _by_name(files: Sequence[Path]) -> RanksOf | None:
    names = _names(files)
    matches = [_RANK.findall(name) for name in names]
    layouts = _layouts(names)
    alike = len({tuple(word for word, _ in one) for one in layouts}) == 1
    labels = [" ".join(f"{word.upper() if len(word) == 2 else word}{number}" for word, number in one)
              for one in layouts]
    if not alike or len(set(labels)) < len(labels) or not {word for word, _ in layouts[0]} & {*_OUTERMOST}:
        labels = []
    if all(len(match) == 1 for match in matches) and len({match[0] for match in matches}) == len(matches):
        return RanksOf([int(match[0]) for match in matches], "layout", labels)
    if all(layouts) and alike and len(set(layouts)) == len(layouts):
        numbers = [tuple(number for _, number in one) for one in layouts]
        places = {place: at for at, place in enumerate(sorted(numbers))}
        alone = len(layouts[0]) == 1
        return RanksOf([place[0] if alone else places[place] for place in numbers], "layout", labels)
    every = [tuple(map(int, _NUMBER.findall(name))) for name in names]
    shapes = {_NUMBER.sub("#", name) for name in names}
    if len(shapes) != 1 or len({process_name(file) for file in files}) == 1:
        return None
    columns = [column for column in zip(*every, strict=True) if len(set(column)) > 1]
    if len(columns) != 1 or len(set(columns[0])) != len(names) or min(columns[0]) >= _TIME:
        return None
    return RanksOf(list(columns[0]), "number", [])


def process_name(file: Path) -> str:
    """The file's path with the parts masked that differ between windows of one process: timestamp, step, stage."""
    name = _LONG_NUMBER.sub(lambda number: "#" if float(number[0]) >= _TIME else number[0], file.name)
    return _STEP.sub("#", str(file.parent / _STAGE.sub("#", name)))


def recordings(files: Sequence[Path]) -> list[tuple[Path, ...]]:
    """The files grouped by process, each group sorted by name; groups in order of their first file."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(process_name(file), []).append(file)
    return [tuple(sorted(group)) for group in groups.values()]


def shape(file: Path) -> str:
    """The file name with numbers masked, which is the same for all ranks of a job."""
    return _NUMBER.sub("#", file.name)


def _names(files: Sequence[Path]) -> list[str]:
    """The file names or, if names repeat in different folders, the paths relative to the common folder."""
    names = [file.name for file in files]
    if len(set(names)) == len(names) or len({file.parent for file in files}) == 1:
        return names
    common = os.path.commonpath([file.parent for file in files])
    return [os.path.relpath(file, common) for file in files]
