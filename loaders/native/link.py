"""A minimal linker: turns one object file into position-independent machine code.

Loading the scanner through llvmlite adds 52 MB to a process, half of the peak of a report of a 100 MB trace, and takes
20 to 130 ms; a linked image takes 1 ms. Supported are 64-bit ELF for x86-64 and PC-relative relocations, which is all
that position-independent code without calls needs; anything else raises NotLinked. Layout: System V ABI, chapter 4, and
its x86-64 supplement.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_MAGIC = b"\x7fELF\x02\x01"
_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8
_ALLOCATED, _WRITEABLE = 2, 1
_RESERVED = 0xFF00  # Section numbers from here on are reserved (common, absolute), not sections.
_RELATIVE = {2, 4}  # R_X86_64_PC32 and R_X86_64_PLT32: symbol + addend - place, in 32 bits.
ALIGNED = 64  # Alignment in bytes of sections and of an image.


class NotLinked(Exception):
    """The object file needs a feature this linker lacks."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


def link(data: bytes, symbol: str) -> tuple[bytes, int]:
    """The code and constants of an object file, and the offset of a function in them. Raises NotLinked."""
    try:
        return _link(data, symbol.encode())
    except (struct.error, IndexError, ValueError) as error:
        raise NotLinked(f"the object file is damaged ({error})") from error


def _link(data: bytes, symbol: bytes) -> tuple[bytes, int]:
    kind, machine = struct.unpack_from("<HH", data, 16)
    if data[:6] != _MAGIC or (kind, machine) != (_RELOCATABLE, _X86_64):
        raise NotLinked("no object file for x86-64")
    (table,) = struct.unpack_from("<Q", data, 40)
    each, count = struct.unpack_from("<HH", data, 58)
    sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", data, table + each * row)) for row in range(count)]
    image, offsets = _laid_out(data, sections)
    (names,) = (section for section in sections if section.kind == _SYMBOLS)
    symbols = [
        _Symbol(*struct.unpack_from("<IBBHQQ", data, at))
        for at in range(names.offset, names.offset + names.size, names.entry)
    ]
    for section in sections:
        if section.kind == _RELOCATIONS and section.info in offsets:
            _fill_in(data, section, offsets, symbols, image)
    texts = sections[names.link].offset
    for entry in symbols:
        begin = texts + entry.name
        if entry.section in offsets and data[begin : data.index(b"\0", begin)] == symbol:
            return bytes(image), offsets[entry.section] + entry.value
    raise NotLinked("it does not hold the function")


def _laid_out(data: bytes, sections: list[_Section]) -> tuple[bytearray, dict[int, int]]:
    """The concatenated loadable sections, and the offset of each by section number."""
    image, offsets = bytearray(), dict[int, int]()
    for number, section in enumerate(sections):
        if not section.flags & _ALLOCATED or not section.size:
            continue
        if section.flags & _WRITEABLE or section.kind == _NO_BITS or section.alignment > ALIGNED:
            raise NotLinked("it has variables")
        image += bytes(-len(image) % ALIGNED)
        offsets[number] = len(image)
        image += data[section.offset : section.offset + section.size]
    return image, offsets


def _fill_in(data: bytes, section: _Section, offsets: dict[int, int], symbols: list[_Symbol], image: bytearray) -> None:
    """Apply the relocations of one section to the image."""
    for at in range(section.offset, section.offset + section.size, section.entry):
        offset, info, addend = struct.unpack_from("<QQq", data, at)
        symbol = symbols[info >> 32]
        if info & 0xFFFFFFFF not in _RELATIVE or symbol.section not in offsets or symbol.section >= _RESERVED:
            raise NotLinked("it refers to something outside, or by absolute address")
        target = offsets[section.info] + offset
        struct.pack_into("<i", image, target, offsets[symbol.section] + symbol.value + addend - target)
