"""JSON tokens for the compiled scanner: strings, nested values, numbers; and the string table.

``stop`` is the end of the text, followed by ``PAD`` bytes in the buffer. Every index is compared with ``stop`` before
the byte there affects anything, and every load begins before ``stop``, so no input can lead outside the buffer.
"""

from __future__ import annotations

import numpy as np

from ...native.jit import WIDTH, compiled, first_bit, inlined, item, last_bit, mask_of, ones, same, word_at
from .layout import NAMES, PAD, WANTED

string_mask = mask_of(b'"\\', below=0x20)
"""Bytes that end a string or need care in one: quotes, backslashes, control characters."""
ink_mask = mask_of(b" \n\r\t", others=True)  # Bytes other than white space.
special_mask = mask_of(b"\\", below=0x20)  # Bytes that need care in a string, apart from its closing quote.
quote_mask, opening_mask, closing_mask = mask_of(b'"'), mask_of(b"[{"), mask_of(b"]}")
"""Bytes that matter when skipping a nested value."""

_TRUE, _FALS, _NULL_WORD = (np.uint64(int.from_bytes(word, "little")) for word in (b"true", b"fals", b"null"))
_FOUR, _SMALL = np.uint64(0xFFFFFFFF), np.uint64(0x2020202020202020)
_NAN, _INF, _INFINITY = (np.uint64(int.from_bytes(word, "little")) for word in (b"nan", b"inf", b"infinity"))
_THREE_BYTES = np.uint64(0xFFFFFF)
_ZEROS, _ABOVE_NINE, _TOP_BITS, _NIBBLES = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0x76, 0x80, 0x0F))
_PAIR, _FOURS, _EIGHTS = np.uint64(10 * 256 + 1), np.uint64(100 * 65536 + 1), np.uint64(10_000 * 2**32 + 1)
_PAIRS, _HALVES, _THREE = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(3)
_LATEST = np.int64(9_223_372_036_854_774)
_TENS = np.array([10.0**power for power in range(23)])
_POWERS = np.array([10**power for power in range(9)])
_MIX, _MIX_OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_ALL = np.uint64((1 << WIDTH) - 1)
_SHIFT, _ONE, _EIGHT = np.uint64(29), np.uint64(1), np.uint64(8)


@inlined
def blank(buf, i, stop):
    """The first index from ``i`` on that is not white space."""
    if i < stop and item(buf, i) <= 32:
        if item(buf, i) == 32 and i + 1 < stop and item(buf, i + 1) > 32:  # between a colon and its value
            return i + 1
        while i < stop:
            bits = ink_mask(buf, i)
            if bits != 0:
                i += np.int64(first_bit(bits))
                break
            i += WIDTH
    return i


@inlined
def string_end(buf, i, stop):
    """The index of the closing quote of the string whose content begins at ``i`` (-1 if the text ends first), and
    flags: 1 for a backslash, 2 for a control character in it."""
    flags = 0
    while i < stop:
        bits = string_mask(buf, i)
        if bits == 0:
            i += WIDTH
            continue
        i += np.int64(first_bit(bits))
        if i >= stop:
            break
        if item(buf, i) == 34:
            return i, flags
        if item(buf, i) == 92:
            flags |= 1
            i += 2
        else:
            flags |= 2
            i += 1
    return np.int64(-1), flags


@inlined
def _inside(quotes):
    """Prefix XOR of a quote mask: bits of bytes inside a string or opening one, if the window begins outside."""
    quotes ^= quotes << _ONE
    quotes ^= quotes << np.uint64(2)
    quotes ^= quotes << np.uint64(4)
    quotes ^= quotes << np.uint64(8)
    return quotes ^ (quotes << np.uint64(16))


@compiled
def nested_end(buf, i, stop):
    """The index after the object or list that begins at ``i`` (-1 if the text ends first), and nonzero if a string in
    it has control characters. Reads up to ``WIDTH`` bytes at a time, to the next special byte; masks out strings."""
    depth, control = np.int64(0), 0
    while i < stop:
        room = min(stop - i, WIDTH)
        special = special_mask(buf, i)
        if special != 0:
            room = min(room, np.int64(first_bit(special)))
        window_bits = (_ONE << np.uint64(room)) - _ONE
        quotes = quote_mask(buf, i) & window_bits
        outside = window_bits & ~_inside(quotes)
        opening, closing = opening_mask(buf, i) & outside, closing_mask(buf, i) & outside
        closings = np.int64(ones(closing))
        if depth > closings:
            depth += np.int64(ones(opening)) - closings
        else:
            both = opening | closing
            while both != 0:
                bit = first_bit(both)
                both &= both - _ONE
                if (opening >> bit) & _ONE != 0:
                    depth += 1
                else:
                    depth -= 1
                    if depth <= 0:
                        return i + np.int64(bit) + 1, control
        if ones(quotes) & _ONE != 0:
            i, flags = string_end(buf, i + np.int64(last_bit(quotes)) + 1, stop)
            if i < 0:
                break
            control |= flags & 2
            i += 1
        else:
            i += max(room, 1)  # skip a special byte outside strings
    return np.int64(-1), control


