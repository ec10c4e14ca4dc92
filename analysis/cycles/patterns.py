"""Finds the rhythm of a sequence of launches: what repeats, where iterations are not marked.

Input is one number per launch (which kernel it was), in order, and where known the idle time before each. A *mark* is a
short run of one to four kernels; its occurrences cut the sequence into segments, and a good mark cuts it into segments
that contain the same kernels equally often. Comparing counts, not order, keeps a retried copy or an extra memset from
hiding the rhythm; cutting at marks, not at a fixed period, keeps one irregular iteration from shifting all later ones.
Layers repeat inside iterations: the longer rhythm is taken if it explains what the shorter one leaves over. A prefix
(warm-up), a tail and a second rhythm elsewhere (backward after forward) are left to further rounds on the rest. If
nothing repeats at least three times, the result is empty.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

Codes = np.ndarray[Any, np.dtype[np.int64]]
Mark = tuple[int, ...]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Counts = np.ndarray[Any, np.dtype[np.float64]]

LEAST_REPEATS = 3
SHORTEST = 4
"""A rhythm of fewer launches is neither an iteration nor a layer: element-wise kernels alternate all the time."""
LONGEST_MARK = 4
ALIKE = 0.25  # Two segments are alike when at most this share of their launches differs.
UNUSUAL = 0.05  # A repetition that differs by more than this, among more equal ones, is of another kind.
LEAST_SHARE = 0.1  # A rhythm that covers less of the whole sequence than this is not reported.
MOST_PATTERNS = 4
MOST_ODD = 2  # Up to this many segments of another kind in a row do not end a rhythm.
NOTHING_LEFT = 0.001
"""A shorter rhythm whose repetitions differ by no more than this leaves nothing for a longer one to explain."""
LEAST_RECURRENCE = 0.4
"""If a smaller share of a repetition's runs of launches occurs in the repetition before, equal counts are chance."""
RECURRENCES, RECURRENCE_LAUNCHES = 64, 1 << 16  # Repetitions and launches examined for that.
WINDOW = 1 << 18  # Marks of a longer sequence are searched in this many launches in its middle; then all of it is cut.
CANDIDATES = 64
MARKS_PER_PERIOD = 3
SAME_MARKS = 6  # Marks of the same rhythm that are tried on the whole of a long sequence.
NAMES = 192  # Kernels other than this many most frequent ones are counted together.


class Pattern(Struct, frozen=True):
    """A rhythm: the ``bounds`` (first, stop) of its repetitions, and how much these differ, 0 for not at all.
    Repetitions do not overlap; most follow each other directly."""

    bounds: tuple[tuple[int, int], ...]
    difference: float

    @property
    def launches(self) -> int:
        """The number of launches in all repetitions."""
        return sum(stop - first for first, stop in self.bounds)

    @property
    def period(self) -> int:
        """The median number of launches per repetition."""
        return int(np.median([stop - first for first, stop in self.bounds]))


def find_patterns(codes: Codes, idle: Counts | None = None) -> list[Pattern]:
    """Every rhythm that covers a tenth of the sequence, in order of position, without overlap; empty if none does.
    ``codes`` are small numbers from 0, one per kernel name. ``idle``, where known, is the idle time before each launch:
    of equally good cuts, the one at the longest pauses wins."""
    result: list[Pattern] = []
    pieces = [(0, len(codes))]
    while pieces and len(result) < MOST_PATTERNS:
        pieces.sort(key=lambda piece: piece[0] - piece[1])
        low, high = pieces.pop(0)
        if high - low < max(LEAST_REPEATS * SHORTEST, LEAST_SHARE * len(codes)):
            break
        best = _best(codes[low:high], None if idle is None else idle[low:high])
        if best is None or best.launches < LEAST_SHARE * len(codes):
            continue
        bounds = tuple((first + low, stop + low) for first, stop in best.bounds)
        result.append(Pattern(bounds, best.difference))
        pieces += [(low, bounds[0][0]), (bounds[-1][1], high)]
    return _joined(codes, sorted(result, key=lambda pattern: pattern.bounds[0]))


def _joined(codes: Codes, patterns: list[Pattern]) -> list[Pattern]:
    """The patterns, with those of the same rhythm merged: something else ran between its two stretches."""
    joined: list[Pattern] = []
    for pattern in patterns:
        twin = next((i for i, other in enumerate(joined) if _alike(codes, pattern, other)), None)
        if twin is None:
            joined.append(pattern)
            continue
        one, count = joined[twin], len(joined[twin].bounds)
        total = one.difference * count + pattern.difference * len(pattern.bounds)
        joined[twin] = Pattern(one.bounds + pattern.bounds, total / (count + len(pattern.bounds)))
    return joined


