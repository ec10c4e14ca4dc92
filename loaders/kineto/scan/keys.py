"""Which keys the scanner reads: a comparison of whole words for each, by the length of the key.

A word is eight bytes of the buffer as one integer; keys that are longer are compared in several.
"""

from __future__ import annotations

import numpy as np

from ...native.jit import inlined
from ...native.simd import word_at
from ..columns import CODES, FLOATS, INSTANT_KEYS, INTS

_INT, _CODE, _FLOAT = ({name: place for place, name in enumerate(names)} for names in (INTS, CODES, FLOATS))
_OFFSET, _END, _EXTERNAL = _INT["offset"], _INT["end"], _INT["external_id"]
_TS, _DUR, _PID, _TID = _INT["ts"], _INT["dur"], _INT["pid"], _INT["tid"]
_N_INT, _N_CODE, _N_FLOAT = len(INTS), len(CODES), len(FLOATS)
_CAT, _NAME, _PID_TEXT, _TID_TEXT = (_CODE[name] for name in ("cat", "name", "pid_text", "tid_text"))
_GRID, _BLOCK, _OCCUPANCY, _BLOCKS = _CODE["grid"], _CODE["block"], _FLOAT["occupancy"], _FLOAT["blocks_per_sm"]
_COLLECTIVE, _GROUP, _GROUP_RANKS, _DTYPE = (
    _CODE[name] for name in ("collective", "process_group", "group_ranks", "dtype")
)
_GROUP_SIZE, _ELEMENTS_IN, _ELEMENTS_OUT, _SEQ = (
    _INT[name] for name in ("group_size", "in_elements", "out_elements", "seq")
)
_CORRELATION, _STREAM, _DEVICE, _REGISTERS, _SHARED, _BYTES, _GRAPH, _NODE, _RANK, _SEQUENCE, _FORWARD = (
    _INT[name]
    for name in "correlation stream device registers shared bytes graph graph_node rank sequence forward_tid".split()
)

SKIP, WHOLE, TIME, TEXT, LANE, TRIPLE, REAL, PHASE, ARGS, OLD_ID, AMOUNT, LISTED = range(12)
"""What a value is: nothing we need; integer; time; text; pid or tid; list of three; real; ``ph``; ``args``; an id; a
number that only memory instants are asked for, whose columns are behind those of all events; a list or its text."""
_KIND, _ID, _ALLOCATED, _RESERVED, _CHANGE, _ADDRESS = range(len(INTS), len(INTS) + len(INSTANT_KEYS))


def _word(key: bytes, start: int = 0) -> np.uint64:
    return np.uint64(int.from_bytes(key[start : start + 8].ljust(8, b"\0"), "little"))


def _low(count: int) -> np.uint64:
    return np.uint64((1 << (8 * count)) - 1)


_LOW2, _LOW3, _LOW4, _LOW5, _LOW6 = (_low(count) for count in (2, 3, 4, 5, 6))
_ph, _ts, _dur, _cat = map(_word, (b"ph", b"ts", b"dur", b"cat"))
_pid, _tid, _name, _args = map(_word, (b"pid", b"tid", b"name", b"args"))
_stream, _device, _bytes, _rank, _grid, _block, _graph = map(
    _word, (b"stream", b"device", b"bytes", b"rank", b"grid", b"block", b"graph id")
)
_correlation, _correlation_end = _word(b"correlation"), _word(b"correlation", 3)
_external, _external_old, _external_end = _word(b"External id"), _word(b"external id"), _word(b"External id", 3)
_shared, _shared_end = _word(b"shared memory"), _word(b"shared memory", 5)
_node, _node_end = _word(b"graph node id"), _word(b"graph node id", 5)
_blocks, _blocks_end = _word(b"blocks per SM"), _word(b"blocks per SM", 5)
_registers, _registers_mid, _registers_end = (_word(b"registers per thread", at) for at in (0, 8, 12))
_occupied = b"est. achieved occupancy %"
_occupied0, _occupied8, _occupied16, _occupied17 = (_word(_occupied, at) for at in (0, 8, 16, 17))
_type, _type_end = _word(b"Device Type"), _word(b"Device Type", 3)
_id, _id_end = _word(b"Device Id"), _word(b"Device Id", 1)
_total_allocated, _allocated_end = _word(b"Total Allocated"), _word(b"Total Allocated", 7)
_total_reserved, _reserved_end = _word(b"Total Reserved"), _word(b"Total Reserved", 6)
_change, _address = _word(b"Bytes"), _word(b"Addr")
_sequence, _sequence_end = _word(b"Sequence number"), _word(b"Sequence number", 7)
_forward, _forward_end = _word(b"Fwd thread id"), _word(b"Fwd thread id", 5)
_seq, _dtype = _word(b"Seq"), _word(b"dtype")
_group_size, _group_size_end = _word(b"Group size"), _word(b"Group size", 2)
_elements_in, _elements_in_end = _word(b"In msg nelems"), _word(b"In msg nelems", 5)
_elements_out, _elements_out_end = _word(b"Out msg nelems"), _word(b"Out msg nelems", 6)
_collective, _collective_end = _word(b"Collective name"), _word(b"Collective name", 7)
_process, _group_name, _group_name_end = (_word(b"Process Group Name", at) for at in (0, 8, 10))
_group_ranks, _group_ranks_end = (_word(b"Process Group Ranks", at) for at in (8, 11))
_true, _fals, _null = _word(b"true"), _word(b"fals"), _word(b"null")


