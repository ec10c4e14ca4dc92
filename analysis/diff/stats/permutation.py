"""Could it be chance? A permutation test: cycles are reassigned to A and B many times.

A function counts as changed only if its statistic beats the largest of *all* functions in 95 of 100 permutations
(Westfall and Young, Resampling-Based Multiple Testing, 1993), so a run compared with itself raises a false alarm at
most once in twenty comparisons, whatever its noise and however many functions it has. Functions seen in the same cycles
are permuted together as one block, which preserves their correlation.

Two statistics are tested, each in its own family: time per launch (logarithms, outlying cycles clipped) and launches
per cycle (mostly constant, where any steady change is real and a statistic in standard deviations would be infinite).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from .robust_location import PRIOR_WEIGHT, Floats, pulled_in, trimmed

Flags = NDArray[np.bool_]
Family = Literal["time", "count"]
PERMUTATIONS = 999  # Random permutations of the cycles, used if there are more possible ones.
COUNT_GRAIN = 0.02
"""Share of the mean launches per cycle added to their standard deviation, so that constant counts can be compared."""
HALVINGS = 300
"""Random halvings of the baseline that measure its noise, used if more than PERMUTATIONS are possible."""
_CHUNK = 250_000  # Numbers per array of a step: 2 MB each, several at once.
_WIDEST = 500_000  # Cycles times permutations held as floats at once: 4 MB.
_WIDEST_ORDER = 8192  # Most cycles whose random orders are cached: 16 MB.
_SEED = 20_261_121
TOGETHER = 2_000_000
"""Functions times cycles that are compared at once, for independent functions: 16 MB, partly held several times."""


class Block(Struct, frozen=True):
    """Functions seen in the same cycles: values per function (row) and cycle (column) of each side. ``rows`` are their
    indices in the list of all functions, ``prior`` the usual variance of each."""

    rows: NDArray[np.intp]
    a: Floats | list[Floats]
    b: Floats | list[Floats]
    prior: Floats

    @property
    def cycles(self) -> tuple[int, int]:
        """Number of cycles of A and of B."""
        return len(self.a[0]), len(self.b[0])

    def pieces(self) -> Iterator[tuple[Floats, Floats, Floats]]:
        """(values of A, values of B, prior) for one batch of functions after another."""
        step = together(sum(self.cycles))
        for at in range(0, len(self.rows), step):
            until = at + step
            yield np.array(self.a[at:until]), np.array(self.b[at:until]), self.prior[at:until]


def together(cycles: int) -> int:
    """The number of functions with so many cycles that are compared at once."""
    return max(1, TOGETHER // max(cycles, 1))


def assignments(n_a: int, n_b: int, random: int = PERMUTATIONS) -> Flags:
    """Ways to assign n_a + n_b cycles, True for those that go to B: all of them if there are at most PERMUTATIONS, else
    ``random`` random ones from a fixed seed. The first is the observed assignment."""
    return np.unpackbits(_assigned(n_a, n_b, random), axis=1, count=n_a + n_b).view(np.bool_)


@lru_cache(maxsize=4)
def _assigned(n_a: int, n_b: int, random: int) -> NDArray[np.uint8]:
    """``assignments`` as packed bits, an eighth of the memory; cached for the next functions with as many cycles."""
    n = n_a + n_b
    if ways(n_a, n_b) <= PERMUTATIONS:
        result = np.zeros((ways(n_a, n_b), n), dtype=bool)
        for row, chosen in enumerate(combinations(range(n - 1, -1, -1), n_b)):
            result[row, list(chosen)] = True
        return np.packbits(result, axis=1)
    result = np.empty((1 + random, n), dtype=bool)
    result[0] = np.arange(n) >= n_a
    at = 1
    for keys in _keys(random, n):
        last = np.partition(keys, n_b - 1, axis=1)[:, n_b - 1 : n_b]
        np.less_equal(keys, last, out=result[at : at + len(keys)])
        at += len(keys)
    return np.packbits(result, axis=1)


def _keys(random: int, n: int) -> Iterator[NDArray[np.uint16] | Floats]:
    """Batches of random sort keys, all different within a row: one row per permutation, one column per cycle. Functions
    come with hundreds of different numbers of cycles; up to ``_WIDEST_ORDER`` cycles they share the same random 16-bit
    orders, which takes a tenth of the time of drawing and sorting anew for each."""
    if n <= _WIDEST_ORDER:
        yield _orders(max(64, 1 << (n - 1).bit_length()))[:random, :n]
        return
    draw = np.random.default_rng(_SEED)
    step = max(1, _CHUNK // n)
    for start in range(0, random, step):
        yield draw.random((min(step, random - start), n))


@lru_cache(maxsize=2)
def _orders(n: int) -> NDArray[np.uint16]:
    """PERMUTATIONS random orders of n numbers."""
    draw = np.random.default_rng(_SEED)
    return draw.permuted(np.tile(np.arange(n, dtype=np.uint16), (PERMUTATIONS, 1)), axis=1)


@lru_cache(maxsize=64)
def ways(n_a: int, n_b: int) -> int:
    """The number of ways to assign n_a + n_b cycles, which has thousands of digits for thousands of cycles."""
    return comb(n_a + n_b, n_b)


def enough(n_a: int, n_b: int) -> bool:
    """Whether these cycles have enough permutations to reach p = 0.05."""
    return min(n_a, n_b) > 0 and ways(n_a, n_b) >= 20


class _Sums(Struct, frozen=True):
    """Inputs of a statistic: cycles and means of both sides, and summed squared deviations from each side's mean."""

    n_a: int
    n_b: int
    a: Floats
    b: Floats
    squares: Floats


