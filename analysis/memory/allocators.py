"""The code that requested an allocation: the user's own line in its stack, or the slices open on its thread then."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core.batches import batches
from ..core.call_tree import Ints, pack

_THREAD = ("pid", "tid", "rank")
_DEEPEST = 200  # Most slices of a stack that are listed.


class Allocator(NamedTuple):
    """The origin of an allocation: its representative line, and all open slices, one per line, innermost first."""

    frame: str
    stack: str | None


def allocators_of(run: Trace, blocks: pl.DataFrame) -> list[Allocator]:
    """The caller of each block (``start_ns pid tid rank``); ``UNKNOWN`` if its thread has no slice open then."""
    threads = blocks.select(_THREAD).drop_nulls(["pid", "tid"]).unique().with_row_index("thread")
    numbered = blocks.join(threads, on=_THREAD, how="left", nulls_equal=True, maintain_order="left")
    timed = numbered.drop_nulls(["thread", "start_ns"])
    if timed.is_empty():
        return [Allocator(UNKNOWN, None)] * blocks.height
    host = _open_then(run, threads, timed)
    open_at = _innermost(host, numbered)
    parent = host["parent"].to_numpy()
    stacks: dict[int, list[int]] = {}
    for row in {*open_at.tolist()} - {-1}:
        stack = stacks[row] = list[int]()
        while row >= 0 and len(stack) < _DEEPEST:
            stack.append(row)
            row = int(parent[row])
    named = sorted({row for stack in stacks.values() for row in stack})
    texts = dict(zip(named, host[named].select(pl.col("name").fill_null(""), "kind").rows(), strict=True))
    allocators = {row: _allocator_of([texts[one] for one in stack]) for row, stack in stacks.items()}
    return [allocators.get(row, Allocator(UNKNOWN, None)) for row in open_at.tolist()]


def _open_then(run: Trace, threads: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
    """The slices that were open on their thread at one of the times, ``parent`` renumbered among them, -1 for none. Out
    of millions of slices these are a few thousand, and only these are kept."""
    moments = np.unique(asked["start_ns"].to_numpy())
    room = len(moments) + 1
    keys = np.sort(_thread(asked) * room + np.searchsorted(moments, asked["start_ns"].to_numpy()))
    columns = ("row", "start_ns", "dur_ns", "parent", "depth", "name", "kind", *_THREAD)
    host = run.host.with_row_index("row").select(columns)
    joined = host.join(threads.lazy(), on=_THREAD, nulls_equal=True, maintain_order="left").drop(_THREAD)
    parts = []
    for some in batches(joined.drop_nulls(["start_ns", "dur_ns", "depth"])):
        start = some["start_ns"].to_numpy()
        first = _thread(some) * room + np.searchsorted(moments, start)
        after = _thread(some) * room + np.searchsorted(moments, start + some["dur_ns"].to_numpy(), side="right")
        parts.append(some.filter(pl.Series(np.searchsorted(keys, after) > np.searchsorted(keys, first))))
    result = pl.concat(parts) if parts else joined.head(0).collect()
    moved = result.select(pl.col("row").cast(pl.Int64).alias("parent")).with_row_index("place")
    rows = result.with_columns(pl.col("parent").cast(pl.Int64))
    return rows.join(moved, on="parent", how="left", maintain_order="left").select(
        "thread", "start_ns", "depth", end_ns=pl.col("start_ns") + pl.col("dur_ns"),
        parent=pl.col("place").cast(pl.Int64).fill_null(-1), name=pl.col("name").cast(pl.String),
        kind=pl.col("kind").cast(pl.String),
    )


def _thread(frame: pl.DataFrame) -> Ints:
    return frame["thread"].cast(pl.Int64).to_numpy()


def _innermost(host: pl.DataFrame, blocks: pl.DataFrame) -> Ints:
    """Row of the innermost slice open on the block's thread when it was allocated, -1 for none."""
    placed = (blocks["thread"].is_not_null() & blocks["start_ns"].is_not_null()).to_numpy()
    result = np.full(blocks.height, -1, np.int64)
    if host.is_empty() or not placed.any():
        return result
    some = host.with_row_index("row").sort("thread", "start_ns", "depth")
    timed = blocks.filter(pl.Series(placed))
    at, thread = timed["start_ns"].to_numpy(), _thread(host)
    packed = pack(np.concatenate((_thread(some), _thread(timed))), np.concatenate((some["start_ns"].to_numpy(), at)))
    before = np.searchsorted(packed[: some.height], packed[some.height :], side="right") - 1
    rows = some["row"].cast(pl.Int64).to_numpy()[np.maximum(before, 0)]
    end, parent = host["end_ns"].to_numpy(), host["parent"].to_numpy()
    rows[(before < 0) | (thread[rows] != _thread(timed))] = -1
    while (over := (rows >= 0) & (end[rows] < at)).any():  # it ended before: its parent may still be open
        rows[over] = parent[rows[over]]
    result[placed] = rows
    return result


def _allocator_of(slices: list[tuple[str, str | None]]) -> Allocator:
    """From slices (name, kind), innermost first: a line of the user's code, else the outermost operator."""
    lines = [name for name, kind in slices if kind == "python" and not is_library(name)]
    operators = [name for name, kind in slices if kind == "op"]
    return Allocator((lines or operators[::-1] or [slices[-1][0]])[0], "\n".join(name for name, _ in slices))


_LIBRARY = re.compile(
    r"^\?\?|[/\\]torch[/\\]|[/\\](?:dist|site)-packages[/\\]|^torch[/\\]|^<|[/\\]lib[/\\]python\d|\.(?:cpp|cc|cu|cuh|h|so)\b"
)
UNKNOWN, BEFORE = "(no stack recorded)", "(there before the recording)"


def is_library(frame: str) -> bool:
    """Whether a frame belongs to a library, or is unknown."""
    return _LIBRARY.search(frame) is not None


_PYTHON_LINE = re.compile(r"\.py(?::\d+)?(?: |$)|\.py\(\d+\)")
_BACKWARD = re.compile(r"(\w+Backward\w*)::apply")
_OPERATOR = re.compile(r"at::(?:_ops|native)::(\w+)")
_NATIVE = re.compile(
    r"^\?\?|^c10::|^torch::|^at::|^void |^std::|unwind|\.(?:cpp|cc|cu|cuh|h|c|so)\b|^_?Py|^<|CachingAllocator")


def user_frame(stack: str | None) -> str | None:
    """The user's line in a stack (one frame per line, innermost first): the first line of Python outside libraries,
    else the backward node, else the operator, else null; never an allocator, unwind or interpreter frame."""
    if not stack:
        return UNKNOWN
    frames = stack.split("\n")
    for frame in frames:
        if _PYTHON_LINE.search(frame) and not is_library(frame):
            return frame
    for pattern in (_BACKWARD, _OPERATOR):
        if (match := next((match for frame in frames if (match := pattern.search(frame))), None)) is not None:
            return match[1]
    # a recorder that gives no frames names an operator instead
    return next((frame for frame in frames if not _NATIVE.search(frame) and not is_library(frame)
                 and not _PYTHON_LINE.search(frame)), None)
