"""Laws of sets of moments, held against counting single nanoseconds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.core.intervals import Intervals, busy_and_alone, union

spans = st.lists(st.tuples(st.integers(0, 40), st.integers(-2, 12)), max_size=12)


def arrays(pairs):
    starts = np.array([start for start, _ in pairs], dtype=np.int64)
    return starts, starts + np.array([length for _, length in pairs], dtype=np.int64)


def moments(pairs):
    return {t for start, length in pairs for t in range(start, start + length)}


def covered(intervals: Intervals):
    return {t for a, b in zip(intervals.starts, intervals.ends, strict=True) for t in range(a, b)}


@given(spans)
def test_a_union_covers_what_its_parts_cover_and_no_more(pairs):
    merged = union(*arrays(pairs))
    assert covered(merged) == moments(pairs)
    assert merged.length <= sum(max(length, 0) for _, length in pairs)
    assert (merged.starts[1:] > merged.ends[:-1]).all()


@given(spans, st.randoms(use_true_random=False))
def test_the_order_of_intervals_does_not_matter(pairs, random):
    one, other = union(*arrays(pairs)), union(*arrays(random.sample(pairs, len(pairs))))
    assert one.starts.tolist() == other.starts.tolist() and one.ends.tolist() == other.ends.tolist()


@given(spans, spans)
def test_sets_behave_like_sets(one, other):
    a, b = union(*arrays(one)), union(*arrays(other))
    assert covered(a | b) == moments(one) | moments(other)
    assert covered(a & b) == moments(one) & moments(other)
    assert covered(a - b) == moments(one) - moments(other)


@given(spans, st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 20)), max_size=5))
def test_busy_and_idle_make_the_span(pairs, windows):
    busy = union(*arrays(pairs))
    starts, ends = arrays(windows)
    whole = union(starts, ends)
    assert busy.within(starts, ends).tolist() == [len(moments(pairs) & set(range(a, b)))
                                                  for a, b in zip(starts, ends, strict=True)]
    assert (whole & busy).length + (whole - busy).length == whole.length


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 3)), max_size=12))
def test_exposed_time_is_what_no_other_owner_covers(rows):
    starts, ends = arrays([(start, length) for start, length, _ in rows])
    owner = np.array([who for *_, who in rows], dtype=np.int64)
    busy, exposed = busy_and_alone(starts, ends, owner, 4)
    mine = [moments([(s, n) for s, n, o in rows if o == who]) for who in range(4)]
    others = [moments([(s, n) for s, n, o in rows if o != who]) for who in range(4)]
    assert busy.tolist() == [len(m) for m in mine]
    assert exposed.tolist() == [len(m - o) for m, o in zip(mine, others, strict=True)]