def _time_statistic(sums: _Sums, prior: Floats) -> Floats:
    delta: Floats = np.abs(sums.b - sums.a)
    freedom = sums.n_a + sums.n_b - 2 + PRIOR_WEIGHT
    error = np.sqrt((sums.squares + PRIOR_WEIGHT * prior) / freedom * (1 / sums.n_a + 1 / sums.n_b))
    result: Floats = np.where(delta <= 1e-12, 0.0, delta / np.maximum(error, 1e-9))
    return result


def _count_statistic(sums: _Sums, prior: Floats) -> Floats:
    n = sums.n_a + sums.n_b
    grain = COUNT_GRAIN * (sums.a * sums.n_a + sums.b * sums.n_b) / n
    result: Floats = np.abs(sums.b - sums.a) / np.maximum(np.sqrt(sums.squares / n) + grain, 1e-12)
    return result


def _as_it_was(a: Floats, b: Floats) -> _Sums:
    squares = a.var(axis=1) * a.shape[1] + b.var(axis=1) * b.shape[1]
    return _Sums(a.shape[1], b.shape[1], a.mean(axis=1), b.mean(axis=1), squares)


def familywise_q(families: dict[Family, list[Block]], functions: int) -> dict[Family, Floats]:
    """Per family and function the chance that any function of the family moves this far; NaN where not tested. Blocks
    with the same numbers of cycles are processed in succession, whatever their family, to share their permutations."""
    result: dict[Family, dict[int, tuple[Floats, Floats]]] = {family: {} for family in families}
    every = [(block, family, at) for family, blocks in families.items() for at, block in enumerate(blocks)]
    for block, family, at in sorted(every, key=lambda one: one[0].cycles):
        statistic = _time_statistic if family == "time" else _count_statistic
        largest: Floats = np.zeros(1)
        own: list[Floats] = []
        for a, b, prior in block.pieces():
            sides = pulled_in(a, b, prior) if family == "time" else (a, b)
            largest = np.maximum(largest, _largest(sides, prior, statistic))
            own.append(statistic(_as_it_was(*sides), prior))
        result[family][at] = np.sort(largest), np.concatenate(own)
    return {
        family: _adjusted(blocks, [result[family][at] for at in range(len(blocks))], functions)
        for family, blocks in families.items()
    }


def _adjusted(blocks: list[Block], statistics: list[tuple[Floats, Floats]], functions: int) -> Floats:
    """q of a family from the largest statistics of its blocks in each permutation."""
    q: Floats = np.full(functions, np.nan)
    if not blocks:
        return q
    of = np.repeat(np.arange(len(blocks)), [len(block.rows) for block in blocks])
    least = np.concatenate([own for _, own in statistics]) * (1 - 1e-9)
    none = np.ones(len(least))
    for number, (largest, _) in enumerate(statistics):
        beaten = len(largest) - np.searchsorted(largest, least, side="left")
        # the observed assignment counts as a chance result of its own block only
        beaten = np.where(of == number, beaten, np.maximum(beaten - 1, 0))
        none *= 1 - beaten / len(largest)
    own = np.array([1 / len(largest) for largest, _ in statistics])
    q[np.concatenate([block.rows for block in blocks])] = np.clip(1 - none, own[of], 1.0)
    return q


