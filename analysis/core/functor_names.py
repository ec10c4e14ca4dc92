"""What a generic kernel computes, read off its template arguments.

PyTorch launches most of its small kernels through a handful of templates: ``elementwise_kernel``, ``reduce_kernel``,
``multi_tensor_apply_kernel``. What tells two of them apart is the functor deep inside the arguments, among arrays,
offset calculators and lambdas. ``shorter`` gives such a name in ever fewer words, the functor last to go. Names of
other kernels, and names that do not parse, have no shorter form here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, field

_GENERIC = re.compile(r"(?:\w*elementwise_kernel\w*|reduce_kernel|multi_tensor_apply_kernel)")
_WRAPPER = re.compile(r"(?:gpu_kernel_impl\w*|func_wrapper_t|ReduceOp)$")
_STORAGE = re.compile(
    r"[Aa]rray\b|OffsetCalculator$|(?:Load|Store)With\w*Cast$|^TensorList\w*Metadata$|^memory$|^char ?\*$"
)
_PLAIN = re.compile(
    r"(?:\d\w*|true|false|bool|char|short|int|long|half|float|double|unsigned(?: \w+)*|(?:B?Float|Half|u?int)\w*(?:_t)?"
    r"|__half|__nv_bfloat16|complex)$"
)
_ANONYMOUS = re.compile(r"(?:\(anonymous namespace\)|<unnamed>)::")
_LAMBDA = re.compile(r"[{\[]lambda\(([^()]*)\) ?(?:#\d+|\(instance \d+\))[}\]]")
_LAMBDAS = re.compile(r"(?:(?:::)+\x01([^\x02]*)\x02)+")
_SCOPE = re.compile(r"\b[A-Za-z_]\w*::")
_DEEPEST = 40


class _Node(Struct):
    """A template name and its arguments."""

    name: str
    arguments: list[_Node] = field(default_factory=list)

    def text(self) -> str:
        inner = ", ".join(argument.text() for argument in self.arguments)
        return f"{self.name}<{inner}>" if inner else self.name


def shorter(base: str, arguments: str) -> Iterator[str]:
    """The name in ever fewer words: ``base`` without scopes, ``arguments`` as recorded after the first ``<``."""
    base = _SCOPE.sub("", _ANONYMOUS.sub("", base))
    if not _GENERIC.fullmatch(base):
        return
    root = _parsed(_flat(f"{base}<{arguments}"))
    if root is None:
        return
    root.arguments = [node for node in _unwrapped(root.arguments) if not _STORAGE.search(node.name)]
    if _functor(root) is None:
        return
    yield root.text()
    for argument in root.arguments:
        _lean(argument)
    yield root.text()
    _lean(root)
    yield root.text().replace("<", "<…", 1)
    functor = _functor(root)
    if functor is None:
        return
    yield f"{base}<…{functor.text()}>"
    yield f"{base}<…{functor.name}>"
    yield f"{base}<…{functor.name.partition('(')[0]}>"


def _flat(text: str) -> str:
    """The text without scopes, parameters, casts and lambdas; the last lambda's parameters stay, in \\x01 \\x02."""
    text = _LAMBDA.sub(lambda found: f"\x01{found[1].replace(',', chr(3))}\x02", _ANONYMOUS.sub("", text))
    text = text.replace("operator ()", "operator()").replace("::operator()() const", "")
    for _ in range(_DEEPEST):
        without = re.sub(r"\([^()]*\)", "", text)
        if without == text:
            break
        text = without
    text = re.sub(r"::operator\b|\bconst\b|\bvoid ", "", text)
    return _SCOPE.sub("", _LAMBDAS.sub("\x01\\1\x02", text)).replace("&", "")


def _parsed(text: str) -> _Node | None:
    """The tree of the first template in the text; None where brackets do not match or are nested beyond reason."""
    root = _Node("")
    stack = [root]
    word = ""
    for char in text:
        if char not in "<>,":
            word += char
            continue
        node = stack[-1]
        if char == "<":
            child = _Node(_word(word))
            node.arguments.append(child)
            stack.append(child)
            if len(stack) > _DEEPEST:
                return None
        else:
            if word.strip():
                _add(node, word)
            if char == ">":
                if len(stack) < 2:
                    return None
                stack.pop()
        word = ""
        if len(stack) == 1:
            break
    return root.arguments[0] if len(stack) == 1 and root.arguments else None


def _add(node: _Node, word: str) -> None:
    """A plain argument, or what stands behind a closing bracket: ``Array<char*, 2>::StoreWithoutCast``."""
    text = _word(word)
    if word.startswith((":", "\x01")) and node.arguments:
        last = node.arguments[-1]
        if word[0] == ":" or not last.arguments:
            last.name += text if word[0] == "\x01" else "::" + text.lstrip(":")
    elif text:
        node.arguments.append(_Node(text))


def _word(text: str) -> str:
    return text.strip().replace("\x01", "(").replace("\x02", ")").replace("\x03", ",")


def _unwrapped(nodes: list[_Node]) -> list[_Node]:
    """The nodes with what only wraps a functor replaced by what is in it, without its plain types."""
    out: list[_Node] = []
    for node in nodes:
        while _WRAPPER.match(node.name) and any(not _PLAIN.match(inner.name) for inner in node.arguments):
            node = next(inner for inner in node.arguments if not _PLAIN.match(inner.name))
        out.append(node)
    return out


def _lean(node: _Node) -> None:
    """Leave out numbers and plain types beside something that says more, and plain types said twice."""
    telling = [argument for argument in node.arguments if not _PLAIN.match(argument.name)]
    if telling:
        node.arguments = telling
    else:
        node.arguments = [*{argument.name: argument for argument in node.arguments}.values()]
    for argument in node.arguments:
        _lean(argument)


def _functor(root: _Node) -> _Node | None:
    """The innermost template that still says something: the last branch that has any, down to plain types."""
    node = root
    while telling := [argument for argument in node.arguments if not _PLAIN.match(argument.name)]:
        node = ([argument for argument in telling if argument.arguments] or telling)[-1]
    return None if node is root else node
