"""CPU samples: how often each stack was sampled per thread, its frames, and the call tree over all stacks.

A frame is a line of ``call_chains.stack``: 'function (module)', or '[module]' if it has no symbol. Everything is
numbers until it is displayed: an hour of eight threads has a few hundred thousand stacks of a few thousand frames.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from .call_tree import Ints, sum_below
from .quantiles import dense
from .thread_names import thread_name

THREAD = ("rank", "pid", "tid")
_FRAME = r"(?s)^(.*) \(([^()]*)\)$"


def sampled(run: Trace) -> pl.LazyFrame:
    """The CPU samples among the call chains of a run."""
    return run.call_chains.filter(pl.col("call").is_null())


def function_of(frame: str) -> pl.Expr:
    """The function name in a column of frames; '[module]' for a frame without a symbol."""
    return pl.coalesce(pl.col(frame).str.extract(_FRAME, 1), frame)


def module_of(frame: str) -> pl.Expr:
    """The module name in a column of frames."""
    plain = pl.when(pl.col(frame).str.starts_with("[")).then(pl.col(frame).str.strip_chars("[]"))
    return pl.coalesce(plain, pl.col(frame).str.extract(_FRAME, 2))


class Stacks(Struct, frozen=True):
    """The sampled stacks of a run. ``names``: the distinct frames. ``lines``: one row per frame of each stack,
    innermost first, with ``at`` (the stack), ``code`` (index into ``names``), ``samples`` (of the stack, all threads)
    and ``walked``. ``seen``: ``samples`` per stack ``at`` and ``thread`` number. ``threads``: ``THREAD`` and the
    display name ``called`` of each thread number.

    A walked stack was recorded with its callers: Nsight Systems may unwind only every fourth sample and keep just the
    innermost frame of the others. If no stack has more than one frame, all count as walked."""
    names: pl.Series
    lines: pl.DataFrame
    seen: pl.DataFrame
    threads: pl.DataFrame


def stacks_of(run: Trace) -> Stacks:
    """The sampled stacks of a run; empty if it has no samples."""
    seen = sampled(run).drop_nulls("stack").group_by(*THREAD, "stack").agg(samples=pl.len().cast(pl.Int64)).collect(
        engine="streaming").sort(*THREAD)
    threads = seen.select(THREAD).unique(maintain_order=True).with_row_index("thread")
    called = [thread_name(run, *thread) for thread in threads.select(THREAD).rows()]
    stacks = seen.select("stack").unique().with_row_index("at")
    seen = seen.join(threads, on=THREAD, nulls_equal=True).join(stacks, on="stack").select("at", "thread", "samples")
    lines = stacks.select("at", frame=pl.col("stack").cast(pl.String).str.split("\n")).explode("frame")
    names = lines.select("frame").unique(maintain_order=True).with_row_index("code")
    several = pl.len().over("at") > 1
    lines = lines.join(names, on="frame", maintain_order="left").select("at", "code").join(
        seen.group_by("at").agg(pl.col("samples").sum()), on="at", maintain_order="left",
    ).with_columns(walked=several | ~several.any())
    return Stacks(names["frame"], lines, seen, threads.with_columns(pl.Series("called", called, dtype=pl.String)))


class StackTree(Struct, frozen=True):
    """Stacks as a tree from the outermost frame down; a node follows its parent (``above``, -1 for a root). ``name``
    indexes the stacks' names, or is len(names) + thread number; ``samples`` counts samples in the node and below,
    ``own`` in the node itself. ``path`` is a hash of the frames from the root, equal for equal paths in any run."""

    above: Ints
    depth: Ints
    name: Ints
    samples: Ints
    own: Ints
    path: pl.Series

    def at_least(self, samples: int) -> StackTree:
        """The nodes with at least that many samples; a node's parent never has fewer."""
        shown = np.flatnonzero(self.samples >= samples)
        number = np.full(len(self.samples) + 1, -1, dtype=np.int64)
        number[shown] = np.arange(len(shown))
        return StackTree(number[self.above[shown]], self.depth[shown], self.name[shown], self.samples[shown],
                         self.own[shown], self.path[shown])


def tree_of(stacks: Stacks, by_thread: bool, deepest: int) -> StackTree:
    """The tree of the walked stacks, per thread or merged; frames deeper than ``deepest`` count in their ancestor."""
    count, lines = len(stacks.names), stacks.lines
    at, code = lines["at"].to_numpy(), lines["code"].to_numpy().astype(np.int64)
    last = np.flatnonzero(np.append(at[1:] != at[:-1], True))  # the outermost frame of each stack
    length = np.diff(last, prepend=-1)
    seen = stacks.seen.join(lines.filter("walked").select("at").unique(), on="at", how="semi")
    ours = seen["at"].to_numpy()
    hashes = np.concatenate([
        stacks.names.hash(0).to_numpy(), stacks.threads["thread"].hash(1).to_numpy()]).astype(np.uint64)
    node, path = np.full(len(ours), -1, dtype=np.int64), np.zeros(1, dtype=np.uint64)
    above, name, depth = list[Ints](), list[Ints](), list[Ints]()
    nodes, some = 0, np.arange(len(ours))
    for level in range(min(int(length.max(initial=0)), deepest) + by_thread):
        if by_thread and not level:
            called = count + seen["thread"].to_numpy().astype(np.int64)
        else:
            frame = level - by_thread
            some = some[length[ours[some]] > frame]
            called = code[last[ours[some]] - frame]
        up = node[some]
        place, first = dense((up + 1) * len(hashes) + called)
        path = np.append(path, (path[up[first] + 1] ^ hashes[called[first]]) * np.uint64(0x9E3779B97F4A7C15))
        node[some] = nodes + place
        above.append(up[first])
        name.append(called[first])
        depth.append(np.full(len(first), level))
        nodes += len(first)
    nothing = np.zeros(0, dtype=np.int64)
    of, names, deep = (np.concatenate([nothing, *one]) for one in (above, name, depth))
    own = np.bincount(node, weights=seen["samples"].to_numpy(), minlength=nodes).astype(np.int64)
    return StackTree(of, deep, names, sum_below(of, deep, own), own, pl.Series("path", path[1:]))
