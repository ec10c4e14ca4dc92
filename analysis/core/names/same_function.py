"""Function matching between two runs by name: the one matcher of all views of two runs.

Profilers spell a function in different ways: mangled or not, with ``.kd`` or ``[clone .kd]``, ``(int)4`` or ``4``, a
lambda with another number. Names that are equal apart from that are the same function. The rest is matched by the short
form (what the function computes), then without template arguments, tile sizes and addresses, and last without
namespaces, where only one candidate is left: a wrong pair would hide a new and a removed function, while a missing pair
shows both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache

from .cpp import demangled
from .short_name import short_name

Function = tuple[str, tuple[str | None, ...]]
"""A name, and where it ran: device, kind. An empty name matches nothing."""

_LONGEST = 8192  # Characters of a name that are compared.
_CLONE = re.compile(r"\s*\[clone [^\]]*\]\s*$|\.kd$")
_TRUE = re.compile(r"\(bool\)([01])\b")
_CAST = re.compile(r"\((?:unsigned |signed )?(?:char|short|int|long|long long)\)(?=-?\d)")
_SUFFIX = re.compile(r"(?<![\w.])(\d+)(?:[uU][lL]{0,2}|[lL]{1,2})(?!\w)")
_NUMBERED = re.compile(r"#\d+(?=\})| \(instance \d+\)(?=\])")
_LLVM_LAMBDA = re.compile(r"'lambda\d*'(\([^()]*\))")
_ANONYMOUS = re.compile(r"<unnamed>|\{anonymous\}|\(anonymous namespace\)")
_SPACE = re.compile(r"^void |\s+")
_ADDRESS = re.compile(r"(_0x[0-9a-f]+|0x[0-9a-f]+|[._][0-9a-f]{8,}|_\d{3,})(?=_|$)", re.IGNORECASE)
_TILES = re.compile(r"\d+x\d+(x\d+)*")
_DIGITS = re.compile(r"\d+")


def same_functions(a: Mapping[Function, float], b: Mapping[Function, float]) -> dict[Function, str]:
    """Function of B → its name in A, for those named differently there; the values are launch counts. Unambiguous cases
    only: one candidate per side, or equally many per side, paired in order of launch count."""
    left = {function: size for function, size in a.items() if function[0] and function not in b}
    right = {function: size for function, size in b.items() if function[0] and function not in a}
    pairs: dict[Function, str] = {}
    for key, several in _KEYS:
        groups: dict[Function, tuple[list[tuple[float, str]], list[tuple[float, str]]]] = defaultdict(lambda: ([], []))
        for place, side in enumerate((left, right)):
            for (name, where), size in side.items():
                groups[key(name), where][place].append((size, name))
        for (_, where), (old, new) in groups.items():
            if old and len(old) == len(new) and (several or len(old) == 1):
                for (_, was), (_, now) in zip(sorted(old), sorted(new), strict=True):
                    pairs[now, where] = was
                    del left[was, where], right[now, where]
    return pairs


@lru_cache(maxsize=16_384)
def function_key(name: str) -> str:
    """A canonical form, equal for all spellings of the function's name."""
    text = _CLONE.sub("", name[:_LONGEST])
    text = (demangled(text) or text)[:_LONGEST]
    text = _TRUE.sub(lambda match: "true" if match[1] == "1" else "false", _CLONE.sub("", text))
    text = _SUFFIX.sub(r"\1", _CAST.sub("", text))
    text = _LLVM_LAMBDA.sub(r"{lambda\1}", _NUMBERED.sub("", text)).replace("[lambda", "{lambda")
    return _SPACE.sub("", _ANONYMOUS.sub("(anonymous)", text)).replace(")]", ")}")


@lru_cache(maxsize=16_384)
def plain(name: str) -> str:
    """The name without template arguments, parameters, addresses, tile sizes and numbers."""
    name = name[:_LONGEST]
    name = demangled(name) or name
    bare, depth = [], 0
    for char in name:
        if char in "<([{":
            depth += 1
        elif char in ">)]}":
            depth = max(0, depth - 1)
        elif depth == 0:
            bare.append(char)
    text = _ADDRESS.sub("", "".join(bare) or name)
    return re.sub(r"\s+|\bvoid\b", "", _DIGITS.sub("", _TILES.sub("", text))).strip("_:. ").lower()


def _last(name: str) -> str:
    """The plain name without namespaces, as kernel tables print it."""
    return plain(name).rpartition("::")[2]


_KEYS: tuple[tuple[Callable[[str], str], bool], ...] = (
    (function_key, True), (short_name, True), (plain, True), (_last, False),
)
"""Match keys, most reliable first, and whether several names with the same key are paired."""
