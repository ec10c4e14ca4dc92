"""The compiled scanner: one pass over a block of events, directly into the raw columns.

It reads untrusted bytes without bounds checks, so the rules are strict: every index is compared with ``stop`` before
the byte there affects anything, and nothing is written beyond a table; instead the scan returns a code, and the caller
makes room and resumes. Events it cannot parse with certainty are marked odd and decoded by the caller: escapes in keys,
numbers beyond 18 digits, exponents, control characters, unknown words. Text that cannot be JSON ends the scan with
``SYNTAX`` at the start of its event. Nested values that are not needed are skipped without being parsed.
"""

from __future__ import annotations

import numpy as np

from ...native.jit import compiled, inlined, item, word_at
from ..columns import CODES, FLOATS, HOST_CODES, HOST_INTS, INSTANT_KEYS, INTS, MARKS, NULL
from . import keys, layout, lexer
from .keys import (
    AMOUNT,
    ARGS,
    LANE,
    LINK,
    LISTED,
    NESTED,
    NOTE,
    OLD_ID,
    PHASE,
    REAL,
    SKIP,
    TEXT,
    TIME,
    TRIPLE,
    WHOLE,
)

_NULL = np.int64(NULL)
_N_INT, _N_CODE, _N_FLOAT = len(INTS), len(CODES), len(FLOATS)
_N_INSTANT = _N_INT + len(INSTANT_KEYS)
_N_MARK = len(MARKS) - 1  # without the phase
_N_ALL = _N_INSTANT + _N_MARK
_N_HOST_INT, _N_HOST_CODE = len(HOST_INTS), len(HOST_CODES)
_OFFSET, _END, _EXTERNAL, _CAT = INTS.index("offset"), INTS.index("end"), INTS.index("external_id"), CODES.index("cat")
_TS, _TID, _RANK, _NAME = INTS.index("ts"), INTS.index("tid"), INTS.index("rank"), CODES.index("name")
_MEMORY = np.uint64(int.from_bytes(b"[memory]", "little"))
_PID, _PID_TEXT, _TID_TEXT = INTS.index("pid"), CODES.index("pid_text"), CODES.index("tid_text")
_OCCUPANCY = FLOATS.index("occupancy")


@inlined
def _copy(row_ints, row_codes, row_floats, ints, codes, floats, row):
    for column in range(_N_INT):
        ints[column, row] = row_ints[column]
    for column in range(_N_CODE):
        codes[column, row] = row_codes[column]
    for column in range(_N_FLOAT):
        floats[column, row] = row_floats[column]


@inlined
def _is_memory(number, heap, ends):
    return number >= 0 and ends[number + 1] - ends[number] == 8 and word_at(heap, ends[number]) == _MEMORY