@inlined
def may_end(buf, i, stop):
    """Whether a number or word may end before ``i``: the byte there is a comma, a bracket or white space."""
    byte = item(buf, min(i, stop))
    return i < stop and (byte == 44 or byte == 125 or byte == 93 or byte == 32 or 9 <= byte <= 13)


@inlined
def _leading(word):
    """The number of leading digit bytes of a word."""
    other = word ^ _ZEROS
    # The addition may carry into the next byte, but only from a non-digit, so the first non-digit is right.
    other = (other + _ABOVE_NINE) | other
    other &= _TOP_BITS
    count = np.int64(8)
    if other != 0:
        count = np.int64(first_bit(other) >> _THREE)
    return count


@inlined
def _number(word, count):
    """The number in the first 1 to 8 bytes of a word, combining digits into pairs, fours and eights in parallel."""
    word = (word << (_EIGHT * np.uint64(8 - count))) & _NIBBLES
    word = ((word * _PAIR) >> _EIGHT) & _PAIRS
    word = ((word * _FOURS) >> np.uint64(16)) & _HALVES
    return np.int64((word * _EIGHTS) >> np.uint64(32))


@inlined
def digits(buf, i, stop):
    """The integer at ``i``, the index after it, and its number of digits, -1 if JSON does not allow it. With more than
    18 digits the integer is meaningless."""
    negative = i < stop and item(buf, i) == 45
    if negative:
        i += 1
    first, value = i, np.int64(0)
    while i < stop:
        word = word_at(buf, i)
        count = min(_leading(word), stop - i)
        if count > 0:
            value = value * _POWERS[count] + _number(word, count)
        i += count
        if count < 8:
            break
    count = i - first
    if count == 0 or (count > 1 and item(buf, first) == 48):
        count = -1
    return (-value if negative else value), i, count


@inlined
def fraction(buf, i, stop):
    """Three decimals from ``i`` on, rounded by the fourth (-1 if there is no digit), and the index after all digits."""
    first, value, up = i, np.int64(0), np.int64(0)
    if i + 3 <= stop:
        word = word_at(buf, i)
        if _leading(word) == 3:  # as recorders write it
            return _number(word, 3), i + 3
    while i < stop and 48 <= item(buf, i) <= 57:
        digits = i - first
        if digits < 3:
            value = value * 10 + np.int64(item(buf, i) - 48)
        elif digits == 3 and item(buf, i) >= 53:
            up = np.int64(1)
        i += 1
    count = i - first
    if count == 1:
        value *= 100
    elif count == 2:
        value *= 10
    return (value + up if count > 0 else np.int64(-1)), i


@inlined
def timestamp(buf, i, stop):
    """Microseconds at ``i``, digits and optional fraction, as (ns, index after it, whether the value is certain)."""
    negative = i < stop and item(buf, i) == 45
    value, i, count = digits(buf, i, stop)
    value = abs(value)
    sure = 0 < count <= 18 and value <= _LATEST
    value *= 1000
    if i < stop and item(buf, i) == 46:
        decimals, i = fraction(buf, i + 1, stop)
        sure = sure and decimals >= 0
        value += decimals
    return (-value if negative else value), i, sure


@inlined
def real_number(buf, i, stop, exact):
    """A number at ``i`` as (float, index after it, whether it is certain). Up to 15 digits divided by a power of ten
    give the nearest double. With more digits the double may be slightly off, which is certain enough if the Float32 of
    the column is the same; with ``exact`` it is uncertain."""
    negative = i < stop and item(buf, i) == 45
    if negative:
        i += 1
    first, mantissa, count, behind, point = i, np.int64(0), 0, 0, False
    while i < stop and (48 <= item(buf, i) <= 57 or (item(buf, i) == 46 and not point)):
        if item(buf, i) == 46:
            point = True
        else:
            if count < 18:
                mantissa = mantissa * 10 + np.int64(item(buf, i) - 48)
                if point:
                    behind += 1
            if mantissa > 0:
                count += 1
        i += 1
    sure = i > first and item(buf, first) != 46 and item(buf, i - 1) != 46 and behind <= 22
    if i - first > 1 and item(buf, first) == 48 and item(buf, first + 1) != 46:
        sure = False
    value = float(mantissa)
    if sure:
        value = value / _TENS[behind]
    if count > 15:
        sure = sure and not exact and point and behind > 0
        sure = sure and np.float32(value * (1 - 1e-15)) == np.float32(value * (1 + 1e-15))
    return (-value if negative else value), i, sure


