"""The HLO that a profile carries (``Hlo Proto`` of the plane ``/host:metadata``): work and source line of each op.

FLOPs are those of matrix products (dot: 2 · batch · M · N · K) and convolutions, also inside a fusion, and of products
that cuBLAS does (``__cublas$gemm``: xprof gives these none); element-wise work and reductions have none. What another
custom call does is unknown, and so is a loop whose number of iterations is not recorded. Bytes are those of its
operands and result, of a product of cuBLAS without its workspace. The line is ``source_file:source_line`` of the op's
metadata, else the first frame outside libraries of its stack frame. The messages:
https://github.com/openxla/xla/blob/main/xla/service/hlo.proto and xla/xla_data.proto.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from math import prod
from typing import Any, NamedTuple

_BYTES = {1: 1, 2: 1, 6: 1, 3: 2, 7: 2, 10: 2, 16: 2, 4: 4, 8: 4, 11: 4, 5: 8, 9: 8, 12: 8, 15: 8, 18: 16,
          **dict.fromkeys((19, 20, 23, 24, 25, 28, 29), 1)}
"""Element type of XLA → bytes of an element."""
_TYPES = {2: "int8", 6: "int8", 10: "fp16", 16: "bf16", 11: "fp32", 12: "fp64",
          **dict.fromkeys((19, 20, 23, 24, 25, 28, 29), "fp8")}
"""Element type of XLA → type whose peak its products have."""
_NO_WORK = frozenset(("parameter", "constant", "bitcast", "tuple", "get-tuple-element"))
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|^<|/jax/|/flax/")
_MOST_BYTES = 256 << 20
_DEEPEST = 32
Wire = bytes | memoryview
Fields = list[tuple[int, Any]]


class OpWork(NamedTuple):
    """FLOPs of one execution (None if unknown), bytes of operands and result, the type that its products multiply
    (None without products, or of several), its scopes (``op_name``), and the line of the program."""

    flops: int | None
    bytes: int | None
    dtype: str | None
    scope: str | None
    line: str | None


Works = dict[tuple[str, int, str], OpWork]
PROGRAM = re.compile(r"\((\d{1,18})\)$")
"""The program's number in the name of a module, as in ``jit_step(17)``."""


def works_of(file: int, size: int) -> Works:
    """(module, number of its program or −1, op) → its work, as far as the file is whole: what is cut off is said of its
    planes."""
    works: Works = {}
    with suppress(ValueError, IndexError, RecursionError):
        _collect(file, size, works)
    return works


def _collect(file: int, size: int, works: Works) -> None:
    read = 0
    for number, plane in _fields(memoryview(mmap.mmap(file, size, access=mmap.ACCESS_READ))):
        if number != 1 or isinstance(plane, int) or not _is_metadata(plane):
            continue
        for program, proto in _protos(plane):
            read += len(proto)
            if read > _MOST_BYTES:
                return
            for module in _all(proto, 1):
                works |= {(name, program, op): work for (name, op), work in _module(bytes(module)).items()}


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


def _protos(plane: Wire) -> Iterator[tuple[int, Wire]]:
    """The number of each program, −1 where its name has none, and its module."""
    for entry in _all(plane, 4):
        for event in _all(entry, 2):
            number = PROGRAM.search(_text(list(_fields(event)), 2))
            for statistic in _all(event, 5):
                yield from ((int(number[1]) if number else -1, proto) for proto in _all(statistic, 6))


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
    frames = next(iter(_all(data, 25) or _all(data, 17)), None)
    return {
        (module, one.name): OpWork(
            _flops(one, computations, by_id), _moved(one, by_id), _type(one, computations, by_id),
            _text(_part(one.fields, 7), 2) or None, _line(one, frames))
        for rows in computations.values() for one in rows if one.opcode not in _NO_WORK
    }


_PRODUCTS = ("__cublas$gemm", "__cublas$lt$matmul")
_TIMES = re.compile(rb'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d{1,12})')