@compiled
def scan(
    buf, stop, row_ints, row_codes, row_floats, ints, codes, floats, device_ints, device_codes, device_floats,
    host_ints, host_codes, instants, route, odd, deferred, spans, heap, ends, hashes, slots, seed, predicted, notes,
    state,
):  # fmt: skip
    """Read events from ``state[AT]`` to ``stop``; returns why it ended, with ``state[AT]`` after the last event.
    ``predicted`` and ``notes`` have ``PREDICTIONS`` slots, initially empty. ``row_...`` have room for one row.
    ``ints``, ``codes``, ``floats`` are the columns of ``Block``; ``device_...`` and ``host_...`` receive events with a
    time whose category ``route`` (indexed by local code) assigns to devices or the host. ``instants`` are the columns
    ``INSTANT_INTS`` of ordinary memory instants. ``odd`` receives (row, begin, end) of rows to be decoded by the
    caller, ``spans`` (begin, end, events) of neighbouring slices whose meaning depends on their process: those without
    a category, begins and ends; ``deferred`` (begin, end) of all other events. With ``state[PLACING]`` the text is such
    a span: its slices become rows, and ``instants`` receives their ``MARKS``."""
    rows = devices = hosts = odds = deferrals = memories = stretches = 0
    flows = events = repaired = 0
    placing, follows = state[layout.PLACING] != 0, False
    comma = state[layout.COMMA] != 0
    i = np.int64(state[layout.AT])
    code = layout.DONE
    while True:
        i = lexer.blank(buf, i, stop)
        if i >= stop:
            i = stop
            break
        byte = item(buf, i)
        if byte == 44 and not comma:
            comma = True
            i += 1
            continue
        if byte == 93:
            code = layout.CLOSED
            break
        if byte != 123 or not comma:
            code = layout.SYNTAX
            break
        if rows >= ints.shape[1] or devices >= device_ints.shape[1] or hosts >= host_ints.shape[1]:
            code = layout.FULL
            break
        if odds >= odd.shape[0] or deferrals >= deferred.shape[0] or memories >= instants.shape[1]:
            code = layout.FULL
            break
        if stretches >= spans.shape[0]:
            code = layout.FULL
            break
        begin = i
        for column in range(_N_ALL):
            row_ints[column] = _NULL
        for column in range(_N_CODE):
            row_codes[column] = -1
        for column in range(_N_FLOAT):
            row_floats[column] = np.nan
        phase, in_args, seen_args, seen_old, seen_new = np.uint8(0), False, False, False, False
        strange, doubtful, mended, first = False, False, False, True
        slot, twist = np.int64(keys.BEGIN), np.int64(0)
        i += 1
        while True:
            before, bucket = i, slot ^ twist
            note = keys.expected(buf, i, stop, bucket, predicted, notes)
            if note == 0:
                i = lexer.blank(buf, i, stop)
                if i >= stop:
                    code = layout.INCOMPLETE
                    break
                if item(buf, i) == 125:
                    i += 1
                    if not in_args:
                        break
                    in_args, first = False, False
                    slot, twist = np.int64(keys.AFTER_ARGS), np.int64(phase) & keys.TWISTS
                    continue
                if not first:
                    if item(buf, i) != 44:
                        code = layout.SYNTAX
                        break
                    i = lexer.blank(buf, i + 1, stop)
                    if i >= stop:
                        code = layout.INCOMPLETE
                        break
                first = False
                if item(buf, i) != 34:
                    code = layout.SYNTAX
                    break
                key = i + 1
                i, flags = lexer.string_end(buf, key, stop)
                if i < 0:
                    code = layout.INCOMPLETE
                    break
                size = i - key
                i = lexer.blank(buf, i + 1, stop)
                if i >= stop:
                    code = layout.INCOMPLETE
                    break
                if item(buf, i) != 58:
                    code = layout.SYNTAX
                    break
                i = lexer.blank(buf, i + 1, stop)
                if i >= stop:
                    code = layout.INCOMPLETE
                    break
                what, column = keys.meaning(buf, key, size, in_args)
                slot = keys.slot_after(buf, key, size, in_args)
                if flags:
                    strange = True
                elif i - before <= keys.LONGEST:
                    keys.keep(buf, before, i - before, what, column, slot, bucket, predicted, notes)
            else:
                length, what, column, slot = keys.noted(note)
                i, first = lexer.blank(buf, i + length, stop), False
                if i >= stop:
                    code = layout.INCOMPLETE
                    break
            byte = item(buf, i)
            if what == OLD_ID:
                seen_old = True
                what = WHOLE
            elif what == WHOLE and column == _EXTERNAL:
                seen_new = True
            elif what == LINK:
                what = WHOLE if placing else SKIP
            elif what == NOTE and not placing:
                what = SKIP
            if seen_old and seen_new:
                strange = True
            if byte == 34:
                start = i + 1
                i, flags = lexer.string_end(buf, start, stop)
                if i < 0:
                    code = layout.INCOMPLETE
                    break
                size = i - start
                i += 1
                if flags & 2:
                    strange = True
                if what == TEXT or what == LANE or what == LISTED:
                    if what == LANE:
                        row_ints[column] = _NULL
                        column = _PID_TEXT if column == _PID else _TID_TEXT
                    number = lexer.intern(buf, start, size, heap, ends, hashes, slots, seed, state)
                    if number < 0:
                        code = layout.STRINGS
                        break
                    row_codes[column] = number
                elif what == NOTE:
                    number = lexer.intern(buf, start, size, heap, ends, hashes, slots, seed, state)
                    if number < 0:
                        code = layout.STRINGS
                        break
                    row_ints[column] = number
                elif what == PHASE:
                    phase = item(buf, start) if size == 1 else np.uint8(0)
                    twist = np.int64(phase) & keys.TWISTS
                    if flags:
                        strange = True
                elif what == WHOLE:
                    value, behind, count = lexer.digits(buf, start, stop)
                    if flags or (count < 0 and behind == start + size and behind > start + 1):
                        strange = True
                    row_ints[column] = value if 0 < count <= 18 and behind == start + size else _NULL
                elif what == TIME:
                    value, behind, sure = lexer.timestamp(buf, start, stop)
                    row_ints[column] = value
                    if not sure or behind != start + size:
                        strange = True
                elif what == TRIPLE or what == NESTED:
                    row_codes[column] = -1
                elif what == REAL:
                    row_floats[column] = np.nan
                elif what == ARGS:
                    strange = True
                elif what == AMOUNT:
                    doubtful = True
            elif byte == 123 and what == ARGS:
                if seen_args:
                    strange = True
                seen_args = in_args = first = True
                slot, twist = np.int64(keys.FIRST_ARG), np.int64(row_codes[_CAT]) & keys.TWISTS
                i += 1
            elif byte == 123 or byte == 91:
                inside = i + 1
                i, control = lexer.nested_end(buf, i, stop)
                if i < 0:
                    code = layout.INCOMPLETE
                    break
                if control:
                    strange = True
                if (what == TRIPLE or what == LISTED) and byte == 91:
                    behind = lexer.triple_end(buf, inside, i)
                    if behind != i - 1:
                        strange = True
                    else:
                        number = np.int64(-1)
                        inside = lexer.blank(buf, inside, behind)
                        if behind > inside:
                            number = lexer.intern(buf, inside, behind - inside, heap, ends, hashes, slots, seed, state)
                            if number < 0:
                                code = layout.STRINGS
                                break
                        row_codes[column] = number
                elif what == NESTED and byte == 91:
                    number = lexer.intern(buf, inside - 1, i - inside + 1, heap, ends, hashes, slots, seed, state)
                    if number < 0:
                        code = layout.STRINGS
                        break
                    row_codes[column] = number
                elif what == AMOUNT:
                    doubtful = True
                elif what != SKIP:
                    strange = True
            elif 48 <= byte <= 57 or (byte == 45 and lexer.unbounded_end(buf, i, stop) < 0):
                if what == TIME:
                    value, i, sure = lexer.timestamp(buf, i, stop)
                    row_ints[column] = value
                elif what == WHOLE or what == LANE:
                    value, i, count = lexer.digits(buf, i, stop)
                    row_ints[column] = value
                    sure = 0 < count <= 18
                    if what == LANE:
                        row_codes[_PID_TEXT if column == _PID else _TID_TEXT] = -1
                elif what == REAL:
                    real, i, sure = lexer.real_number(buf, i, stop, column == _OCCUPANCY)
                    row_floats[column] = real
                elif what == AMOUNT:
                    value, i, count = lexer.digits(buf, i, stop)
                    row_ints[column] = value
                    sure = count > 0
                    doubtful = doubtful or count > 18
                else:
                    i = lexer.number_end(buf, i + 1, stop)
                    sure = what == SKIP
                if i >= stop:
                    code = layout.INCOMPLETE
                    break
                if not sure or not lexer.may_end(buf, i, stop):
                    strange = True
                    i = lexer.delimiter(buf, i, stop)
                    if i >= stop:
                        code = layout.INCOMPLETE
                        break
            else:
                behind = lexer.word_end(buf, i, stop)
                if behind < 0:
                    behind = lexer.unbounded_end(buf, i, stop)
                    mended = mended or behind >= 0
                if behind >= 0 and lexer.may_end(buf, behind, stop):
                    i = behind
                    if what == WHOLE or what == TIME or what == LANE or what == NOTE:
                        row_ints[column] = _NULL
                    if what == LANE:
                        row_codes[_PID_TEXT if column == _PID else _TID_TEXT] = -1
                    elif what == TEXT or what == TRIPLE or what == LISTED or what == NESTED:
                        row_codes[column] = -1
                    elif what == REAL:
                        row_floats[column] = np.nan
                    elif what == PHASE or what == ARGS:
                        strange = True
                    elif what == AMOUNT:
                        row_ints[column] = _NULL
                        doubtful = doubtful or byte != 110
                else:
                    strange = True
                    i = lexer.delimiter(buf, i, stop)
                    if i >= stop:
                        code = layout.INCOMPLETE
                        break
        if code == layout.STRINGS or code == layout.SYNTAX or code == layout.INCOMPLETE:
            i = begin
            break
        comma = False
        events += 1
        row_ints[_OFFSET] = begin
        row_ints[_END] = i
        where = np.uint8(layout.UNKNOWN)
        waits, follows = follows, False
        if strange:
            odd[odds, 0] = rows
            odd[odds, 1] = begin
            odd[odds, 2] = i
            odds += 1
        elif placing:
            repaired += 1 if mended else 0
        elif phase == 88 and row_codes[_CAT] >= 0:
            repaired += 1 if mended else 0
            category = row_codes[_CAT]
            if category < route.shape[0] and row_ints[_TS] != _NULL:
                where = route[category]
        elif phase == 115 or phase == 116 or phase == 102:
            repaired += 1 if mended else 0
            flows += 1
            continue
        elif phase == 88 or phase == 66 or phase == 69:
            follows = True
            if not waits:
                spans[stretches, 0] = begin
                spans[stretches, 2] = 0
                stretches += 1
            spans[stretches - 1, 1] = i
            spans[stretches - 1, 2] += 1
            continue
        elif (
            (phase == 105 or phase == 73) and not doubtful and not mended
            and row_ints[_TS] != _NULL and row_codes[_PID_TEXT] < 0 and _is_memory(row_codes[_NAME], heap, ends)
        ):  # fmt: skip
            instants[0, memories], instants[1, memories] = row_ints[_TS], row_ints[_PID]
            instants[2, memories], instants[3, memories] = row_ints[_TID], row_ints[_RANK]
            instants[4, memories] = begin
            for column in range(_N_INSTANT - _N_INT):
                instants[5 + column, memories] = row_ints[_N_INT + column]
            memories += 1
            continue
        else:
            deferred[deferrals, 0] = begin
            deferred[deferrals, 1] = i
            deferrals += 1
            continue
        if placing:
            for column in range(_N_MARK):
                instants[column, rows] = row_ints[_N_INSTANT + column]
            instants[_N_MARK, rows] = phase
        if where == layout.HOST:
            for column in range(_N_HOST_INT):
                host_ints[column, hosts] = row_ints[column]
            for column in range(_N_HOST_CODE):
                host_codes[column, hosts] = row_codes[column]
            hosts += 1
        elif where == layout.DEVICE:
            _copy(row_ints, row_codes, row_floats, device_ints, device_codes, device_floats, devices)
            devices += 1
        else:
            _copy(row_ints, row_codes, row_floats, ints, codes, floats, rows)
            rows += 1
    state[layout.AT] = i
    state[layout.ROWS] = rows
    state[layout.DEVICES] = devices
    state[layout.HOSTS] = hosts
    state[layout.INSTANTS] = memories
    state[layout.ODD] = odds
    state[layout.ASIDE] = deferrals
    state[layout.FLOWS] = flows
    state[layout.EVENTS] = events
    state[layout.SPANS] = stretches
    state[layout.REPAIRED] = repaired
    state[layout.COMMA] = comma
    return code


@compiled
def rehash(hashes, count, slots):
    """Insert the first ``count`` texts into empty ``slots``, whose number is a power of two larger than ``count``."""
    mask = slots.shape[0] - 1
    for number in range(count):
        slot = np.int64(hashes[number]) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number
    return count
