"""A recorded name → the one short form in which every list, report and sentence shows it.

The form says what a kernel computes, on what type, in what tile, and leaves out where its template lives and how it is
tuned: ``at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, …>`` is ``add<float>
elementwise``. It does not depend on the room there is; cutting comes after it. What must stay true: the raw name stays
what is stored, searched, filtered and exported to machines; time is linear in the name, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache

from ..text import clean, cut
from . import functors
from .cpp import Name, demangled, is_mangled, parsed, source_names
from .generated import short_generated

_LONGEST = 8192  # Characters of a demangled name that are parsed.

_CPP = re.compile(r"^void |^(?:at|c10|std|native|cub|thrust)::|[\w>]<.|^.+\)$|^\(anonymous namespace\)::", re.S)
_PYTHON = re.compile(r"^<|^\w+\.py|: ")
_GENERIC = re.compile(r"(?:[Kk]ernel\d?|globalKernel|kernel_\w{1,4}|run|apply|operator\(\)|impl|type)$")
_NO_SUBJECT = frozenset(("", "impl", "detail", "internal", "kernel", "kernels", "device", "native"))
_TAIL = re.compile(r"(?:_?(?:cuda_)?kernel|Kernel|_kernel_cuda|CUDAKernel)$")


IN_RUNS: ContextVar[Callable[[str, int], str | None] | None] = ContextVar("IN_RUNS", default=None)
"""What gives the short names of the runs that a question is about (``of_runs.speaking_of``)."""


@lru_cache(maxsize=65_536)
def short_name(raw: str | None) -> str:
    """The short form as display text of any width; a name that follows no known pattern comes back cleaned."""
    if raw is None:  # an activity without a name
        return clean(raw)
    text = raw if len(raw) <= _LONGEST else raw[:_LONGEST]
    if is_mangled(raw):
        readable = demangled(raw)
        if readable is None:
            return clean(next((one for one in source_names(text) if not functors.wraps(one)), raw))
        text = readable[:_LONGEST]
    made = short_generated(text) or (_cpp(text) if _CPP.search(text) and not _PYTHON.search(text) else None)
    return clean(made) if made and made.strip() else clean(raw)


def fit_name(raw: str | None, width: int) -> str:
    """The text of the name in the runs that are asked about, at most ``width`` cells; else its short form, cut."""
    in_runs = IN_RUNS.get()
    text = in_runs(raw, width) if in_runs is not None and raw is not None else None
    return cut(short_name(raw), width) if text is None else text


def full_text(raw: str) -> str:
    """The name as C++ text, demangled where it was mangled: what two names are told apart by."""
    return (demangled(raw) if is_mangled(raw) else None) or raw


def _cpp(text: str) -> str | None:
    """A C++ kernel by its functor, type and tile; None where it cannot be read."""
    name = parsed(text)
    if name is None:
        return None
    own = name.last
    word = functors.family(own)
    if word is not None:
        result = functors.functor(own)
        if result is None:
            return None if own.arguments == [] else word
        kind = result[1] or functors.first_dtype(name)
        typed = f"<{kind}>" if kind else ""
        return f"{word}{typed}" if word in result[0] else f"{result[0]}{typed} {word}"
    name = functors.unwrapped(name)
    own = name.last
    generated = short_generated(own.name)
    return generated or _named(name)


def _named(name: Name) -> str | None:
    """Any other kernel: its own name, then its type, tile and functor."""
    own = name.last
    base = own.name
    if _GENERIC.fullmatch(base):
        scopes = [part.name for part in name.parts[: name.parts.index(own)] if part.name not in _NO_SUBJECT]
        base = scopes[-1] if scopes else base
    else:
        base = _TAIL.sub("", base) or base
    kind = functors.first_dtype(Name([own]))
    says = [kind, functors.head_tile(own) or functors.tile(name), functors.extra(own)]
    inside = ", ".join(dict.fromkeys(filter(None, says)))
    return f"{base}<{inside}>" if inside else base
