"""What a recorder usually writes next: comma, blanks, key and colon told by one comparison instead of being read.

Recorders write the same keys in the same order with the same white space. So the text between the end of one value and
the beginning of the next is kept at a slot, with what the key in it means; where the same text stands in the same slot
again, that is what reading it would give. A slot is told by the key before, within events also by their phase and
within ``args`` by the category, and never stands for two contexts: the first key of an event, another one, the first
of ``args``, another one. Which of the slots of a context is taken only decides how often it is right.
"""

from __future__ import annotations

import numpy as np

from ...native.jit import inlined
from ...native.simd import WIDTH, item, same, word_at
from .layout import PREDICTED_WORDS, PREDICTIONS

LONGEST = 8 * PREDICTED_WORDS  # Bytes of a text that can be kept.
assert LONGEST == WIDTH
BEGIN, _EVENT, _ARGS, FIRST_ARG = range(0, PREDICTIONS, 64)
AFTER_ARGS = _EVENT + 63
"""Slots of contexts come in 64s: xor with a number below that gives another slot of the same context."""
TWISTS = np.int64(63)

_MIX, _ONE, _EIGHT = np.uint64(0x9E3779B97F4A7C15), np.uint64(1), np.uint64(8)
_WHAT, _COLUMN, _NEXT = 8, 16, 24
_LOW = np.int64(255)


@inlined
def slot_after(buf, key, size, in_args):
    """The slot for what follows the value of a key."""
    word = word_at(buf, key)
    if size < 8:
        word &= (_ONE << (_EIGHT * np.uint64(size))) - _ONE
    mixed = np.int64(((word ^ np.uint64(size)) * _MIX) >> np.uint64(58))
    return (_ARGS if in_args else _EVENT) + mixed


@inlined
def expected(buf, i, stop, slot, predicted, notes):
    """The note kept at a slot where the text at ``i`` is the one kept with it, else 0."""
    note = item(notes, slot)
    length = note & _LOW
    if length == 0 or i + length >= stop:
        return np.int64(0)
    mask = (_ONE << np.uint64(length)) - _ONE
    return note if same(buf, i, predicted, slot * PREDICTED_WORDS) & mask == mask else np.int64(0)


@inlined
def noted(note):
    """Of a note: how long the text is, what the value behind it is and its column, and the slot for what follows."""
    return note & _LOW, (note >> _WHAT) & _LOW, (note >> _COLUMN) & _LOW, note >> _NEXT


@inlined
def keep(buf, begin, length, what, column, following, slot, predicted, notes):
    """Keep the text from ``begin`` on, of at most ``LONGEST`` bytes, and what it means at a slot."""
    for at in range(PREDICTED_WORDS):
        predicted[slot * PREDICTED_WORDS + at] = word_at(buf, begin + 8 * at)
    notes[slot] = length | what << _WHAT | column << _COLUMN | following << _NEXT
