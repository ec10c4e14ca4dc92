"""The clearly different kinds of launches that hide behind one kernel name.

A templated kernel is one name for many problem sizes: BERT's 293 ``Kernel`` launches are three kinds of GEMM. Launches
are put in order of duration (or grids in order of their mean duration) and cut wherever the next one is longer by
a clear factor. Runs too small to matter are stragglers of their neighbour, not a kind.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .latency import Codes, Ints, Latencies, dense

GAP = 1.4
"""Neighbouring durations further apart than this factor belong to different kinds."""
GRID_GAP = 1.25
"""The same for mean durations of different grids, which are different problems to begin with."""
Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
LEAST_SHARE = 0.05
"""A kind holds at least this share of the launches, and two of them."""


def cut(values: Floats, weights: Ints | None, group: Ints, groups: int, gap: float) -> Ints:
    """The kind each atom belongs to, counted from 0 over all groups.

    Atoms are sorted by (group, value); ``weights`` says how many launches an atom stands for (None: one each).
    Every group below ``groups`` has atoms, and at least one kind.
    """
    begin = np.searchsorted(group, np.arange(groups))
    opens = np.zeros(len(values), dtype=bool)
    np.greater(values[1:], np.maximum(values[:-1] * gap, gap), out=opens[1:])
    opens[begin] = True
    first = np.flatnonzero(opens)
    if len(first) == groups:
        return group.copy()
    of = group[first]
    size, whole = _sums(weights, first, len(values)), _sums(weights, begin, len(values))
    least = np.maximum(2, np.ceil(LEAST_SHARE * whole))
    large = size >= least[of]
    before: Ints = np.cumsum(large) - large
    run_of_group = np.searchsorted(of, np.arange(groups))
    keep = large & (before > before[run_of_group][of])
    keep[run_of_group] = True
    starts = np.zeros(len(values), dtype=np.int64)
    starts[first[keep]] = 1
    return np.cumsum(starts) - 1


def _sums(weights: Ints | None, first: Ints, count: int) -> Ints:
    """Weight of each run that starts at ``first`` and lasts to the next."""
    if weights is None:
        return np.diff(first, append=count)
    return np.add.reduceat(weights, first)


def by_duration(latencies: Latencies) -> Ints:
    """The kind of each launch of ``latencies.sorted_ns``, told by gaps between durations."""
    return cut(latencies.sorted_ns.astype(np.float32), None, latencies.groups_of, len(latencies.starts), GAP)


def per_group(kind: Ints, group: Ints, groups: int) -> Ints:
    """How many kinds each group has; kinds count up through groups in order, as ``cut`` numbers them."""
    last = np.append(np.searchsorted(group, np.arange(1, groups)), len(group)) - 1
    return np.diff(kind[last], prepend=-1) if groups else np.zeros(0, dtype=np.int64)


def _order(group: Ints, means: npt.NDArray[np.float32], groups: int) -> Ints:
    """The atoms by (group, mean), ties as they are.

    Floating-point numbers that are not negative sort as their bits do, so that one word holds all there is to sort by
    and the place it came from: sorting words is several times as fast as sorting by two keys.
    """
    places = max(len(group) - 1, 1).bit_length()
    if places + 31 + groups.bit_length() > 63:
        return np.lexsort((means, group))
    words = (group << 31 | means.view(np.int32)) << places | np.arange(len(group))
    words.sort()
    return words & ((1 << places) - 1)


def by_grid(group_of: Codes, grid: Codes, durations: Ints, groups: int) -> tuple[Ints, Ints]:
    """The kind of each launch told by its grid's mean duration, and how many kinds each group has.

    ``grid`` numbers grids from 0. Grids that take about equally long are one kind.
    """
    many = int(grid.max(initial=0)) + 1
    codes = group_of * np.int64(many) + grid
    pair_of, seen = dense(codes)
    pairs = codes[seen]
    weights = np.bincount(pair_of, minlength=len(pairs))
    means = (np.bincount(pair_of, weights=durations, minlength=len(pairs)) / weights).astype(np.float32)
    group = pairs // many
    order = _order(group, means, groups)
    kind = np.empty(len(pairs), dtype=np.int64)
    kind[order] = cut(means[order], weights[order], group[order], groups, GRID_GAP)
    return kind[pair_of], per_group(kind[order], group[order], groups)