def _flops(one: _Instruction, computations: dict[int, list[_Instruction]], by_id: dict[int, _Instruction],
           depth: int = 0) -> int | None:
    if depth >= _DEEPEST or one.opcode == "conditional":  # nothing records which branch ran
        return None
    if one.opcode == "dot":
        return _product(one.shape, by_id.get((_numbers(one.fields, 36) or [0])[0]), _numbers(_part(one.fields, 30), 1))
    if one.opcode == "custom-call":
        return _custom_product(one, by_id)
    if one.opcode == "convolution":
        return _convolution(one, by_id)
    works = [_flops(part, computations, by_id, depth + 1)
             for called in _numbers(one.fields, 38) for part in computations.get(called, ())]
    if None in works:
        return None
    total = sum(work for work in works if work is not None)
    if one.opcode == "while":
        times = _TIMES.search(_backend(one))
        return total * int(times[1]) if times else None
    return total


def _type(one: _Instruction, computations: dict[int, list[_Instruction]], by_id: dict[int, _Instruction]) -> str | None:
    """The type of the operands of its products, its own and those of what it calls; None without, or of several."""
    kinds, waiting, seen = set[int](), [one], set[int]()
    while waiting:
        each = waiting.pop()
        if each.opcode in ("dot", "convolution") or (each.opcode == "custom-call" and _is_product(each)):
            left = by_id.get((_numbers(each.fields, 36) or [0])[0])
            kinds.add(left.shape[0] if left is not None else 0)
        called = set(_numbers(each.fields, 38)) - seen
        seen |= called
        waiting += [part for number in called for part in computations.get(number, ())]
    return _TYPES.get(kinds.pop()) if len(kinds) == 1 else None


def _part(fields: Fields, number: int) -> Fields:
    return list(_fields(next(iter(_all_of(fields, number)), b"")))


def _backend(one: _Instruction) -> bytes:
    return bytes(next(iter(_all_of(one.fields, 43)), b""))


def _is_product(one: _Instruction) -> bool:
    return _text(one.fields, 28).startswith(_PRODUCTS)


def _product(shape: tuple[int, list[int], list[Any]], left: _Instruction | None, contracted: list[int]) -> int | None:
    if left is None or any(side >= len(left.shape[1]) for side in contracted):
        return None
    return 2 * prod(shape[1]) * prod(left.shape[1][side] for side in contracted)


def _result(one: _Instruction) -> tuple[int, list[int], list[Any]]:
    """The shape of what a product of cuBLAS gives: the first of its results, beside which lies its workspace."""
    return one.shape[2][0] if one.shape[2] else one.shape


def _custom_product(one: _Instruction, by_id: dict[int, _Instruction]) -> int | None:
    if not _is_product(one):
        return None
    try:
        config = json.loads(_backend(one))
        sides = config["gemm_backend_config"]["dot_dimension_numbers"]["lhs_contracting_dimensions"]
        contracted = [int(side) for side in sides]
    except (ValueError, KeyError, TypeError):
        return None
    return _product(_result(one), by_id.get((_numbers(one.fields, 36) or [0])[0]), contracted)


def _convolution(one: _Instruction, by_id: dict[int, _Instruction]) -> int | None:
    """2 · results · window · input features of a group, which the kernel's shape has."""
    operands = _numbers(one.fields, 36)
    kernel = by_id.get(operands[1]) if len(operands) > 1 else None
    feature = _number(_part(one.fields, 16), 3) or 0
    if kernel is None or feature >= len(kernel.shape[1]):
        return None
    window = prod(_number(list(_fields(side)), 1) or 1 for side in _all_of(_part(one.fields, 15), 1))
    return 2 * prod(one.shape[1]) * window * kernel.shape[1][feature]


def _all_of(fields: Fields, number: int) -> list[Any]:
    return [value for field, value in fields if field == number and not isinstance(value, int)]


def _moved(one: _Instruction, by_id: dict[int, _Instruction]) -> int | None:
    if one.opcode in ("while", "conditional") or (one.opcode == "custom-call" and not _is_product(one)):
        return None
    operands = [by_id.get(number) for number in _numbers(one.fields, 36)]
    result = _result(one) if one.opcode == "custom-call" else one.shape
    sizes = [_size(result), *(None if operand is None else _size(operand.shape) for operand in operands)]
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
