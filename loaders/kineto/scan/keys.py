"""Which keys the scanner reads: a table of them, compared a word (eight bytes as one integer) at a time.

The comparison is a plain loop: ``key_prediction`` spares it for nearly all keys.
"""

from __future__ import annotations

import numpy as np

from ...native.jit import inlined
from ...native.simd import word_at
from ..columns import ARGS_READ, CODES, FLOATS, INSTANT_KEYS, INTS

SKIP, WHOLE, TIME, TEXT, LANE, TRIPLE, REAL, PHASE, ARGS, OLD_ID, AMOUNT, LISTED, NESTED = range(13)
"""What a value is: nothing we need; integer; time; text; pid or tid; list of three; real; ``ph``; ``args``; an id; a
number that only memory instants are asked for, whose columns are behind those of all events; a list or its text;
any list, as its text."""
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
] + [(key, AMOUNT, len(INTS) + at) for at, key in enumerate(INSTANT_KEYS) if key not in ARGS_READ]
_KEYS = [*_OF_EVENT, *_OF_ARGS]
_MOST_WORDS = max(-(-len(key) // 8) for key, _, _ in _KEYS)
_WORDS = np.array([np.frombuffer(key.encode().ljust(8 * _MOST_WORDS, b"\0"), np.uint64) for key, _, _ in _KEYS])
_SIZES, _WHAT, _COLUMNS = np.array([(len(key), what, column) for key, what, column in _KEYS]).T.copy()
_EVENT_KEYS, _ALL_KEYS = len(_OF_EVENT), len(_KEYS)
_ONE, _EIGHT = np.uint64(1), np.uint64(8)


@inlined
def meaning(buf, start, size, in_args):
    """(what the value is, its column) of a key of an event or of its ``args``."""
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
