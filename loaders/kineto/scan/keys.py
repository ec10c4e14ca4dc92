"""Event keys: the ones the scanner reads, and prediction of the next key.

Keys are looked up in a table, compared eight bytes at a time as one integer. Recorders write the same keys in the same
order with the same white space, so the text between two values (comma, blanks, key, colon) is kept in a slot together
with the key's meaning. If the text at a slot recurs, one comparison replaces parsing it. The slot is chosen by the
previous key, in events also by the phase and in ``args`` by the category. Each of four contexts has its own slots:
first key of an event, later keys, first key of ``args``, later keys. The choice within a context only affects the hit
rate.
"""

from __future__ import annotations

import numpy as np

from ...native.jit import WIDTH, inlined, item, same, word_at
from ..columns import ARGS_READ, CODES, FLOATS, INSTANT_KEYS, INTS, MARK_KEYS, MARK_TEXTS
from .layout import PREDICTED_WORDS, PREDICTIONS

_MIX, _ONE, _EIGHT = np.uint64(0x94D049BB133111EB), np.uint64(1), np.uint64(8)
"""A multiplier of splitmix64: with the golden-ratio one, ``tid`` and ``ts`` collided, as did other pairs of keys."""
SKIP, WHOLE, TIME, TEXT, LANE, TRIPLE, REAL, PHASE, ARGS, OLD_ID, AMOUNT, LISTED, NESTED, LINK, NOTE = range(15)
"""Type of a value: ignored; integer; time; text; pid or tid; list of three; real; ``ph``; ``args``; id under its old
key; number read only for memory instants, whose columns follow those of all events; a list or its text; any list, as
its text; integer and text read only of slices that wait for their place, whose columns follow those of instants."""
_KINDS = {
    "id": WHOLE, "old id": OLD_ID, "quantity": WHOLE, "triple": TRIPLE, "real": REAL, "text": TEXT, "name": TEXT,
    "list": LISTED, "json": NESTED,
}  # fmt: skip
_OF_EVENT = [
    ("ph", PHASE, 0), ("ts", TIME, INTS.index("ts")), ("dur", TIME, INTS.index("dur")),
    ("pid", LANE, INTS.index("pid")), ("tid", LANE, INTS.index("tid")), ("cat", TEXT, CODES.index("cat")),
    ("name", TEXT, CODES.index("name")), ("args", ARGS, 0),
]  # fmt: skip
_OF_ARGS = [
    (key, _KINDS[kind], next(names.index(column) for names in (INTS, CODES, FLOATS) if column in names))
    for key, (kind, column) in ARGS_READ.items()
] + [(key, AMOUNT, len(INTS) + at) for at, key in enumerate(INSTANT_KEYS) if key not in ARGS_READ] + [
    (key, LINK if key in MARK_KEYS else NOTE, len(INTS) + len(INSTANT_KEYS) + at)
    for at, key in enumerate((*MARK_KEYS, *MARK_TEXTS))
]
_KEYS = [*_OF_EVENT, *_OF_ARGS]
_MOST_WORDS = max(-(-len(key) // 8) for key, _, _ in _KEYS)
_WORDS = np.array([np.frombuffer(key.encode().ljust(8 * _MOST_WORDS, b"\0"), np.uint64) for key, _, _ in _KEYS])
_SIZES, _WHAT, _COLUMNS = np.array([(len(key), what, column) for key, what, column in _KEYS]).T.copy()
_EVENT_KEYS, _ALL_KEYS = len(_OF_EVENT), len(_KEYS)


@inlined
def meaning(buf, start, size, in_args):
    """(type of the value, column) for a key of an event or of its ``args``."""
    for key in range(_EVENT_KEYS if in_args else 0, _ALL_KEYS if in_args else _EVENT_KEYS):
        if _SIZES[key] == size:
            at, equal = 0, True
            while at < size and equal:
                word = word_at(buf, start + at)
                if size - at < 8:
                    word &= (_ONE << (_EIGHT * np.uint64(size - at))) - _ONE
                equal = word == _WORDS[key, at // 8]
                at += 8
            if equal:
                return _WHAT[key], _COLUMNS[key]
    return np.int64(SKIP), np.int64(0)


LONGEST = 8 * PREDICTED_WORDS  # Bytes of text that fit in a slot.
assert LONGEST == WIDTH
BEGIN, _IN_EVENT, _IN_ARGS, FIRST_ARG = range(0, PREDICTIONS, PREDICTIONS // 4)
AFTER_ARGS = _IN_EVENT + PREDICTIONS // 4 - 1
"""All contexts have the same number of slots, a power of two, so XOR with a smaller number stays in the context."""
TWISTS = np.int64(PREDICTIONS // 4 - 1)

_TOP = np.uint64(64 - int(TWISTS).bit_length())
_WHAT_BITS, _COLUMN_BITS, _NEXT_BITS = 8, 16, 24
_LOW = np.int64(255)


@inlined
def slot_after(buf, key, size, in_args):
    """The slot for the text that follows the value of a key."""
    word = word_at(buf, key)
    if size < 8:
        word &= (_ONE << (_EIGHT * np.uint64(size))) - _ONE
    mixed = np.int64(((word ^ np.uint64(size)) * _MIX) >> _TOP)
    return (_IN_ARGS if in_args else _IN_EVENT) + mixed


@inlined
def expected(buf, i, stop, slot, predicted, notes):
    """The note in ``slot`` if the text at ``i`` equals the text kept there, else 0."""
    note = item(notes, slot)
    length = note & _LOW
    if length == 0 or i + length >= stop:
        return np.int64(0)
    mask = (_ONE << np.uint64(length)) - _ONE
    return note if same(buf, i, predicted, slot * PREDICTED_WORDS) & mask == mask else np.int64(0)


@inlined
def noted(note):
    """Unpack a note: length of the text, type of the value after it, column, and the slot for the next text."""
    return note & _LOW, (note >> _WHAT_BITS) & _LOW, (note >> _COLUMN_BITS) & _LOW, note >> _NEXT_BITS


@inlined
def keep(buf, begin, length, what, column, following, slot, predicted, notes):
    """Store the text at ``begin``, at most ``LONGEST`` bytes, and its note in a slot."""
    for at in range(PREDICTED_WORDS):
        predicted[slot * PREDICTED_WORDS + at] = word_at(buf, begin + 8 * at)
    notes[slot] = length | what << _WHAT_BITS | column << _COLUMN_BITS | following << _NEXT_BITS
