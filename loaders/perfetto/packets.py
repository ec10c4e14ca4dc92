"""The packets of a Perfetto trace: the fields that are read, and the unpacking of compressed packets.

A trace is a series of packets. Track events refer to tracks, which have descriptors, and to texts and defaults from
earlier packets of the same sequence. A writer may deflate many packets into one: such packets are few and large, so a
trace with them is read packet by packet and turned into a trace without them. The messages:
https://perfetto.dev/docs/reference/trace-packet-proto.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ..ingest.stream import Source
from ..protobuf.layout import BYTES, FIXED, LENGTH, NUMBER, TEXT, varint
from ..protobuf.tokens import Fields, Shape

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4  # Types of track events.
CLEARED = 1  # Packet flag: the sequence's interned texts and defaults are cleared (incremental state).

_SCALARS: Fields = {
    2: ("flag", NUMBER), 3: ("unsigned", NUMBER), 4: ("signed", NUMBER), 5: ("real", FIXED), 6: ("text", TEXT),
    7: ("pointer", NUMBER), 17: ("text_id", NUMBER),
}  # fmt: skip
_NAMED: Fields = {1: ("name_id", NUMBER), 10: ("name", TEXT), **_SCALARS}
_LIST: Fields = {12: ("item", {3: ("unsigned", NUMBER), 4: ("signed", NUMBER)})}
_INTERNED: Fields = {1: ("id", NUMBER), 2: ("text", TEXT)}
INTERNED = {"category": 1, "name": 2, "annotation": 3, "value": 29}
"""Kind of interned text → its field number."""

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
_READ = (6, 8, 10, 11, 12, 13, 41, 42, 50, 58, 59, 60)
_ABOUT = (2, 3, 33, 34, 35, 36, 43, 44, 45, 46, 51, 67, 69, 70, 72, 79, 87, 89, 98, 107)
"""Fields of a packet about the trace itself: configuration, statistics, names of processes, marks."""
_TYPE_NAMES = {
    1: "ftrace_events", 4: "inode_file_map", 5: "chrome_events", 7: "sys_stats", 9: "process_stats",
    37: "profile_packet", 38: "battery", 39: "android_log", 40: "power_rails", 47: "packages_list",
    49: "perfetto_metatrace", 52: "gpu_counter_event", 53: "gpu_render_stage_event", 54: "streaming_profile_packet",
    56: "heap_graph", 57: "graphics_frame_event", 62: "vulkan_memory_event", 63: "gpu_log", 65: "vulkan_api_event",
    66: "perf_sample", 68: "smaps_packet", 71: "gpu_mem_total_event", 73: "memory_tracker_snapshot",
    74: "streaming_allocation", 75: "streaming_free", 76: "frame_timeline_event", 88: "network_packet",
}  # fmt: skip
OTHER_TYPES = {number: _TYPE_NAMES.get(number, f"packets of type {number}") for number in range(1, 200)
               if number not in _READ and number not in _ABOUT}
"""Types of packets that are counted and not read, by field number; a later version's have their number for a name."""
PACKETS = Shape({
    1: ("packet", {
        8: ("time", NUMBER), 58: ("clock", NUMBER), 10: ("sequence", NUMBER), 13: ("flags", NUMBER),
        41: ("cleared", NUMBER), 42: ("lost", NUMBER), 50: ("compressed", BYTES),
        11: ("event", _EVENT), 60: ("track", _DESCRIPTOR), 6: ("snapshot", _CLOCKS),
        12: ("interned", {number: (kind, _INTERNED) for kind, number in INTERNED.items()}),
        59: ("defaults", {58: ("clock", NUMBER), 11: ("event", {11: ("track", NUMBER)})}),
        **{number: (name, BYTES) for number, name in OTHER_TYPES.items()},
    }),
})  # fmt: skip
"""The fields read from a trace."""
PACKET, COMPRESSED = 1, 50


_MOST = 64 << 20  # Maximum bytes of a compressed packet, and of its content when unpacked.
_PIECE = 1 << 20
_HEADER = 20


class Unpacked:
    """Reads a source like ``Source.readinto``, unpacked. ``damaged`` counts packets that did not unpack completely."""

    def __init__(self, source: Source) -> None:
        self._source, self._bytes = source, b""
        self._chunks, self._ready = self._packets(), memoryview(b"")
        self.damaged = 0

    def readinto(self, view: memoryview) -> int:
        """Fill a buffer with the next bytes and return their number, less than its size only at the end."""
        filled = 0
        while filled < len(view):
            if not self._ready:
                self._ready = memoryview(next(self._chunks, b""))
            if not self._ready:
                break
            chunk = self._ready[: len(view) - filled]
            view[filled : filled + len(chunk)] = chunk
            self._ready = self._ready[len(chunk) :]
            filled += len(chunk)
        return filled

    def _packets(self) -> Iterator[bytes]:
        """The bytes of the trace in non-empty pieces; anything but a compressed packet is passed through unchanged."""
        while self._fill(2 * _HEADER):
            begin, inside, size = self._header()
            if inside and size <= _MOST and self._fill(begin + size) >= begin + size:
                packet = self._take(begin + size)
                if unpacked := self._inflated(packet[begin + inside :]):
                    yield unpacked
                continue
            remaining = begin + size if begin > 0 else len(self._bytes)
            while remaining > 0 and self._fill(min(remaining, _PIECE)):
                chunk = self._take(remaining)
                remaining -= len(chunk)
                yield chunk

    def _fill(self, size: int) -> int:
        """Buffer at least ``size`` bytes, fewer only at the end; returns how many are buffered."""
        if len(self._bytes) < size:
            self._bytes += self._source.read(max(size - len(self._bytes), 1 << 16))
        return len(self._bytes)

    def _take(self, size: int) -> bytes:
        chunk, self._bytes = self._bytes[:size], self._bytes[size:]
        return chunk

    def _header(self) -> tuple[int, int, int]:
        """Of the next packet: where its content begins (0: not a packet), where in the content its compressed packets
        begin (0: none), and the size of the content."""
        tag, at = varint(self._bytes, 0)
        size, begin = varint(self._bytes, at) if at >= 0 else (0, -1)
        if begin < 0 or tag != PACKET << 3 | LENGTH:
            return 0, 0, 0
        tag, at = varint(self._bytes, begin)
        if at < 0 or tag != COMPRESSED << 3 | LENGTH:
            return begin, 0, size
        length, at = varint(self._bytes, at)
        return begin, at - begin if at - begin + length == size and at >= 0 else 0, size

    def _inflated(self, data: bytes) -> bytes:
        decoder = zlib.decompressobj()
        try:
            unpacked = decoder.decompress(data, _MOST)
        except zlib.error:
            self.damaged += 1
            return b""
        self.damaged += not decoder.eof
        return unpacked


def has_compressed(head: bytes) -> bool:
    """Whether one of the first 256 packets contains compressed packets."""
    at = 0
    for _ in range(256):
        tag, at = varint(head, at)
        size, begin = varint(head, at) if at >= 0 and tag == PACKET << 3 | LENGTH else (0, -1)
        if begin < 0:
            return False
        if varint(head, begin)[0] == COMPRESSED << 3 | LENGTH:
            return True
        at = begin + size
        if at >= len(head):
            return False
    return False
