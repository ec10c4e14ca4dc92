"""Could it be chance? A permutation test: the cycles are assigned to A and B anew, many times.

A function counts as changed only if its statistic beats the largest of *all* functions in 95 of 100 permutations
(Westfall and Young, Resampling-Based Multiple Testing, 1993), so a run compared with itself raises a false alarm at
most once in twenty comparisons, whatever its noise looks like and however many functions it has. Functions seen in the
same cycles are permuted together as one block, which keeps what they have in common.

Two things are tested, each in a family of its own: time per launch (logarithms, outlying cycles pulled in) and launches
per cycle (mostly constant, where any steady change is real and a statistic in standard deviations would be infinite).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from .robust_location import PRIOR_WEIGHT, Floats, pulled_in, trimmed

Flags = NDArray[np.bool_]
PERMUTATIONS = 999
"""Random permutations of the cycles, where all there are would be more."""
COUNT_GRAIN = 0.02
"""Launches per cycle are told apart in steps of this share of them: a difference of half a step is none."""
HALVINGS = 300
"""Random halvings of the baseline that its own noise is taken from, where there are more than PERMUTATIONS of them."""
_CHUNK = 250_000
"""Numbers of a step of the arithmetic: 2 MB, of which there are several at once."""
_WIDEST = 4_000_000
"""Cycles times permutations that are numbers at once: 32 MB."""
_KEPT_BYTES = 16 << 20
"""Permutations that are kept, as bits."""
TOGETHER = 2_000_000
"""Functions times cycles that are compared at once, where each is on its own: 16 MB, and some of it several times."""


class Block(Struct, frozen=True):
    """Functions seen in the same cycles: values per function (row) and cycle (column) of each side.

    ``rows`` are their places in the list of all functions, ``prior`` the usual variance of each.
    """

    rows: NDArray[np.intp]
    a: Floats | list[Floats]
    b: Floats | list[Floats]
    prior: Floats

    def pieces(self) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Values of both sides and prior of some functions after the other."""
        step = together(len(self.a[0]) + len(self.b[0])) if len(self.rows) else 1
        for at in range(0, len(self.rows), step):
            until = at + step
            yield np.array(self.a[at:until]), np.array(self.b[at:until]), self.prior[at:until]


