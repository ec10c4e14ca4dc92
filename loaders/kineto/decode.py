"""One JSON value from bytes, exactly; and with the repairs recordings in the field need.

What ``orjson`` accepts gives what ``orjson`` gives, except that numbers which are no integers stay text (``Number``).
What it refuses but a recorder is known to write is repaired and reported: bare ``nan`` and ``inf`` in any spelling,
raw control characters and lone surrogates in strings, bytes that are no UTF-8, integers of thousands of digits, which
become ``Number`` too. Everything else raises ValueError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from .columns import Number

_exact = msgspec.json.Decoder(float_hook=Number)
_DIGITS = 400  # More digits than any integer, or float, a recorder writes.


def whole(text: str) -> int | Number:
    """The integer of its digits; the digits themselves where Python would refuse to convert so many."""
    return int(text) if len(text) <= _DIGITS else Number(text)


_lenient = json.JSONDecoder(parse_int=whole, parse_float=Number, parse_constant=lambda word: None, strict=False)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*+"|(-?\b(?:inf(?:inity)?|nan)\b)', re.IGNORECASE | re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(raw: bytes | bytearray | memoryview) -> tuple[Any, bool]:
    """The value and whether it had to be repaired; a bare nan or inf becomes None. Raises ValueError."""
    try:
        return _exact.decode(raw), False
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    text = bytes(raw).decode("utf-8", "replace")
    text = _WORD.sub(lambda match: "null" if match[1] else match[0], text)
    try:
        value = _lenient.decode(text)  # one value, with blanks around it
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return _well_formed(value), True


def _well_formed(value: Any) -> Any:
    """The value without lone surrogates, which no UTF-8 file can hold."""
    return _mapped(value, lambda inner: _SURROGATE.sub("�", inner) if type(inner) is str else inner)


def plain_numbers(value: Any) -> Any:
    """A decoded value with the numbers that were kept as text turned into floats."""
    return _mapped(value, lambda inner: float(inner) if isinstance(inner, Number) else inner)


def _mapped(value: Any, convert: Callable[[Any], Any]) -> Any:
    """The value with ``convert`` of every text and number in it, keys included."""
    if isinstance(value, list):
        return [_mapped(item, convert) for item in value]
    if isinstance(value, dict):
        return {convert(key): _mapped(item, convert) for key, item in value.items()}
    return convert(value)