@inlined
def event_key(buf, start, size):
    """(what the value is, its column) of a key of an event."""
    word = word_at(buf, start)
    if size == 2:
        word &= _LOW2
        if word == _ph:
            return PHASE, 0
        if word == _ts:
            return TIME, _TS
    elif size == 3:
        word &= _LOW3
        if word == _dur:
            return TIME, _DUR
        if word == _cat:
            return TEXT, _CAT
        if word == _pid:
            return LANE, _PID
        if word == _tid:
            return LANE, _TID
    elif size == 4:
        word &= _LOW4
        if word == _name:
            return TEXT, _NAME
        if word == _args:
            return ARGS, 0
    return SKIP, 0


@inlined
def args_key(buf, start, size):
    """(what the value is, its column) of a key of ``args``."""
    word = word_at(buf, start)
    if size == 11:
        if word == _correlation and word_at(buf, start + 3) == _correlation_end:
            return WHOLE, _CORRELATION
        if word_at(buf, start + 3) == _external_end:
            if word == _external:
                return WHOLE, _EXTERNAL
            if word == _external_old:
                return OLD_ID, _EXTERNAL
        if word == _type and word_at(buf, start + 3) == _type_end:
            return AMOUNT, _KIND
    elif size == 6:
        word &= _LOW6
        if word == _stream:
            return WHOLE, _STREAM
        if word == _device:
            return WHOLE, _DEVICE
    elif size == 4:
        word &= _LOW4
        if word == _grid:
            return TRIPLE, _GRID
        if word == _rank:
            return WHOLE, _RANK
        if word == _address:
            return AMOUNT, _ADDRESS
    elif size == 5:
        word &= _LOW5
        if word == _block:
            return TRIPLE, _BLOCK
        if word == _bytes:
            return WHOLE, _BYTES
        if word == _change:
            return AMOUNT, _CHANGE
        if word == _dtype:
            return TEXT, _DTYPE
    elif size == 8:
        if word == _graph:
            return WHOLE, _GRAPH
    elif size == 9:
        if word == _id and word_at(buf, start + 1) == _id_end:
            return AMOUNT, _ID
    elif size == 15:
        if word == _total_allocated and word_at(buf, start + 7) == _allocated_end:
            return AMOUNT, _ALLOCATED
        if word == _sequence and word_at(buf, start + 7) == _sequence_end:
            return WHOLE, _SEQUENCE
        if word == _collective and word_at(buf, start + 7) == _collective_end:
            return TEXT, _COLLECTIVE
    elif size == 14:
        if word == _total_reserved and word_at(buf, start + 6) == _reserved_end:
            return AMOUNT, _RESERVED
        if word == _elements_out and word_at(buf, start + 6) == _elements_out_end:
            return WHOLE, _ELEMENTS_OUT
    elif size == 13:
        last = word_at(buf, start + 5)
        if word == _shared and last == _shared_end:
            return WHOLE, _SHARED
        if word == _blocks and last == _blocks_end:
            return REAL, _BLOCKS
        if word == _node and last == _node_end:
            return WHOLE, _NODE
        if word == _forward and last == _forward_end:
            return WHOLE, _FORWARD
        if word == _elements_in and last == _elements_in_end:
            return WHOLE, _ELEMENTS_IN
    elif size == 3:
        if word & _LOW3 == _seq:
            return WHOLE, _SEQ
    elif size == 10:
        if word == _group_size and word_at(buf, start + 2) == _group_size_end:
            return WHOLE, _GROUP_SIZE
    elif size == 18:
        if word == _process and word_at(buf, start + 8) == _group_name and word_at(buf, start + 10) == _group_name_end:
            return TEXT, _GROUP
    elif size == 19:
        if (
            word == _process and word_at(buf, start + 8) == _group_ranks
            and word_at(buf, start + 11) == _group_ranks_end
        ):  # fmt: skip
            return LISTED, _GROUP_RANKS
    elif size == 20:
        middle, last = word_at(buf, start + 8), word_at(buf, start + 12)
        if word == _registers and middle == _registers_mid and last == _registers_end:
            return WHOLE, _REGISTERS
    elif size == 25 and (
        word == _occupied0 and word_at(buf, start + 8) == _occupied8
        and word_at(buf, start + 16) == _occupied16 and word_at(buf, start + 17) == _occupied17
    ):  # fmt: skip
        return REAL, _OCCUPANCY
    return SKIP, 0
