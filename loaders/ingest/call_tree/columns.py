"""The columns ``parent``, ``depth``, ``self_ns`` and ``crosses`` of the host table, from its times and threads.

Slices nest in time on their thread (rank, pid, tid). What a scheduler or a profiler did to a thread is no call of it
and stays out. Clocks round and recorders lose ends, so nesting may be broken; that is tolerated and counted.

The table comes in blocks, which are looked at in the order of their first slices. Whatever began before the next block
does is in order for good: it is swept, and only what its threads are still in goes on to the next. Recorders write some
megabytes of one kind after the other, or all of one kind and then the next, and both keep a few blocks in memory at a
time: to find the tree of 17 million slices (8 GB of Kineto JSON, November 2026) a process takes 205 MiB, and took 900
with all of them at once, in the same time. Of a table in no order at all every block waits for the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .call_times import CallTimes, Ints, joined, read
from .names import COLUMNS
from .state import State, Swept, compiled_sweep

MOST_ROWS = 1 << 19
"""Rows of a block, at most."""
_LATE = {"row": pl.Int64, "self_ns": pl.Int64}


def blocks_of(frames: Sequence[pl.LazyFrame]) -> list[pl.LazyFrame]:
    """The pieces of a table, those of many rows as several of at most ``MOST_ROWS``."""
    blocks = []
    for frame in frames:
        rows = int(frame.select(pl.len()).collect().item())
        blocks += [frame.slice(at, MOST_ROWS) for at in range(0, rows, MOST_ROWS)] if rows > MOST_ROWS else [frame]
    return blocks


def call_tree(host: pl.LazyFrame, compiled: bool = True) -> pl.DataFrame:
    """``COLUMNS``, a row for each of a host table."""
    late: dict[int, int] = {}
    by_block = dict(trees(blocks_of([host]), late, compiled))
    tree = pl.concat([by_block[number] for number in range(len(by_block))], how="vertical_relaxed")
    return with_late(tree, late_times(late), 0)


def trees(
    blocks: Sequence[pl.LazyFrame], late: dict[int, int], compiled: bool = True
) -> Iterator[tuple[int, pl.DataFrame]]:
    """The number and the ``COLUMNS`` of each block, in the order in which they are known.

    What lasts beyond its block may be given more time of its own afterwards: after the last block ``late`` has the self
    times (ns) of those slices by their rows in the table, and they hold.
    """
    spans = [block.select(pl.len(), pl.col("start_ns").min().alias("first")).collect().row(0) for block in blocks]
    first_rows = np.cumsum([0, *(rows for rows, _ in spans)])
    visits = sorted((first, number) for number, (_, first) in enumerate(spans) if first is not None)
    for number, (rows, first) in enumerate(spans):
        if first is None:
            yield number, _Block(rows, 0).frame()
    state = State(compiled_sweep(int(first_rows[-1])) if compiled else None)
    threads, open_blocks = dict[tuple[int | None, ...], int](), dict[int, _Block]()
    waiting, open_rows = list[CallTimes](), 0
    for visit, (_, number) in enumerate(visits):
        slices = read(blocks[number], int(first_rows[number]), threads)
        open_blocks[number] = _Block(spans[number][0], len(slices.row))
        waiting.append(slices)
        is_last = visit + 1 == len(visits)
        # where nearly all waits for later blocks, each of them would go through all of it again
        if is_last or sum(len(times.row) for times in waiting) >= 2 * open_rows:
            merged = joined(waiting)
            is_ready = merged.start < visits[visit + 1][0] if not is_last else np.ones(len(merged.row), bool)
            waiting = [merged.pick(~is_ready)]
            open_rows = len(waiting[0].row)
            swept = state.go_on(merged.pick(is_ready), len(threads))
            _tell(swept, open_blocks, first_rows, late)
        for finished in [one for one, block in open_blocks.items() if not block.waiting]:
            yield finished, open_blocks.pop(finished).frame()
    _settle(*state.close(), open_blocks, first_rows, late)


def late_times(late: Mapping[int, int]) -> pl.DataFrame:
    """What ``trees`` told late as a frame, by ``row``."""
    return pl.DataFrame({"row": list(late), "self_ns": list(late.values())}, schema=_LATE).sort("row")


def with_late(tree: pl.DataFrame, late: pl.DataFrame, first_row: int) -> pl.DataFrame:
    """Columns of a block, which begins at that row of the table, with the self times that were told ``late``."""
    if "self_ns" not in tree.columns:
        return tree
    low, high = (int(late["row"].search_sorted(row)) for row in (first_row, first_row + tree.height))
    block_late = late.slice(low, high - low)
    if block_late.is_empty():
        return tree
    self_ns = tree["self_ns"].cast(pl.Int64)
    return tree.with_columns(self_ns.scatter(block_late["row"] - first_row, block_late["self_ns"]))


class _Block:
    """What is known of the rows of a block that was read: no parent is -1, and the depth of what is no call."""

    def __init__(self, rows: int, waiting: int) -> None:
        self.parent, self.depth = np.full(rows, -1, np.int32), np.full(rows, -1, np.int32)
        self.own, self.crosses = np.zeros(rows, np.int64), np.zeros(rows, np.uint8)
        self.waiting = waiting

    def frame(self) -> pl.DataFrame:
        frame = pl.DataFrame({
            "parent": self.parent, "depth": _narrow(self.depth), "self_ns": _narrow(self.own),
            "crosses": self.crosses.view(bool),
        })
        return frame.select(
            pl.when(pl.col("parent") >= 0).then("parent").alias("parent"),
            *(pl.when(pl.col("depth") >= 0).then(name).alias(name) for name in COLUMNS[1:]),
        )


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values in half the bits where they fit, -1 to begin with."""
    bits = 8 * values.itemsize // 2
    return values.astype(f"i{bits // 8}") if int(values.max(initial=0)) < 1 << (bits - 1) else values


def _tell(swept: Swept, blocks: dict[int, _Block], first_rows: Ints, late: dict[int, int]) -> None:
    """Put what was found out into the blocks of its rows."""
    of = np.searchsorted(first_rows, swept.row, side="right") - 1
    for number in np.unique(of).tolist():
        block, rows_of_block = blocks[number], np.flatnonzero(of == number)
        at = swept.row[rows_of_block] - first_rows[number]
        block.parent[at], block.depth[at] = swept.parent[rows_of_block], swept.depth[rows_of_block]
        block.own[at], block.crosses[at] = swept.own[rows_of_block], swept.crosses[rows_of_block]
        block.waiting -= len(rows_of_block)
    _settle(swept.ended, swept.ended_own, blocks, first_rows, late)


def _settle(rows: Ints, self_ns: Ints, blocks: dict[int, _Block], first_rows: Ints, late: dict[int, int]) -> None:
    """Give slices of earlier calls the time of their own that they have in the end."""
    of = np.searchsorted(first_rows, rows, side="right") - 1
    for number, row, value in zip(of.tolist(), rows.tolist(), self_ns.tolist(), strict=True):
        if number in blocks:
            blocks[number].own[row - first_rows[number]] = value
        else:
            late[row] = value