def _largest(sides: tuple[Floats, Floats], prior: Floats, statistic: Callable[[_Sums, Floats], Floats]) -> Floats:
    """The largest statistic over the functions in each permutation, including the observed assignment. Means and
    squares of every permutation are matrix products of the values with the assignments, so a thousand functions take
    milliseconds. Values are taken relative to their mean, which keeps the squares exact."""
    values = np.concatenate(sides, axis=1)
    n_a, n_b = sides[0].shape[1], sides[1].shape[1]
    every = assignments(n_a, n_b)
    largest: Floats = np.zeros(len(every))
    width = max(1, _WIDEST // every.shape[1])
    for at in range(0, len(every), width):
        to_b, some = every[at : at + width].T.astype(np.float64), largest[at : at + width]
        step = max(1, _CHUNK // len(some))
        for start in range(0, len(values), step):
            rows = values[start : start + step]
            middle = rows.mean(axis=1, keepdims=True)
            near = rows - middle
            b = near @ to_b / n_b
            a = -b * n_b / n_a
            squares = np.maximum((near**2).sum(axis=1, keepdims=True) - n_a * a**2 - n_b * b**2, 0.0)
            sums = _Sums(n_a, n_b, a + middle, b + middle, squares)
            np.maximum(some, statistic(sums, prior[start : start + step, None]).max(axis=0), out=some)
    return largest


def half_noise(values: Floats) -> Floats:
    """The distance of the centres of two random halves of the cycles (columns): its 95th percentile over the halvings.
    A row is sorted once; which of its values a half keeps then follows from counting how many of the half come before.
    Sorting the halves of every halving took eight times as long."""
    n = values.shape[1]
    halves = assignments(n // 2, n - n // 2, HALVINGS - 1)
    out: Floats = np.zeros(len(values))
    width = max(1, min(len(halves), _CHUNK // n))
    step = max(1, _CHUNK // (width * n))
    for start in range(0, len(values), step):
        rows = values[start : start + step]
        order = np.argsort(rows, axis=1)
        ordered = np.take_along_axis(rows, order, axis=1)
        gaps = [_distance(ordered, halves[at : at + width].take(order, axis=1)) for at in range(0, len(halves), width)]
        out[start : start + step] = np.quantile(np.concatenate(gaps), 0.95, axis=0)
    return out


def _distance(ordered: Floats, second: Flags) -> Floats:
    """The distance between the ``centre`` of both halves, per halving and row. ``ordered`` holds the sorted values of
    each row; ``second`` (halvings, rows, values) flags those of the second half."""
    n = ordered.shape[1]
    counted = np.uint16 if n < 1 << 16 else np.uint32
    rank_second = np.cumsum(second, axis=2, dtype=counted)
    rank_first = np.arange(1, n + 1, dtype=counted) - rank_second
    centres = []
    for chosen, rank, size in ((second, rank_second, n - n // 2), (~second, rank_first, n // 2)):
        trim = trimmed(size)
        rank -= trim + 1  # unsigned: the ranks trimmed off below wrap around to the largest numbers
        used = chosen & (rank < size - 2 * trim)
        centres.append(np.einsum("wrn,rn->wr", used.astype(np.float64), ordered) / (size - 2 * trim))
    result: Floats = np.abs(centres[0] - centres[1])
    return result


def q_values(p_values: Sequence[float | None]) -> list[float | None]:
    """q of every p-value, in the given order; None where nothing was tested. Benjamini and Hochberg, 1995: q of the
    i-th of n ascending p-values is the least of p·n/j over all j from i on."""
    result: list[float | None] = [None] * len(p_values)
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    smallest = 1.0
    for rank in range(len(tested), 0, -1):
        p, place = tested[rank - 1]
        smallest = min(smallest, p * len(tested) / rank)
        result[place] = smallest
    return result
