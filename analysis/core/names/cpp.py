"""C++ names → a tree of scopes, template arguments and parameters; mangled names (Itanium ABI) are demangled first.

Three spellings of a lambda are read: the profilers' (``{lambda(float)#1}``), Nsight's (``[lambda(float) (instance
1)]``) and LLVM's (``'lambda'(float)``). Invariants: time is linear in the text, nesting is bounded, and a truncated
name still gives the tree of what is left.

LLVM's demangler is C++ code in this process: a name whose substitutions double at each step would expand to terabytes,
and one nested ten thousand deep overflows the stack. So an upper bound of the length is computed first, and no name
costs more than ``_UNFOLDED`` characters.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

_DEEPEST = 48
_TOKEN = re.compile(
    r"\((?:anonymous namespace|instance \d+)\)|<unnamed>|\{anonymous\}|'(?:unnamed|lambda)[\w ]*'|#\d+"
    r"|operator ?\(\)|operator(?=[^\w])[ ]?(?:<=>|<<=?|>>=?|->\*?|[-+*/%^&|=!<>~]=?|\[\])|::|[A-Za-z_~$][\w$]*"
    r"|-?\d[\w.]*|[<>(),{}\[\]&*]|\.\.\.|…|\s+|."
)
_QUALIFIERS = frozenset(("const", "volatile", "typename", "class", "struct", "enum", "__restrict__", "restrict"))
_BUILTIN = frozenset((
    "void", "bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double", "half", "__int128",
    "wchar_t", "char8_t", "char16_t", "char32_t", "_Float16", "decltype", "auto", "std",
))
_LAMBDA = "lambda"


class NamePart(Struct):
    """One component of a qualified name: template ``arguments``, and ``parameters`` of a call or lambda. None means
    that there is no such list, which differs from an empty one."""

    name: str
    arguments: list[Name] | None = None
    parameters: list[Name] | None = None


class Name(Struct):
    """A qualified name, components from outermost to innermost; a literal or built-in type has one."""

    parts: list[NamePart] = field(default_factory=list)

    @property
    def last(self) -> NamePart:
        """The innermost component that is neither a lambda nor a call operator; the first if there is none."""
        for part in reversed(self.parts):
            if part.name not in (_LAMBDA, "operator()"):
                return part
        return self.parts[0]

    @property
    def called(self) -> list[Name] | None:
        """The parameters of the innermost lambda; None if there is no lambda."""
        for part in reversed(self.parts):
            if part.name == _LAMBDA:
                return part.parameters
        return None


class TooDeep(ValueError):
    """The text is nested too deeply."""


def parsed(text: str) -> Name | None:
    """The function that the text names, without its return type; None if there is none or it is nested too deeply."""
    try:
        names = _Reader(text).sequence("", 0)
    except TooDeep:
        return None
    return names[0] if names and names[0].parts else None


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = [token for token in _TOKEN.findall(text)]
        self._at = 0

    def sequence(self, closing: str, depth: int) -> list[Name]:
        """Names up to the closing bracket, which is consumed; the end of the text closes all brackets."""
        if depth > _DEEPEST:
            raise TooDeep
        result: list[Name] = []
        reading = _Reading()
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token == closing:
                break
            if token == ",":
                reading.close_into(result)
            else:
                self._take(token, reading, depth)
        reading.close_into(result)
        return result

    def _take(self, token: str, reading: _Reading, depth: int) -> None:
        """Handles one token of a name, including the bracketed list it opens."""
        if token == "<" and reading.open_part is not None and reading.open_part.arguments is None:
            reading.open_part.arguments = self.sequence(">", depth + 1)
        elif token == "(":
            inner = self.sequence(")", depth + 1)
            if reading.open_part is not None:
                reading.open_part.parameters = inner
                reading.after_call = True
            elif inner and inner[0].parts:
                reading.group = inner[0]
        elif token in "{[" :
            self._braces("}" if token == "{" else "]", reading, depth)
        elif token == "::":
            reading.scope()
        elif token.startswith("'") and len(token) > 1:
            reading.word(_LAMBDA if "lambda" in token else "unnamed")
        elif token[0].isspace() or token in "&*.…" or token == "...":
            reading.gap = True
        elif token in ("(anonymous namespace)", "<unnamed>", "{anonymous}"):
            reading.word("", hidden=True)
        elif token.startswith("operator"):
            reading.word("operator()" if "(" in token else token)
        elif token[0].isalnum() or token[0] in "_~$-":
            reading.word(token)
        # anything else is an operator in an expression and names nothing

    def _braces(self, closing: str, reading: _Reading, depth: int) -> None:
        """``{lambda(float)#1}`` and similar: one component."""
        inner = self.sequence(closing, depth + 1)
        part = inner[0].parts[-1] if inner and inner[0].parts else NamePart("")
        reading.word(_LAMBDA if part.name == _LAMBDA else part.name)
        if reading.open_part is not None:
            reading.open_part.parameters = part.parameters


class _Reading:
    """A name being read: the components so far, and any words before them (return type, cast, ``unsigned``)."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.chain: list[NamePart] = []
        self.words: list[str] = []
        self.open_part: NamePart | None = None
        self.group: Name | None = None
        self.joined = self.gap = self.after_call = False

    def scope(self) -> None:
        """``::`` joins the next component to the chain."""
        self.joined, self.gap, self.after_call = True, False, False

    def word(self, text: str, hidden: bool = False) -> None:
        """A component, or a word of a type name."""
        if text in _QUALIFIERS:
            self.gap = True
            return
        if not self.joined and self.chain:
            if self.after_call and not hidden and (self.gap or text.startswith("#")):
                return  # follows the parameter list: ``const``, ``#1``, ``[clone …]``
            if all(part.name in _BUILTIN and part.arguments is None for part in self.chain):
                self.words += [part.name for part in self.chain]
            self.chain = []
        self.joined = self.gap = self.after_call = False
        if text.startswith("#"):
            return
        self.open_part = NamePart(text)
        if not hidden:
            self.chain.append(self.open_part)

    def close_into(self, names: list[Name]) -> None:
        """Finishes the name."""
        chain = self.chain
        if chain and len(chain) == 1 and chain[0].name in _BUILTIN and chain[0].arguments is None:
            chain = [NamePart(" ".join([*self.words, chain[0].name]), None, chain[0].parameters)]
        if not chain and self.group is not None:
            chain = self.group.parts
        if chain:
            names.append(Name(chain))
        self._clear()


_LONGEST = 4096  # Longest mangled name that is demangled, in characters: too short to overflow the stack.

_UNFOLDED = 1 << 22  # Most characters, by the bound, that a name may expand to; real names reach some ten thousand.

_PACKS = 2  # Most pack expansions in a name: each repeats its content once per element.

_REFERENCE = re.compile(r"([ST])([0-9A-Z]*)_")
_NAMES = 64  # Most names read from a name that cannot be demangled.

_SUFFIX = re.compile(r"(?:\.kd|_?\d+|\.[\w.]+)$")
_SOURCE_NAME = re.compile(r"(\d{1,3})(?=[A-Za-z_])")


def is_mangled(raw: str) -> bool:
    """Whether the text begins like a mangled function name."""
    return raw.startswith("_Z") and len(raw) > 3 and (raw[2].isdigit() or raw[2] in "NLSG")


def demangled(raw: str) -> str | None:
    """The C++ text of a mangled name; None if it is not one, or would expand too far."""
    if not is_mangled(raw) or len(raw) > _LONGEST or raw.count("Dp") > _PACKS or unfolded(raw) > _UNFOLDED:
        return None
    import pycxxfilt

    for text in (raw, _SUFFIX.sub("", raw)):
        try:
            result = pycxxfilt.demangle(text)
        except (ValueError, UnicodeError):
            continue
        if result:
            return str(result)
    return None


def unfolded(raw: str) -> int:
    """An upper bound of the demangled length; counting stops beyond ``_UNFOLDED``. A back reference ``S<id>_`` stands
    for a component that was complete before its first use, so it is at most as long as the name plus all expansions of
    lower ids before that point; ``T<id>_`` is at most everything before it."""
    sizes: dict[str, int] = {}
    seen: list[tuple[int, int]] = []
    total = len(raw)
    for match in _REFERENCE.finditer(raw):
        if total > _UNFOLDED:
            break
        kind, digits = match.groups()
        if kind == "T":
            total += total
            continue
        number = int(digits[:8], 36) + 1 if digits else 0
        if digits not in sizes:
            sizes[digits] = len(raw) + sum(size for other, size in seen if other < number)
        seen.append((number, sizes[digits]))
        total += sizes[digits]
    return total


def source_names(raw: str) -> list[str]:
    """The identifiers in a mangled name that cannot be demangled: the innermost of each qualified name, in order."""
    result: list[str] = []
    at, joined = 2, False
    while match := _SOURCE_NAME.search(raw, at):
        stop = match.end() + int(match[1])
        name = raw[match.end() : stop]
        if not name.isidentifier():
            at, joined = match.end(), False
            continue
        if joined and match.start() == at:
            result.pop()
        if not name.startswith("_GLOBAL__N"):
            result.append(name)
        at, joined = stop, bool(result)
        if len(result) > _NAMES:
            break
    return result