def together(cycles: int) -> int:
    """How many functions of so many cycles are compared at once."""
    return max(1, TOGETHER // max(cycles, 1))


_known: dict[tuple[int, int], NDArray[np.uint8]] = {}


def assignments(n_a: int, n_b: int) -> Flags:
    """Ways to assign n_a + n_b cycles, True for those that go to B: all, or PERMUTATIONS random ones, fixed by a seed.

    The first is the cycles as they were. They are kept as bits, for both families and the next diff: functions are
    seen in hundreds of different numbers of cycles, and to draw anew takes ten times as long.
    """
    packed = _known.get((n_a, n_b))
    if packed is None:
        packed = np.packbits(_assigned(n_a, n_b), axis=1)
        if sum(some.nbytes for some in list(_known.values())) + packed.nbytes > _KEPT_BYTES:
            _known.clear()
        _known[n_a, n_b] = packed
    return np.unpackbits(packed, axis=1, count=n_a + n_b).view(np.bool_)


def _assigned(n_a: int, n_b: int) -> Flags:
    n = n_a + n_b
    actual = np.arange(n) >= n_a
    if ways(n_a, n_b) <= PERMUTATIONS:
        made = np.zeros((ways(n_a, n_b), n), dtype=bool)
        for row, chosen in enumerate(combinations(range(n - 1, -1, -1), n_b)):
            made[row, list(chosen)] = True
        return made
    draw = np.random.default_rng(20_261_121)
    made = np.empty((1 + PERMUTATIONS, n), dtype=bool)
    made[0] = actual
    step = max(1, _CHUNK // n)
    for start in range(1, len(made), step):
        some = made[start : start + step]
        drawn = draw.random(some.shape)
        some[:] = drawn <= np.sort(drawn, axis=1)[:, n_b - 1 : n_b]  # three times as quick as their argsort
    return made


@lru_cache(maxsize=64)
def ways(n_a: int, n_b: int) -> int:
    """How many ways there are to assign n_a + n_b cycles: a number of thousands of digits for thousands of cycles."""
    return comb(n_a + n_b, n_b)


def enough(n_a: int, n_b: int) -> bool:
    """Whether there are enough permutations of these cycles to tell chance at one in twenty."""
    return min(n_a, n_b) > 0 and ways(n_a, n_b) >= 20


class _Sums(Struct, frozen=True):
    """What a statistic needs of both sides: cycles, means, and squared deviations from the mean of one's own side."""

    n_a: int
    n_b: int
    a: Floats
    b: Floats
    squares: Floats


def _time_statistic(sums: _Sums, prior: Floats) -> Floats:
    delta: Floats = np.abs(sums.b - sums.a)
    freedom = sums.n_a + sums.n_b - 2 + PRIOR_WEIGHT
    error = np.sqrt((sums.squares + PRIOR_WEIGHT * prior) / freedom * (1 / sums.n_a + 1 / sums.n_b))
    found: Floats = np.where(delta <= 1e-12, 0.0, delta / np.maximum(error, 1e-9))
    return found


def _count_statistic(sums: _Sums, prior: Floats) -> Floats:
    n = sums.n_a + sums.n_b
    grain = COUNT_GRAIN * (sums.a * sums.n_a + sums.b * sums.n_b) / n
    found: Floats = np.abs(sums.b - sums.a) / np.maximum(np.sqrt(sums.squares / n) + grain, 1e-12)
    return found


def _as_it_was(a: Floats, b: Floats) -> _Sums:
    squares = a.var(axis=1) * a.shape[1] + b.var(axis=1) * b.shape[1]
    return _Sums(a.shape[1], b.shape[1], a.mean(axis=1), b.mean(axis=1), squares)


def familywise_q(blocks: list[Block], family: Literal["time", "count"], functions: int) -> Floats:
    """Per function the probability that some function of its family moves this far by chance; NaN where not tested."""
    q: Floats = np.full(functions, np.nan)
    statistic = _time_statistic if family == "time" else _count_statistic
    chances: list[Floats] = []
    found: list[Floats] = []
    for block in blocks:
        largest: Floats = np.zeros(1)
        for a, b, prior in block.pieces():
            sides = pulled_in(a, b, prior) if family == "time" else (a, b)
            largest = np.maximum(largest, _largest(sides, prior, statistic))
            found.append(statistic(_as_it_was(*sides), prior))
        chances.append(np.sort(largest))
    if not blocks:
        return q
    of = np.repeat(np.arange(len(blocks)), [len(block.rows) for block in blocks])
    least = np.concatenate(found) * (1 - 1e-9)
    none = np.ones(len(least))
    for number, largest in enumerate(chances):
        beaten = len(largest) - np.searchsorted(largest, least, side="left")
        # the cycles as they were are a chance result of their own block only
        beaten = np.where(of == number, beaten, np.maximum(beaten - 1, 0))
        none *= 1 - beaten / len(largest)
    own = np.array([1 / len(largest) for largest in chances])
    q[np.concatenate([block.rows for block in blocks])] = np.clip(1 - none, own[of], 1.0)
    return q


def _largest(
    sides: tuple[Floats, Floats], prior: Floats, statistic: Callable[[_Sums, Floats], Floats]
) -> Floats:
    """The largest statistic over the functions in each permutation; the cycles as they were are among them.

    Means and squares of every permutation are matrix products of the values with the assignments, so a thousand
    functions take milliseconds. Values are taken relative to their mean, which keeps the squares exact.
    """
    values = np.concatenate(sides, axis=1)
    n_a, n_b = sides[0].shape[1], sides[1].shape[1]
    every = assignments(n_a, n_b)
    width = max(1, _WIDEST // every.shape[1])
    return np.concatenate([
        _largest_of(values, every[at : at + width], (n_a, n_b), prior, statistic) for at in range(0, len(every), width)
    ])


def _largest_of(
    values: Floats, some: Flags, sides: tuple[int, int], prior: Floats,
    statistic: Callable[[_Sums, Floats], Floats],
) -> Floats:
    """``_largest`` of some of the permutations."""
    n_a, n_b = sides
    to_b = some.T.astype(np.float64)
    largest: Floats = np.zeros(to_b.shape[1])
    step = max(1, _CHUNK // to_b.shape[1])
    for start in range(0, len(values), step):
        rows = values[start : start + step]
        middle = rows.mean(axis=1, keepdims=True)
        near = rows - middle
        b = near @ to_b / n_b
        a = -b * n_b / n_a
        squares = np.maximum((near**2).sum(axis=1, keepdims=True) - n_a * a**2 - n_b * b**2, 0.0)
        found = statistic(_Sums(n_a, n_b, a + middle, b + middle, squares), prior[start : start + step, None])
        largest = np.maximum(largest, found.max(axis=0))
    return largest


def half_noise(values: Floats) -> Floats:
    """How far the centres of two random halves of the cycles (columns) lie apart, at most, in 95 of 100 halvings.

    A row is put in order once; which of its values a half keeps then follows from counting how many of the half come
    before. To put the halves of every halving in order took eight times as long.
    """
    n = values.shape[1]
    halves = assignments(n // 2, n - n // 2)
    if len(halves) > PERMUTATIONS:  # random ones, of which the first are as good as all
        halves = halves[:HALVINGS]
    out: Floats = np.zeros(len(values))
    width = max(1, min(len(halves), _CHUNK // n))
    step = max(1, _CHUNK // (width * n))
    for start in range(0, len(values), step):
        rows = values[start : start + step]
        order = np.argsort(rows, axis=1)
        ordered = np.take_along_axis(rows, order, axis=1)
        apart = [_apart(ordered, halves[at : at + width].take(order, axis=1)) for at in range(0, len(halves), width)]
        out[start : start + step] = np.quantile(np.concatenate(apart), 0.95, axis=0)
    return out


def _apart(ordered: Floats, second: Flags) -> Floats:
    """How far ``centre`` of both halves lie apart, per way to halve and row.

    ``ordered`` are rows of values in order; ``second`` (ways, rows, values) tells those of the second half.
    """
    n = ordered.shape[1]
    rank_second = np.cumsum(second, axis=2, dtype=np.int32)
    rank_first = np.arange(1, n + 1, dtype=np.int32) - rank_second
    centres = []
    for chosen, rank, size in ((second, rank_second, n - n // 2), (~second, rank_first, n // 2)):
        trim = trimmed(size)
        kept = chosen & (rank > trim) & (rank <= size - trim)
        centres.append(np.einsum("wrn,rn->wr", kept.astype(np.float64), ordered) / (size - 2 * trim))
    found: Floats = np.abs(centres[0] - centres[1])
    return found