@inlined
def word_end(buf, i, stop):
    """The index after ``true``, ``false`` or ``null`` at ``i``; -1 for any other word."""
    word = word_at(buf, i) & _FOUR
    end = np.int64(-1)
    if (word == _TRUE or word == _NULL_WORD) and i + 4 <= stop:
        end = i + 4
    elif word == _FALS and i + 5 <= stop and item(buf, i + 4) == 101:
        end = i + 5
    return end


@inlined
def unbounded_end(buf, i, stop):
    """The index after a bare ``NaN``, ``Infinity`` or ``inf`` at ``i``, in any spelling and with any sign that
    ``document`` repairs; -1 for anything else."""
    if i < stop and item(buf, i) == 45:
        i += 1
    word = word_at(buf, i) | _SMALL
    end = np.int64(-1)
    if i + 8 <= stop and word == _INFINITY:
        end = i + 8
    elif i + 3 <= stop and ((word & _THREE_BYTES) == _NAN or (word & _THREE_BYTES) == _INF):
        end = i + 3
    return end


@inlined
def number_end(buf, i, stop):
    """The index after all characters that can be part of a number."""
    while i < stop:
        byte = item(buf, i)
        if not (48 <= byte <= 57 or byte == 46 or byte == 45 or byte == 43 or byte | 32 == 101):
            break
        i += 1
    return i


@inlined
def delimiter(buf, i, stop):
    """The next index where an invalid value may end."""
    while i < stop:
        byte = item(buf, i)
        if byte == 44 or byte == 125 or byte == 93 or byte == 34:
            break
        i += 1
    return i


@compiled
def triple_end(buf, i, stop):
    """The index of the ``]`` of a list of non-negative integers whose content begins at ``i``; -1 for anything else."""
    i = blank(buf, i, stop)
    if i < stop and item(buf, i) == 93:
        return i
    while True:
        if i >= stop or item(buf, i) == 45:
            return np.int64(-1)
        _, i, count = digits(buf, i, stop)
        if not 0 < count <= 18:
            return np.int64(-1)
        i = blank(buf, i, stop)
        if i >= stop:
            return np.int64(-1)
        if item(buf, i) == 93:
            return i
        if item(buf, i) != 44:
            return np.int64(-1)
        i = blank(buf, i + 1, stop)


@inlined
def _hash(buf, start, size, seed):
    mixed, other = (np.uint64(size) ^ seed) * _MIX, seed
    at = 0
    while at + 16 <= size:  # two independent products in parallel
        mixed = (mixed ^ word_at(buf, start + at)) * _MIX
        other = (other ^ word_at(buf, start + at + 8)) * _MIX_OTHER
        mixed ^= mixed >> _SHIFT
        other ^= other >> _SHIFT
        at += 16
    mixed ^= other
    if at + 8 <= size:
        mixed = (mixed ^ word_at(buf, start + at)) * _MIX
        mixed ^= mixed >> _SHIFT
        at += 8
    if at < size:
        last = word_at(buf, start + at) & ((_ONE << (_EIGHT * np.uint64(size - at))) - _ONE)
        mixed = (mixed ^ last) * _MIX
        mixed ^= mixed >> _SHIFT
    return mixed ^ (mixed >> np.uint64(32))


@inlined
def intern(buf, start, size, heap, ends, hashes, slots, seed, state):
    """The code of the text ``buf[start:start+size]``; -1 if the table has no room for a new one.

    ``heap`` holds the concatenated texts and at least ``PAD`` spare bytes; text n begins at ``ends[n]`` and ends at
    ``ends[n + 1]``. ``slots`` is an open-addressing hash table, a power of two in size and at most half full.
    """
    mixed = _hash(buf, start, size, seed)
    mask = slots.shape[0] - 1
    slot = np.int64(mixed) & mask
    while item(slots, slot) >= 0:
        number = np.int64(item(slots, slot))
        if item(hashes, number) == mixed and item(ends, number + 1) - item(ends, number) == size:
            begin, at = item(ends, number), 0
            while at + WIDTH <= size and same(buf, start + at, heap, begin + at) == _ALL:
                at += WIDTH
            while at + 8 <= size and word_at(buf, start + at) == word_at(heap, begin + at):
                at += 8
            if at + 8 > size:
                rest = (_ONE << (_EIGHT * np.uint64(size - at))) - _ONE
                if (word_at(buf, start + at) ^ word_at(heap, begin + at)) & rest == 0:
                    return np.int64(number)
        slot = (slot + 1) & mask
    number = state[NAMES]
    begin = ends[number]
    if number + 2 >= ends.shape[0] or 2 * (number + 1) >= slots.shape[0] or begin + size + PAD > heap.shape[0]:
        state[WANTED] = size
        return np.int64(-1)
    for at in range(size):
        heap[begin + at] = item(buf, start + at)
    ends[number + 1] = begin + size
    hashes[number] = mixed
    slots[slot] = number
    state[NAMES] = number + 1
    return np.int64(number)
