"""The tree of calls equals what a stack, call by call, would build."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from warplens.analysis.core import call_tree as module
from warplens.analysis.core.call_tree import call_tree

calls = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 8)), min_size=1, max_size=14)


def by_stack(rows):
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], rows[i][1], -rows[i][2]))
    parents, ends, stack, thread = [], [], [], None
    for position, row in enumerate(order):
        who, start, length = rows[row]
        if who != thread:
            stack, thread = [], who
        while stack and ends[stack[-1]] <= start:
            stack.pop()
        parents.append(stack[-1] if stack else -1)
        ends.append(min(start + length, ends[stack[-1]]) if stack else start + length)
        stack.append(position)
    return parents, ends


def tree_of(rows):
    thread, start, length = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return call_tree(thread, start, start + length)


@pytest.mark.parametrize("rounds", [64, 1])
@given(rows=calls)
@example(rows=[(2, 0, 2), (2, 1, 2), (2, 2, 2), (2, 3, 2), (2, 3, 2), (2, 4, 2)])
def test_parents_are_those_of_a_stack(rounds, rows):
    patch = pytest.MonkeyPatch()
    patch.setattr(module, "_ROUNDS", rounds)
    tree = tree_of(rows)
    patch.undo()
    parents, ends = by_stack(rows)
    assert tree.parent.tolist() == parents and tree.ends.tolist() == ends


@given(calls)
def test_everything_below_a_call_follows_it(rows):
    tree = tree_of(rows)
    ancestors = [set() for _ in rows]
    for call, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            ancestors[call] = ancestors[parent] | {parent}
    for call in range(len(rows)):
        below = [other for other in range(len(rows)) if call in ancestors[other]]
        assert list(range(call + 1, tree.last[call])) == below


@given(calls, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), min_size=1))
def test_the_innermost_running_call_is_found(rows, asked):
    tree = tree_of(rows)
    known = [(who, at) for who, at in asked if who in tree.thread.tolist()]
    found = tree.enclosing(*(np.array([pair[i] for pair in known], dtype=np.int64) for i in (0, 1)))
    for (who, at), call in zip(known, found.tolist(), strict=True):
        running = [c for c in range(len(rows))
                   if tree.thread[c] == who and tree.starts[c] <= at < tree.ends[c]]
        assert call == (max(running) if running else -1)
