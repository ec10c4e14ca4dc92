"""What the program was in when it asked for memory, where no stack was recorded: the slices open on its thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core.call_tree import Ints, pack
from .frames import UNKNOWN, is_library

_DEEPEST = 200
"""Slices of a stack that are told."""


class Asking(NamedTuple):
    """Who asked: the line that stands for it, and all slices that were open, a line each, innermost first."""

    frame: str
    stack: str | None


def asked_in(run: Trace, blocks: pl.DataFrame) -> list[Asking]:
    """Who asked for each block (``start_ns pid tid rank``); ``UNKNOWN`` where its thread has no slice open then."""
    columns = ("pid", "tid", "rank")
    threads = blocks.select(columns).drop_nulls(["pid", "tid"]).unique()
    if threads.is_empty():
        return [Asking(UNKNOWN, None)] * blocks.height
    number = threads.with_row_index("thread")
    host = run.host.with_row_index("row").select("row", "start_ns", "dur_ns", "parent", "depth", *columns).join(
        number.lazy(), on=columns, how="left", nulls_equal=True, maintain_order="left"
    ).collect(engine="streaming")
    open_at = _innermost(host, blocks.join(number, on=columns, how="left", nulls_equal=True, maintain_order="left"))
    parent = host["parent"].fill_null(-1).to_numpy()
    stacks: dict[int, list[int]] = {}
    for row in {*open_at.tolist()} - {-1}:
        stack = stacks[row] = list[int]()
        while row >= 0 and len(stack) < _DEEPEST:
            stack.append(row)
            row = int(parent[row])
    named = sorted({row for stack in stacks.values() for row in stack})
    wanted = run.host.with_row_index("row").select("row", pl.col("name", "kind").cast(pl.String))
    texts = {
        row: (name or "", kind) for row, name, kind in
        wanted.filter(pl.col("row").is_in(named)).collect(engine="streaming").rows()
    }
    told = {row: _told([texts[one] for one in stack]) for row, stack in stacks.items()}
    return [told.get(row, Asking(UNKNOWN, None)) for row in open_at.tolist()]


def _innermost(host: pl.DataFrame, blocks: pl.DataFrame) -> Ints:
    """The row of the innermost slice open on the block's thread when it was asked for, -1 where none is."""
    some = host.drop_nulls(["thread", "start_ns", "dur_ns", "depth"]).sort("thread", "start_ns", "depth")
    known = (blocks["thread"].is_not_null() & blocks["start_ns"].is_not_null()).to_numpy()
    found = np.full(blocks.height, -1, np.int64)
    if some.is_empty() or not known.any():
        return found
    asked = blocks.filter(pl.Series(known))
    times = np.concatenate((some["start_ns"].to_numpy(), asked["start_ns"].to_numpy()))
    packed = pack(np.concatenate((some["thread"].to_numpy(), asked["thread"].to_numpy())).astype(np.int64), times)
    before = np.searchsorted(packed[: some.height], packed[some.height :], side="right") - 1
    rows = some["row"].to_numpy().astype(np.int64)[np.maximum(before, 0)]
    thread, at = host["thread"].fill_null(-1).to_numpy().astype(np.int64), asked["start_ns"].to_numpy()
    end = (host["start_ns"] + host["dur_ns"]).fill_null(-1).to_numpy()
    parent = host["parent"].fill_null(-1).to_numpy()
    rows[(before < 0) | (thread[rows] != asked["thread"].to_numpy())] = -1
    while (over := (rows >= 0) & (end[rows] < at)).any():  # it ended before: the one around it may still be open
        rows[over] = parent[rows[over]]
    found[known] = rows
    return found


def _told(slices: list[tuple[str, str | None]]) -> Asking:
    """Of slices (name, kind), innermost first: a line of the user's code, else the operator the program called."""
    lines = [name for name, kind in slices if kind == "python" and not is_library(name)]
    operators = [name for name, kind in slices if kind == "op"]
    return Asking((lines or operators[::-1] or [slices[-1][0]])[0], "\n".join(name for name, _ in slices))
