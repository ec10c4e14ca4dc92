"""The judge: is one set of times longer than another, beyond chance and by enough to matter?

Rows, cycles, device work and gates all ask here; no other module decides such a word. Throughput is a mean, so means
are compared (Welch's interval, 95%). Left out are the first cycles of a run that are warm-up and single outliers, as
many as the shape of the times shows; both are returned, never dropped silently. ``unchanged`` is proved as well: the
whole interval lies within the margin. What is neither proved nor excluded is ``cannot tell``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]

MARGIN = 0.05  # Half-width of what counts as unchanged, as a share of A's mean.
CYCLE_FLOOR = 0.01  # With one run a side a smaller change of the cycle's mean is not called...
ROW_FLOOR = 0.02  # ...nor a smaller change of a row.
LEVEL = 0.05  # False-alarm rate of the list of rows.
LEAST_FOR_LEVELS = 12  # With fewer times no two levels are looked for.
FEW = 24  # Below this number the gap between two levels must be wider.
SPREADS, APART = 4.0, 0.05  # Two levels are so many robust spreads and so large a share of the lower one apart...
EMPTY, EMPTY_OF_FEW = 0.35, 0.5  # ...and so large a share of that distance holds no time.
GRAIN = 0.005  # Times are never taken to spread by less than this share of their median.
FAR, FAR_SHARE = 5.0, 0.1  # Where no levels are looked for: an outlier's distance in robust spreads, and as a share.
Kind = Literal["one level", "first", "outliers", "every", "since", "two levels"]
Word = Literal["slower", "faster", "unchanged", "cannot tell", "not judged"]
LEVELS: tuple[Kind, ...] = ("every", "since", "two levels")


class Shape(Struct, frozen=True, omit_defaults=True):
    """What the times of one run look like. ``cycles`` (numbers of the run's cycles) are those of the higher level, the
    first ones or the outliers, ``count`` of ``of``; ``high_ms`` and ``low_ms`` the means of both groups. ``every``
    comes with its ``period``, ``since`` with the number of the first cycle after the change."""

    kind: Kind
    count: int
    of: int
    cycles: tuple[int, ...] = ()
    high_ms: float | None = None
    low_ms: float | None = None
    since: int | None = None
    period: int | None = None


class Form(Struct, frozen=True):
    """A ``shape`` with the places of what it names: ``first``, how many times at the start are warm-up, ``out`` the
    places of outliers (those at the start included), ``high`` those of the higher level."""

    shape: Shape
    first: int
    out: frozenset[int]
    high: tuple[int, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether the run has one level, apart from its first times and outliers."""
        return self.shape.kind not in LEVELS


class Judgement(Struct, frozen=True):
    """``word`` with its figures: the change of the mean and its 95% interval (None with fewer than two times a side),
    both means of the compared times, two-sided ``p``, and the places of the compared times of both sides."""

    word: Word
    delta: float
    low: float | None
    high: float | None
    a: float
    b: float
    p: float | None
    used_a: Ints
    used_b: Ints

    def excluded(self, times: int, of_b: bool) -> list[int]:
        """The places of the times that were not compared, of so many."""
        used = set((self.used_b if of_b else self.used_a).tolist())
        return [at for at in range(times) if at not in used]


def judge(a: Floats, b: Floats, floor: float = CYCLE_FLOOR, forms: tuple[Form, Form] | None = None) -> Judgement:
    """Compare two sets of times in recorded order, neither empty. ``forms``: theirs, where they are known already."""
    used_a, used_b = compared(a, b, forms or (form(a), form(b)))
    return judged(a, b, used_a, used_b, floor)


def judged(a: Floats, b: Floats, used_a: Ints, used_b: Ints, floor: float) -> Judgement:
    """Compare the times at these places."""
    xa, xb = a[used_a], b[used_b]
    mean_a, mean_b = float(xa.mean()), float(xb.mean())
    delta, low, high, p = (None if np.isnan(one) else float(one) for one in (
        value[0] for value in welch(xa[None, :], xb[None, :])))
    return Judgement(
        word(mean_a, mean_b - mean_a, low, high, floor), delta or 0.0, low, high, mean_a, mean_b, p, used_a, used_b)


def word(mean: float, delta: float, low: float | None, high: float | None, floor: float) -> Word:
    """The word for a change of a mean with its interval: ``mean`` is A's, ``floor`` the least change called."""
    if low is None or high is None:
        return "cannot tell"
    if (low > 0 or high < 0) and abs(delta) >= floor * abs(mean):
        return "slower" if delta > 0 else "faster"
    inside = -MARGIN * abs(mean) <= low and high <= MARGIN * abs(mean)
    return "unchanged" if inside else "cannot tell"


def welch(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Per row of two matrices (rows, times): Δ of the means, both ends of its 95% interval, and two-sided p; the last
    three are NaN with fewer than two times a side. Welch, Biometrika 34 (1947)."""
    from scipy.special import stdtr, stdtrit

    delta: Floats = b.mean(axis=1) - a.mean(axis=1)
    n_a, n_b = a.shape[1], b.shape[1]
    if min(n_a, n_b) < 2:
        none = np.full(len(delta), np.nan)
        return delta, none, none, none
    v_a, v_b = a.var(axis=1, ddof=1) / n_a, b.var(axis=1, ddof=1) / n_b
    flat = v_a + v_b < 1e-18
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (v_a + v_b) ** 2 / (v_a**2 / (n_a - 1) + v_b**2 / (n_b - 1))
        freedom, error = np.where(flat, 1.0, freedom), np.sqrt(v_a + v_b)
        half = np.where(flat, 0.0, stdtrit(freedom, 0.975) * error)
        p = np.where(flat, np.where(delta == 0, 1.0, 0.0), 2 * stdtr(freedom, -np.abs(delta) / error))
    return delta, delta - half, delta + half, p


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


def compared(a: Floats, b: Floats, forms: tuple[Form, Form]) -> tuple[Ints, Ints]:
    """The places of the times that are compared: not the first ones of either run, as many on both sides, nor outliers
    where neither side has levels of its own. The first of four or more goes where it is its run's extreme."""
    few = min(len(a), len(b))
    odd = few >= 4 and any(x[0] in (x.min(), x.max()) and x[0] != x[1] for x in (a, b))
    first = min(max(forms[0].first, forms[1].first, int(odd)), max(0, few - 2))
    plain = forms[0].plain and forms[1].plain
    places = []
    for x, one in zip((a, b), forms, strict=True):
        keep = np.ones(len(x), dtype=bool)
        keep[:first] = False
        if plain and one.out:
            keep[list(one.out)] = False
        places.append(np.flatnonzero(keep))
    return places[0], places[1]


ONE_LEVEL = Form(Shape("one level", 0, 0), 0, frozenset())


def form(x: Floats, numbers: Sequence[int] | None = None) -> Form:
    """The form of times in recorded order; ``numbers`` are those of their cycles (default: counted from 1)."""
    out: set[int] = set()
    alive = np.arange(len(x))
    high: Ints | None = None
    while high is None and (upper := _levels(x[alive])) is not None:
        highs, lows = alive[upper], alive[~upper]
        odd = highs if len(highs) <= len(lows) else lows
        at_start = bool((odd == alive[: len(odd)]).all()) and len(odd) <= max(3, 0.1 * len(alive))
        if len(odd) <= 2 or len(odd) < 0.05 * len(alive) or at_start:
            out |= set(odd.tolist())
            alive = np.setdiff1d(alive, odd, assume_unique=True)
        else:
            high = highs
    first = next(i for i in range(len(x) + 1) if i not in out)
    name = list(numbers) if numbers is not None else list(range(1, len(x) + 1))
    if high is not None:
        return Form(_levels_shape(x, alive, high, name), first, frozenset(out), tuple(high.tolist()))
    if not out:
        return Form(Shape("one level", 0, len(x)), 0, frozenset())
    where = list(range(first)) if first else sorted(out)
    rest = np.setdiff1d(np.arange(len(x)), sorted(out))
    shape = Shape(
        "first" if first else "outliers", len(where), len(x), tuple(name[i] for i in where), float(x[where].mean()),
        float(x[rest].mean()))
    return Form(shape, first, frozenset(out))


def _levels(x: Floats) -> Mask | None:
    """Which times are of the higher of two levels; None where they are one group. The split of the sorted times with
    the least sum of squares counts if both means lie far apart and the space between the groups is empty."""
    return _levels_of(x) if may_have_levels(x[None, :])[0] else None


def may_have_levels(x: Floats) -> Mask:
    """Per row of a matrix (rows, times), whether its best split has the distance and the empty space of two levels; the
    spread within the groups is not yet asked for."""
    n = x.shape[1]
    if n < LEAST_FOR_LEVELS:
        return np.zeros(len(x), dtype=bool)
    v = np.sort(x, axis=1)
    _, low, high, gap = _split(v)
    return (high - low >= APART * low) & (high > low) & (gap >= (EMPTY if n >= FEW else EMPTY_OF_FEW) * (high - low))


def _split(v: Floats) -> tuple[Ints, Floats, Floats, Floats]:
    """Per row of sorted times: how many are low in the split with the least sum of squares, both means, and the gap
    between the groups."""
    n = v.shape[1]
    middle = v.mean(axis=1, keepdims=True)
    below = np.cumsum(v - middle, axis=1)[:, :-1]  # the sum of all is 0, so that of the high ones is its negative
    lows = np.arange(1, n)
    at = np.argmax(below**2 * (1 / lows + 1 / (n - lows)), axis=1)  # the most between groups is the least within
    row = np.arange(len(v))
    sums = below[row, at]
    low, high = middle[:, 0] + sums / (at + 1), middle[:, 0] - sums / (n - at - 1)
    return at + 1, low, high, v[row, at + 1] - v[row, at]


def _levels_of(x: Floats) -> Mask | None:
    order = np.argsort(x, kind="stable")
    v = x[order]
    at, low, high, _ = (one[0] for one in _split(v[None, :]))
    groups = v[:at], v[at:]
    distance = np.concatenate([np.abs(one - np.median(one)) for one in groups])
    spread = max(1.4826 * float(np.median(distance)), GRAIN * float(np.median(v)))
    if high - low < SPREADS * spread:
        return None
    upper = np.zeros(len(x), dtype=bool)
    upper[order[at:]] = True
    return upper


def _levels_shape(x: Floats, alive: Ints, high: Ints, name: Sequence[int]) -> Shape:
    """The shape of two levels: a period, a change at one cycle, or neither."""
    low = np.setdiff1d(alive, high, assume_unique=True)
    odd = high if len(high) <= len(low) else low
    shape = Shape("two levels", len(high), len(x), tuple(name[i] for i in high), float(x[high].mean()),
                  float(x[low].mean()))
    fields = {key: getattr(shape, key) for key in ("of", "cycles", "high_ms", "low_ms")}
    if (period := _period(len(x), alive, odd)) is not None:
        return Shape("every", period[1], period=period[0], **fields)
    is_high, is_alive = np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=bool)
    is_high[high], is_alive[alive] = True, True
    # misfits of "high from c on": high ones before c and low ones from c on
    highs, lows = (np.concatenate(([0], np.cumsum(some))) for some in (is_high, is_alive & ~is_high))
    rising = highs[:-1] + lows[-1] - lows[:-1]
    misfits = np.minimum(rising, len(alive) - rising)
    places = np.arange(3, len(x) - 2)
    at = int(places[np.argmin(misfits[places])])
    if misfits[at] <= max(1, 0.1 * len(odd)):
        return Shape("since", len(high), since=name[at], **fields)
    return shape


def _period(n: int, alive: Ints, odd: Ints) -> tuple[int, int] | None:
    """(period, how many of the odd ones are on it) of the shortest period that 90% of the odd ones keep."""
    longest = min(len(alive) // 3, n if len(odd) < 2 else int(n / (0.9 * len(odd) - 1)) + 1)
    for period in range(2, longest + 1):
        on, of = (np.bincount(some % period, minlength=period) for some in (odd, alive))
        fits = (of >= 3) & (on >= 0.9 * np.maximum(of, len(odd)))
        if fits.any():
            return period, int(on[np.argmax(fits)])
    return None


def outliers(x: Floats, own: Form) -> list[int]:
    """The places of outliers: by the form; of too few times for one, those far from the median, which stay compared."""
    if len(x) >= LEAST_FOR_LEVELS or len(x) < 4:
        return sorted(at for at in own.out if at >= own.first)
    middle = float(np.median(x))
    spread = max(1.4826 * float(np.median(np.abs(x - middle))), GRAIN * middle)
    far = np.abs(x - middle)
    return np.flatnonzero((far > FAR * spread) & (far > FAR_SHARE * middle)).tolist()


def parts_of_change(launches: tuple[float, float], each: tuple[float, float]) -> tuple[float, float]:
    """The change of launches × time per launch, in two parts that sum to it exactly and are mirrored under swapping:
    by the number of launches, and by the time of one."""
    (l_a, l_b), (u_a, u_b) = launches, each
    return (l_b - l_a) * (u_a + u_b) / 2, (u_b - u_a) * (l_a + l_b) / 2