def _alike(codes: Codes, one: Pattern, other: Pattern) -> bool:
    """Whether repetitions of the two patterns contain the same kernels about equally often."""
    if not _same(one, other):
        return False
    counts = [
        np.bincount(codes[first:stop], minlength=int(codes.max()) + 1)
        for pattern in (one, other) for first, stop in [pattern.bounds[len(pattern.bounds) // 2]]
    ]
    return bool(np.abs(counts[0] - counts[1]).sum() <= ALIKE * (counts[0].sum() + counts[1].sum()))


def _best(codes: Codes, idle: Counts | None) -> Pattern | None:
    """The rhythm that covers most of the sequence with the most equal repetitions."""
    counts = np.bincount(codes)
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    dense = rank[codes]
    bins = np.minimum(dense, NAMES)
    middle = slice(max(0, (len(codes) - WINDOW) // 2), (len(codes) + WINDOW) // 2)
    marks = _best_marks(dense[middle], bins[middle], None if idle is None else idle[middle])
    cuts = [cut for mark in marks if (cut := _cut(bins, _places(dense, mark))) is not None]
    return max(cuts, key=_score) if cuts else None


def _best_marks(codes: Codes, bins: Codes, idle: Counts | None) -> list[Mark]:
    """The marks that cut best: as much as possible into pieces as equal as possible, iterations rather than layers.
    They share one rhythm and differ in where it begins; with ``idle`` it begins after the longest pauses."""
    cuts = ((_cut(bins, _places(codes, mark)), mark) for mark in _marks(codes))
    usable = sorted(((cut, mark) for cut, mark in cuts if cut is not None), key=lambda one: -_score(one[0]))
    first = next((i for i, (cut, _) in enumerate(usable) if _recurs(codes, cut)), None)
    if first is None:
        return []
    top = _score(usable[first][0])
    close = [(cut, mark) for cut, mark in usable[first:] if _score(cut) >= 0.9 * top and _recurs(codes, cut)]
    close.sort(key=lambda one: (one[0].period, -_score(one[0]), one[0].bounds))
    chosen = close[0][0]
    for cut, _ in close[1:]:
        if _same(cut, chosen):
            better = _score(cut) > _score(chosen) + 1e-9
        else:
            better = cut.difference <= chosen.difference / 2 and chosen.difference > NOTHING_LEFT
        chosen = cut if better else chosen
    if idle is None:
        equal = [one for one in close if _same(one[0], chosen)]
        return [mark for _, mark in sorted(equal, key=lambda one: -_score(one[0]))[:SAME_MARKS]]
    equal = [one for one in close if _same(one[0], chosen) and _score(one[0]) >= 0.97 * _score(chosen)]
    pauses = [(float(np.median(idle[[at for at, _ in cut.bounds]])), _score(cut)) for cut, _ in equal]
    return [equal[max(range(len(equal)), key=pauses.__getitem__)][1]]


def _score(pattern: Pattern) -> float:
    return pattern.launches * (1.0 - pattern.difference)


def _same(one: Pattern, other: Pattern) -> bool:
    """Whether two patterns have the same period, so that they differ only in where it begins."""
    return abs(one.period - other.period) <= 0.05 * max(one.period, other.period)


def _places(codes: Codes, mark: Mark) -> Codes:
    """The positions of the mark, in order."""
    at = np.flatnonzero(codes[: len(codes) - len(mark) + 1] == mark[0])
    for step, code in enumerate(mark[1:], 1):
        at = at[codes[at + step] == code]
    return at


def _marks(window: Codes) -> list[Mark]:
    """Short runs of kernels that recur at regular distances, the most regular and widespread first."""
    ranked: list[tuple[float, int, int, float]] = []
    for length, grams in enumerate(_grams(window), 1):
        order = np.argsort(grams, kind="stable")
        _, firsts, counts = np.unique(grams[order], return_index=True, return_counts=True)
        fit = (counts >= LEAST_REPEATS) & (counts <= len(window) / SHORTEST)
        for first, count in zip(firsts[fit], counts[fit], strict=True):
            gaps = np.diff(order[first : first + count])
            usual = float(np.median(gaps))
            even = gaps[(gaps >= 0.75 * usual) & (gaps <= 1.34 * usual)]
            if order[first] + length <= len(window):
                ranked.append((-float(even.sum() + usual), length, int(order[first]), usual))
    ranked.sort()
    chosen: list[Mark] = []
    seen: dict[tuple[int, int], int] = {}
    for _, length, place, usual in ranked:
        # all marks of a rhythm give similar cuts: keeping a few per length and period leaves room for other rhythms
        key = (length, round(8 * np.log2(usual)))
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= MARKS_PER_PERIOD:
            chosen.append(tuple(window[place : place + length].tolist()))
        if len(chosen) == CANDIDATES:
            break
    return chosen


def _grams(codes: Codes) -> list[Codes]:
    """For each length from one to four, an id of the run of that many launches that begins at each launch."""
    grams = [codes]
    size = int(codes.max()) + 2
    for length in range(1, LONGEST_MARK):
        following = np.append(codes[length:], np.full(min(length, len(codes)), size - 1))
        grams.append(np.unique(grams[-1] * size + following, return_inverse=True)[1])
    return grams


def _cut(bins: Codes, marks: Codes) -> Pattern | None:
    """The longest stretch of alike segments between marks; the last segment gets the median length."""
    if len(marks) < LEAST_REPEATS:
        return None
    period = int(np.median(np.diff(marks)))
    if period < SHORTEST:
        return None
    stops = np.append(marks[1:], min(len(bins), marks[-1] + period))
    counts = _histograms(bins, marks, stops)
    sizes = counts.sum(axis=1)
    near = np.abs(sizes - period) <= ALIKE * period
    if near.sum() < LEAST_REPEATS:
        return None
    usual = np.median(counts[near], axis=0)
    differ = np.abs(counts - usual).sum(axis=1) / np.maximum(sizes + usual.sum(), 1)
    alike = (differ <= ALIKE) & (stops - marks >= SHORTEST)
    first, stop = _stretch(alike, differ, (stops - marks <= 3 * period) & (stops - marks >= period / 3))
    if stop - first < LEAST_REPEATS:
        return None
    odd = first + np.flatnonzero(differ[first:stop] > UNUSUAL)
    if first and len(odd):
        # the sequence may begin with an odd segment: serving starts with a prefill
        distance = np.abs(counts[odd] - counts[first - 1]).sum(axis=1) / (sizes[odd] + sizes[first - 1])
        first -= int(distance.min() <= UNUSUAL)
    bounds = tuple(zip(marks[first:stop].tolist(), stops[first:stop].tolist(), strict=True))
    return Pattern(bounds, float(differ[first:stop].mean()))


def _stretch(alike: Flags, differ: Counts, sized: Flags) -> tuple[int, int]:
    """The longest run of alike segments, extended across a few odd ones of plausible size to alike ones beyond. An odd
    segment among alike ones is an iteration of another kind (a prefill among decodes); one at either end of the run
    that differs more than those inside is not part of the rhythm, and is cut off."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], alike.astype(np.int8), [0]))))
    if not len(edges):
        return 0, 0
    runs = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    at = max(range(len(runs)), key=lambda i: runs[i][1] - runs[i][0])
    low = high = at
    while high + 1 < len(runs) and _bridged(runs[high][1], runs[high + 1][0], sized):
        high += 1
    while low and _bridged(runs[low - 1][1], runs[low][0], sized):
        low -= 1
    first, stop = runs[low][0], runs[high][1]
    most = max(3 * float(np.median(differ[first:stop])), UNUSUAL)
    while first < stop and differ[first] > most:
        first += 1
    while first < stop and differ[stop - 1] > most:
        stop -= 1
    return first, stop


def _bridged(end: int, begin: int, sized: Flags) -> bool:
    return begin - end <= MOST_ODD and bool(sized[end:begin].all())


def _recurs(codes: Codes, pattern: Pattern) -> bool:
    """Whether repetitions follow the same order, which segments of a random long sequence would not. The test takes
    runs of launches so long that two random repetitions would hardly share one; most of them must occur in the
    repetition before as well."""
    looked_at = pattern.bounds[: max(LEAST_REPEATS, min(RECURRENCES, RECURRENCE_LAUNCHES // pattern.period))]
    inside = codes[looked_at[0][0] : looked_at[-1][1]]
    _, dense, counts = np.unique(inside, return_inverse=True, return_counts=True)
    share = counts / len(inside)
    spread = float(-(share * np.log(share)).sum())
    if spread < 1e-9:
        return False
    length = int(np.ceil(np.log(50 * pattern.period) / spread)) + 1
    grams = dense.astype(np.int64)
    for step in range(1, length):
        following = np.append(dense[step:], np.full(step, len(counts)))
        grams = np.unique(grams * (len(counts) + 1) + following, return_inverse=True)[1]
    origin = looked_at[0][0]
    pieces = [grams[first - origin : stop - origin] for first, stop in looked_at]
    again = [float(np.isin(now, before).mean()) for before, now in pairwise(pieces)]
    return float(np.median(again)) >= LEAST_RECURRENCE


def _histograms(bins: Codes, starts: Codes, stops: Codes) -> Counts:
    """How often each kernel occurs in each segment: one row per segment."""
    width = int(bins.max()) + 1
    sizes = stops - starts
    segment = np.repeat(np.arange(len(starts)), sizes)
    inside = bins[starts[0] : stops[-1]]
    return np.bincount(segment * width + inside, minlength=len(starts) * width).reshape(-1, width).astype(np.float64)
