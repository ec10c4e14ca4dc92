"""The HLO that a profile carries (``Hlo Proto`` of the plane ``/host:metadata``): work and source line of each op.

FLOPs are those of matrix products (dot: 2 · batch · M · N · K), also of those inside a fusion; an op without one has
none that are known. Bytes are those of its operands and result. The line is ``source_file:source_line`` of the op's
metadata, else the first frame outside libraries of its stack frame. The messages:
https://github.com/openxla/xla/blob/main/xla/service/hlo.proto and xla/xla_data.proto.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from math import prod
from typing import Any, NamedTuple

_BYTES = {1: 1, 2: 1, 6: 1, 3: 2, 7: 2, 10: 2, 16: 2, 4: 4, 8: 4, 11: 4, 5: 8, 9: 8, 12: 8, 15: 8, 18: 16}
"""Element type of XLA → bytes of an element."""
_NO_WORK = frozenset(("parameter", "constant", "bitcast", "tuple", "get-tuple-element"))
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|^<|/jax/|/flax/")
_MOST_BYTES = 256 << 20
_DEEPEST = 32
Wire = bytes | memoryview
Fields = list[tuple[int, Any]]


class OpWork(NamedTuple):
    """FLOPs of one call (None if unknown), bytes of operands and result, and the line of the program."""

    flops: int | None
    bytes: int | None
    line: str | None


def works_of(file: int, size: int) -> dict[tuple[str, str], OpWork]:
    """(module, op) → its work, as far as the file is whole: what is cut off is said of its planes."""
    works: dict[tuple[str, str], OpWork] = {}
    with suppress(ValueError, IndexError, RecursionError):
        _collect(file, size, works)
    return works


def _collect(file: int, size: int, works: dict[tuple[str, str], OpWork]) -> None:
    read = 0
    for number, plane in _fields(memoryview(mmap.mmap(file, size, access=mmap.ACCESS_READ))):
        if number != 1 or isinstance(plane, int) or not _is_metadata(plane):
            continue
        for proto in _protos(plane):
            read += len(proto)
            if read > _MOST_BYTES:
                return
            for module in _all(proto, 1):
                works |= _module(bytes(module))


def _varint(data: Wire, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    raise ValueError("a number without an end")


def _fields(data: Wire) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("an unknown wire type")
        if at + length > len(data):
            raise ValueError("a message that ends too early")
        yield key >> 3, data[at : at + length]
        at += length


def _all(data: Wire, number: int) -> list[Any]:
    return [value for field, value in _fields(data) if field == number and not isinstance(value, int)]


def _text(fields: Fields, number: int) -> str:
    return next((bytes(value).decode("utf-8", "replace") for field, value in fields
                 if field == number and not isinstance(value, int)), "")


def _number(fields: Fields, number: int) -> int | None:
    return next((value for field, value in fields if field == number and isinstance(value, int)), None)


def _numbers(fields: Fields, number: int) -> list[int]:
    """A repeated number, packed or not."""
    values: list[int] = []
    for field, value in fields:
        if field == number and isinstance(value, int):
            values.append(value)
        elif field == number:
            at = 0
            while at < len(value):
                one, at = _varint(value, at)
                values.append(one)
    return values


def _is_metadata(plane: Wire) -> bool:
    return any(bytes(name) == b"/host:metadata" for name in _all(plane, 2))


def _protos(plane: Wire) -> Iterator[Wire]:
    for entry in _all(plane, 4):
        for event in _all(entry, 2):
            for statistic in _all(event, 5):
                yield from _all(statistic, 6)


class _Instruction(NamedTuple):
    """One instruction; ``shape`` is (element type, dimensions, parts of a tuple)."""

    name: str
    opcode: str
    shape: tuple[int, list[int], list[Any]]
    fields: Fields


def _shape(data: Wire, depth: int = 0) -> tuple[int, list[int], list[Any]]:
    fields = list(_fields(data))
    parts = [_shape(part, depth + 1) for part in _all(data, 4)] if depth < _DEEPEST else []
    return _number(fields, 2) or 0, _numbers(fields, 3), parts


def _size(shape: tuple[int, list[int], list[Any]]) -> int | None:
    kind, sides, parts = shape
    if parts:
        sizes = [_size(part) for part in parts]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    return prod(sides) * _BYTES[kind] if kind in _BYTES else None


def _module(data: bytes) -> dict[tuple[str, str], OpWork]:
    fields = list(_fields(data))
    module = _text(fields, 1)
    computations: dict[int, list[_Instruction]] = {}
    by_id: dict[int, _Instruction] = {}
    for one in _all(data, 3):
        inside = list(_fields(one))
        rows = computations.setdefault(_number(inside, 5) or 0, [])
        for text in _all(one, 2):
            own = list(_fields(text))
            shape = next(iter(_all(text, 3)), b"")
            instruction = _Instruction(_text(own, 1), _text(own, 2), _shape(shape), own)
            rows.append(instruction)
            by_id[_number(own, 35) or 0] = instruction
    frames = next(iter(_all(data, 17)), None)
    return {
        (module, one.name): OpWork(_flops(one, computations, by_id), _moved(one, by_id), _line(one, frames))
        for rows in computations.values() for one in rows if one.opcode not in _NO_WORK
    }


def _flops(one: _Instruction, computations: dict[int, list[_Instruction]], by_id: dict[int, _Instruction],
           depth: int = 0) -> int | None:
    if one.opcode == "dot":
        numbers = list(_fields(next(iter(_all_of(one.fields, 30)), b"")))
        left = by_id.get((_numbers(one.fields, 36) or [0])[0])
        contracted = _numbers(numbers, 1)
        if left is None or any(side >= len(left.shape[1]) for side in contracted):
            return None
        return 2 * prod(one.shape[1]) * prod(left.shape[1][side] for side in contracted)
    if depth >= _DEEPEST:
        return None
    inner = [part for called in _numbers(one.fields, 38) for part in computations.get(called, ())]
    known = [work for part in inner if (work := _flops(part, computations, by_id, depth + 1)) is not None]
    return sum(known) if known and one.opcode == "fusion" else None


def _all_of(fields: Fields, number: int) -> list[Any]:
    return [value for field, value in fields if field == number and not isinstance(value, int)]


def _moved(one: _Instruction, by_id: dict[int, _Instruction]) -> int | None:
    operands = [by_id.get(number) for number in _numbers(one.fields, 36)]
    sizes = [_size(one.shape), *(None if operand is None else _size(operand.shape) for operand in operands)]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _line(one: _Instruction, frames: Wire | None) -> str | None:
    metadata = list(_fields(next(iter(_all_of(one.fields, 7)), b"")))
    file, line = _text(metadata, 3), _number(metadata, 4)
    if file and line:
        return f"{file}:{line}"
    at = _number(metadata, 15)
    if frames is None or not at:
        return None
    files, places, stack = (_all(frames, number) for number in (1, 3, 4))
    for _ in range(_DEEPEST):  # numbers count from 1; 0 is none
        if not 0 < at <= len(stack):
            return None
        frame = list(_fields(stack[at - 1]))
        place = _number(frame, 1) or 0
        if 0 < place <= len(places):
            where = list(_fields(places[place - 1]))
            name = _number(where, 1) or 0
            path = bytes(files[name - 1]).decode("utf-8", "replace") if 0 < name <= len(files) else ""
            if path and not _LIBRARY.search(path):
                return f"{path}:{_number(where, 3) or 0}"
        at = _number(frame, 2) or 0
    return None
