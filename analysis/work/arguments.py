"""The recorded arguments of one operator call: shapes, types and values, parsed from their text and never evaluated.

The profiler writes three lists with one entry per argument: ``Input Dims`` (a list of sizes, or of such lists for a
list of tensors), ``Input type`` and ``Concrete Inputs`` (the values of non-tensor arguments, as text).
"""

from __future__ import annotations

import json
import re
from math import prod
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

SIZES = {
    "float": 4, "double": 8, "c10::Half": 2, "half": 2, "c10::BFloat16": 2, "long int": 8, "long": 8, "long long": 8,
    "int": 4, "unsigned int": 4, "unsigned long": 8, "short int": 2, "short": 2, "unsigned short": 2, "char": 1,
    "bool": 1, "unsigned char": 1, "signed char": 1, "c10::Float8_e4m3fn": 1, "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2": 1, "c10::Float8_e5m2fnuz": 1, "c10::Float8_e8m0fnu": 1, "c10::Float4_e2m1fn_x2": 1,
    "c10::complex<float>": 8, "c10::complex<double>": 16, "c10::complex<c10::Half>": 4,
}
"""Bytes per element by recorded type; two fp4 values share a byte."""
PRECISIONS = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "half": "fp16", "c10::BFloat16": "bf16", "char": "int8",
    "signed char": "int8", "unsigned char": "int8", "c10::Float8_e4m3fn": "fp8", "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2": "fp8", "c10::Float8_e5m2fnuz": "fp8", "c10::Float4_e2m1fn_x2": "fp4",
}
"""The names of these types in the table of peaks; other types have none."""
_AS_RECORDED = {name.lower(): name for name in SIZES}  # Some recorders write c10::bfloat16.
LARGEST = 1 << 63
"""Sizes, FLOPs and bytes of a real call stay below this."""
_NUMBER = re.compile(r"-?\d{1,19}")
_REAL = re.compile(r"-?\d{1,40}\.\d{0,40}(?:[eE][-+]?\d{1,3})?|-?\d{1,19}[eE][-+]?\d{1,3}")
_LIST = re.compile(r"[\[(]([^\[\]()]*)[\])]")
_WORDS: dict[str, Any] = {"True": True, "False": False, "": None, "None": None}


class Unknown(Exception):
    """The arguments do not determine the work: a value is missing, or the work depends on more than shapes."""


class Contradiction(Exception):
    """The shapes cannot be those of this operator."""


class Tensor(Struct, frozen=True):
    """A tensor argument: its sizes, and its recorded type ('' where none is, as in a list of tensors)."""

    shape: tuple[int, ...]
    type: str

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes per element. Raises Unknown."""
        try:
            return SIZES[self.type]
        except KeyError:
            raise Unknown("type of an element") from None

    @property
    def bytes(self) -> int:
        """Bytes of all elements, by shape: an expanded dimension counts in full."""
        return self.count * self.size


class Call(NamedTuple):
    """One operator call with its arguments by position: tensors, lists of tensors, and the values of all others."""

    name: str
    tensors: tuple[Tensor | tuple[Tensor, ...] | None, ...]
    values: tuple[Any, ...]

    def optional(self, at: int) -> Tensor | None:
        """The tensor at a position; None where there is none."""
        tensor = self.tensors[at] if -len(self.tensors) <= at < len(self.tensors) else None
        return tensor if isinstance(tensor, Tensor) else None

    def tensor(self, at: int, dimensions: int | None = None) -> Tensor:
        """The tensor at a position. Raises Unknown if there is none, Contradiction for another number of dimensions."""
        argument = self.optional(at)
        if argument is None:
            raise Unknown(f"argument {at}")
        require(dimensions is None or len(argument.shape) == dimensions)
        return argument

    def listed(self, at: int) -> tuple[Tensor, ...]:
        """The list of tensors at a position. Raises Unknown."""
        argument = self.tensors[at] if at < len(self.tensors) else None
        if isinstance(argument, Tensor) or not argument or not any(tensor.shape for tensor in argument):
            raise Unknown(f"list {at}")
        return argument

    def all(self) -> tuple[Tensor, ...]:
        """Every tensor argument, without those in lists."""
        return tuple(tensor for tensor in self.tensors if isinstance(tensor, Tensor))

    def of_elements(self, type: str) -> Call:
        """The same call with that type for tensors in lists that have none."""
        return self._replace(tensors=tuple(
            one if one is None or isinstance(one, Tensor)
            else tuple(tensor if tensor.type else replace(tensor, type=type) for tensor in one)
            for one in self.tensors
        ))

    def value(self, at: int) -> Any:
        """The value at a position; None where none was recorded."""
        return self.values[at] if at < len(self.values) else None

    def typed_value(self, at: int, kind: type) -> Any:
        """The value at a position, which must have that type. Raises Unknown."""
        value = self.value(at)
        if type(value) is not kind:
            raise Unknown(f"value {at}")
        return value

    def numbers(self, at: int, count: int) -> tuple[int, ...]:
        """A list of integers at a position; a single one stands for ``count`` equal ones. Raises Unknown."""
        values: tuple[int, ...] = self.typed_value(at, tuple)
        if not values or not all(type(value) is int for value in values):
            raise Unknown(f"value {at}")
        require(len(values) in (1, count))
        return values * count if len(values) == 1 else values


def require(condition: bool) -> None:
    """Raises Contradiction unless the condition holds."""
    if not condition:
        raise Contradiction


def literal(text: Any) -> Any:
    """A recorded value: a number, a bool, a list of those as a tuple; None for nothing; other text unchanged."""
    if not isinstance(text, str):
        return None
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text)
    inside = _LIST.fullmatch(text)
    if inside is None:
        return text
    return tuple(literal(item) for item in inside[1].split(",") if item.strip())


def call_of(name: str, shapes: str | None, types: str | None, inputs: str | None) -> Call | None:
    """The call with these recorded arguments, each a JSON list; None where they were not recorded.

    Raises Contradiction for invalid sizes.
    """
    dims, kinds, values = (_list(text) for text in (shapes, types, inputs))
    if dims is None or kinds is None:
        return None
    tensors = tuple(_argument(size, kinds[at] if at < len(kinds) else "") for at, size in enumerate(dims))
    return Call(name, tensors, tuple(map(literal, values or ())))


def _list(text: str | None) -> list[Any] | None:
    try:
        value = json.loads(text or "null")
    except (ValueError, RecursionError):
        raise Contradiction from None
    return value if isinstance(value, list) else None


def _argument(sizes: Any, kind: Any) -> Tensor | tuple[Tensor, ...] | None:
    if not isinstance(sizes, list):
        return None
    if any(isinstance(size, list) for size in sizes):
        lists = [_sizes(size) for size in sizes if isinstance(size, list)]
        element = kind.partition("<")[2].removesuffix(">") if isinstance(kind, str) else ""
        return tuple(Tensor(size, _AS_RECORDED.get(element.lower(), "")) for size in lists)
    known = _AS_RECORDED.get(kind.lower()) if isinstance(kind, str) else None
    return Tensor(_sizes(sizes), known) if known is not None else None


def _sizes(sizes: list[Any]) -> tuple[int, ...]:
    if not all(type(size) is int and 0 <= size < LARGEST for size in sizes):
        raise Contradiction
    return tuple(sizes)
