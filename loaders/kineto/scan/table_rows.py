"""The compiled step from the scanner's columns to those of a table: what ``Tables`` does with numpy, in two passes.

It works in place, on columns that the next scan overwrites, and only on rows that the scanner knew to be of devices or
of the host. Codes are numbers of this thread's texts, ``known`` of them is as long as the arrays of what they mean, and
every code is below that. Columns are those of ``HOST_INTS`` and ``HOST_CODES``, which those of devices begin with.
"""

from __future__ import annotations

import numpy as np

from ...native.jit import compiled, inlined
from ...schema_limits import LATEST_NS, LONGEST_NS
from ..columns import CODES, HOST_CODES, INTS, NULL
from ..interning import KIND, LOADING, STEP
from .layout import EARLIEST, IMPLAUSIBLE, NEGATIVE, PAIRS, SEQUENCED, STEPS, UNKNOWN_TEXTS

_NULL, _MOST, _MISSING = np.int64(NULL), np.int64((1 << 63) - 1), np.int64(-(1 << 31))
_LATEST, _LONGEST = np.int64(LATEST_NS), np.int64(LONGEST_NS)
_TS, _DUR, _PID, _TID, _RANK, _OFFSET, _SEQUENCE, _FORWARD, _STREAM, _DEVICE, _GRAPH, _NODE = (
    INTS.index(name)
    for name in "ts dur pid tid rank offset sequence forward_tid stream device graph graph_node".split()
)
_CAT, _NAME, _PID_TEXT, _TID_TEXT = (CODES.index(name) for name in HOST_CODES)
_KERNEL, _COLLECTIVE, _OP, _ANNOTATION, _LOADER, _RUNTIME, _DRIVER = (
    np.uint8(KIND[name]) for name in "kernel collective op annotation dataloader runtime driver".split()
)


@inlined
def _unknown(codes, rows, flags, fresh, counts):
    """Whether texts are met in a column for the first time; they are known from now on, and ``fresh`` of it."""
    new = False
    for column in range(codes.shape[0]):
        count = 0
        for row in range(rows):
            code = codes[column, row]
            if code >= 0 and flags[column, code] == 0:
                flags[column, code] = 1
                fresh[column, count] = code
                count += 1
        counts[column] = count
        new = new or count > 0
    return new


@inlined
def _times(ints, rows, facts):
    """Whether all times are such as a clock shows; what lasts too long has no duration."""
    early, late, negative = _MOST, -_MOST, 0
    for row in range(rows):
        early, late = min(early, ints[_TS, row]), max(late, ints[_TS, row])
    if early < -_LATEST or late > _LATEST:
        return False
    for row in range(rows):
        dur = ints[_DUR, row]
        negative += dur < 0 and dur != _NULL
        ints[_DUR, row] = _NULL if dur > _LONGEST else dur
    facts[EARLIEST], facts[NEGATIVE] = early, negative
    return True


@inlined
def _lane(number, code, lanes):
    return lanes[code] if number == _NULL and code >= 0 else number


@inlined
def _spans(ints, rows, base, spans):
    """The smallest number of each column that is not missing, and the largest; positions become those in the source."""
    for row in range(rows):
        ints[_OFFSET, row] += base
    for column in range(ints.shape[0]):
        low, high = _MOST, _NULL
        for row in range(rows):
            value = ints[column, row]
            high = max(high, value)
            low = min(low, _MOST if value == _NULL else value)
        spans[column, 0], spans[column, 1] = low, high


@compiled
def host_rows(ints, codes, rows, base, numbers, flags, fresh, counts, kinds, roles, lanes, spans, facts, marks):
    """Make of events columns of the table ``host``, their kinds where categories are and names as shared numbers.

    Says ``UNKNOWN_TEXTS`` or ``IMPLAUSIBLE``, with nothing changed, where it cannot. ``marks`` gets the rows of steps
    and the last of each stretch of calls of one rank and process.
    """
    if rows <= 0 or _unknown(codes, rows, flags, fresh, counts):
        return UNKNOWN_TEXTS
    if not _times(ints, rows, facts):
        return IMPLAUSIBLE
    sequenced = False
    steps = pairs = 0
    call = np.int64(-1)
    for row in range(rows):
        name = codes[_NAME, row]
        kind, role = kinds[codes[_CAT, row]], roles[name] if name >= 0 else np.uint8(0)
        ints[_PID, row] = _lane(ints[_PID, row], codes[_PID_TEXT, row], lanes)
        ints[_TID, row] = _lane(ints[_TID, row], codes[_TID_TEXT, row], lanes)
        if kind == _RUNTIME or kind == _DRIVER:
            other = call >= 0 and (ints[_RANK, row] != ints[_RANK, call] or ints[_PID, row] != ints[_PID, call])
            if other:
                marks[1, pairs] = call
                pairs += 1
            call = row
        if role == LOADING and (kind == _OP or kind == _ANNOTATION):
            kind = _LOADER
        elif role == STEP and ints[_DUR, row] >= 0:
            marks[0, steps] = row
            steps += 1
        if ints[_SEQUENCE, row] < 0:
            ints[_SEQUENCE, row] = _NULL
        else:
            sequenced = True
        if ints[_FORWARD, row] <= 0:
            ints[_FORWARD, row] = _NULL
        codes[_CAT, row] = kind
        codes[_NAME, row] = numbers[name] if name >= 0 else -1
    if call >= 0:
        marks[1, pairs] = call
        pairs += 1
    facts[SEQUENCED], facts[STEPS], facts[PAIRS] = sequenced, steps, pairs
    _spans(ints, rows, base, spans)
    return 0


@compiled
def device_rows(ints, codes, rows, base, numbers, flags, fresh, counts, kinds, roles, lanes, spans, facts, marks):
    """The same for the table ``kernels``: streams where threads are, devices where processes are."""
    if rows <= 0 or _unknown(codes, rows, flags, fresh, counts):
        return UNKNOWN_TEXTS
    if not _times(ints, rows, facts):
        return IMPLAUSIBLE
    for row in range(rows):
        name = codes[_NAME, row]
        kind = kinds[codes[_CAT, row]]
        if kind == _KERNEL and name >= 0 and roles[name] != 0:
            kind = _COLLECTIVE
        if ints[_STREAM, row] == _NULL:
            ints[_STREAM, row] = _lane(ints[_TID, row], codes[_TID_TEXT, row], lanes)
        if ints[_DEVICE, row] == _NULL:
            ints[_DEVICE, row] = _lane(ints[_PID, row], codes[_PID_TEXT, row], lanes)
        if ints[_GRAPH, row] == 0 or ints[_GRAPH, row] == _NULL:
            graph = ints[_NODE, row] >> 32 if ints[_NODE, row] > 0 else np.int64(0)
            ints[_GRAPH, row] = _NULL if graph == 0 else graph
        codes[_CAT, row] = kind
    for column in range(codes.shape[0]):
        high = np.int64(-1)
        if column != _CAT:
            for row in range(rows):
                code = codes[column, row]
                codes[column, row] = numbers[code] if code >= 0 else -1
                high = max(high, np.int64(code))
        counts[column] = high
    _spans(ints, rows, base, spans)
    return 0


@compiled
def narrowed(ints, rows, columns, narrow):
    """Copy columns whose numbers fit 32 bits, with ``MISSING`` for missing."""
    for at in range(columns.shape[0]):
        column = columns[at]
        for row in range(rows):
            narrow[at, row] = max(ints[column, row], _MISSING)
    return 0
