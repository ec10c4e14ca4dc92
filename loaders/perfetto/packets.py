"""The packets of a Perfetto trace and the fields of them that mean something to the tables.

A trace is a row of packets. Those of track events refer to tracks, which descriptors describe, and to texts and
defaults that earlier packets of the same sequence gave. The messages: https://perfetto.dev/docs/reference/trace-packet-proto.
"""

from __future__ import annotations

from ..protobuf.layout import BYTES, FIXED, NUMBER, TEXT
from ..protobuf.tokens import Fields, Shape

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4  # Types of track events.
CLEARED = 1  # Flag of a packet from which on its sequence has forgotten texts and defaults.

_SCALARS: Fields = {
    2: ("flag", NUMBER), 3: ("unsigned", NUMBER), 4: ("signed", NUMBER), 5: ("real", FIXED), 6: ("text", TEXT),
    7: ("pointer", NUMBER), 17: ("text_id", NUMBER),
}  # fmt: skip
_NAMED: Fields = {1: ("name_id", NUMBER), 10: ("name", TEXT), **_SCALARS}
_LIST: Fields = {12: ("item", {3: ("unsigned", NUMBER), 4: ("signed", NUMBER)})}
_INTERNED: Fields = {1: ("id", NUMBER), 2: ("text", TEXT)}
INTERNED = {"category": 1, "name": 2, "annotation": 3, "value": 29}
"""Kinds of texts a sequence may give a number, and their fields."""

_EVENT: Fields = {
    9: ("type", NUMBER), 11: ("track", NUMBER), 3: ("category_id", NUMBER), 22: ("category", TEXT),
    10: ("name_id", NUMBER), 23: ("name", TEXT), 30: ("count", NUMBER), 44: ("real_count", FIXED),
    47: ("flow", FIXED), 36: ("old_flow", NUMBER), 48: ("last_flow", FIXED), 42: ("old_last_flow", NUMBER),
    4: ("annotation", {**_NAMED, **_LIST, 11: ("entry", {**_NAMED, **_LIST})}),
    6: ("legacy", {2: ("phase", NUMBER)}),
}  # fmt: skip
_DESCRIPTOR: Fields = {
    1: ("uuid", NUMBER), 5: ("parent", NUMBER), 2: ("name", TEXT), 10: ("static_name", TEXT),
    3: ("process", {1: ("pid", NUMBER), 6: ("name", TEXT)}),
    4: ("thread", {1: ("pid", NUMBER), 2: ("tid", NUMBER), 5: ("name", TEXT)}),
    8: ("counter", {
        3: ("unit", NUMBER), 4: ("multiplier", NUMBER), 5: ("incremental", NUMBER), 6: ("unit_name", TEXT),
    }),
}  # fmt: skip
_CLOCKS: Fields = {
    1: ("clock", {1: ("id", NUMBER), 2: ("time", NUMBER), 3: ("incremental", NUMBER), 4: ("multiplier", NUMBER)}),
}  # fmt: skip
PACKETS = Shape({
    1: ("packet", {
        8: ("time", NUMBER), 58: ("clock", NUMBER), 10: ("sequence", NUMBER), 13: ("flags", NUMBER),
        41: ("cleared", NUMBER), 42: ("lost", NUMBER), 50: ("compressed", BYTES),
        11: ("event", _EVENT), 60: ("track", _DESCRIPTOR), 6: ("snapshot", _CLOCKS),
        12: ("interned", {number: (kind, _INTERNED) for kind, number in INTERNED.items()}),
        59: ("defaults", {58: ("clock", NUMBER), 11: ("event", {11: ("track", NUMBER)})}),
    }),
})  # fmt: skip
"""What is read of a trace."""
PACKET, COMPRESSED = 1, 50
