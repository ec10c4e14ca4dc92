"""Debug annotations of events, in the columns of Kineto's arguments.

PyTorch writes the arguments of its JSON traces as annotations of the same names; its first writer put all of them into
one text, ``metadata``. A number may be written as any numeric type or as text, a grid as a list or as text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from ..kineto.columns import NULL, Strings, integer, quantity, real, triple
from ..protobuf.tokens import Ints, Mask, Tokens, reals
from .sequences import Sequences

_INTS = {
    "correlation": "correlation", "correlation id": "correlation", "external id": "external_id", "rank": "rank",
    "stream": "stream", "stream id": "stream", "device": "device", "device id": "device",
    "registers per thread": "registers", "shared memory": "shared", "bytes": "bytes", "graph id": "graph",
    "graph node id": "graph_node", "corr id": "correlation", "queue": "stream", "agent": "device",
    "copy bytes": "bytes", "src agent": "source",
}  # fmt: skip
SOURCE = 1 << 40
"""Added to the number of the agent that a copy comes from, in the column ``device``: it counts where the track names
no device."""
Reals = npt.NDArray[np.float64]
_QUANTITIES = ("registers", "shared", "bytes")
_CODES = {"grid": "grid", "block": "block", "grid size": "grid", "block size": "block"}
_FLOATS = {"est. achieved occupancy %": "occupancy", "blocks per sm": "blocks_per_sm"}
_HINTS = {
    "python id": "python_function", "python parent id": "python_function", "ev idx": "cpu_op",
    "sequence number": "cpu_op", "record function id": "cpu_op", "fwd thread id": "cpu_op",
}  # fmt: skip
_TABLES = (("ints", _INTS), ("codes", _CODES), ("floats", _FLOATS), ("hint", _HINTS))
_METADATA = "metadata"
_AGENT = re.compile(r"Agent[- ](\d{1,4})", re.I)
_LIST = re.compile(r"\s*[\[(]?\s*(\d{1,18}(?:\s*,\s*\d{1,18}){0,2})\s*[\])]?\s*\Z")


def _agent(text: str) -> int:
    """The number of 'Agent-2'; NULL for other texts."""
    match = _AGENT.fullmatch(text)
    return int(match[1]) if match else NULL


def _spelling(name: str) -> str:
    return name.lower().replace("_", " ")


class Columns:
    """The annotations of some events as columns. ``hint`` is the category they imply, -1 for none."""

    def __init__(self, rows: int) -> None:
        self.ints = {name: np.full(rows, NULL, np.int64) for name in set(_INTS.values())}
        self.codes = {name: np.full(rows, -1, np.int64) for name in ("grid", "block", "hint")}
        self.floats = {name: np.full(rows, np.nan) for name in set(_FLOATS.values())}


class _Lists(NamedTuple):
    """Lists of numbers: per list its annotation (``places``), its start in ``values`` and its length."""

    places: Ints
    starts: Ints
    counts: Ints
    values: Ints

    def of(self, mask: Mask) -> dict[int, list[int]]:
        """The lists of the annotations in ``mask``, by annotation."""
        at = np.flatnonzero(mask[self.places])
        bounds = zip(self.places[at].tolist(), self.starts[at].tolist(), self.counts[at].tolist(), strict=True)
        return {row: self.values[start : start + count].tolist() for row, start, count in bounds}


class Annotations:
    """Reads debug annotations into columns or, for single events, into dictionaries."""

    def __init__(self, strings: Strings, sequences: Sequences) -> None:
        self._strings, self._sequences = strings, sequences
        self._meanings: dict[int, tuple[str, str] | None] = {}

    def columns(self, tokens: Tokens, rows: int, spans: Ints) -> Columns:
        """The columns of ``rows`` events; ``spans`` has the span of each (``sequences``)."""
        out = Columns(rows)
        owner = tokens.owners("packet.event.annotation").astype(np.int64)
        self._level(tokens, "packet.event.annotation", owner, spans, out)
        inner = owner[tokens.owners("packet.event.annotation.entry")]
        self._level(tokens, "packet.event.annotation.entry", inner, spans, out)
        source, device = out.ints.pop("source"), out.ints["device"]
        out.ints["device"] = np.where((device == NULL) & (source >= 0), source + SOURCE, device)
        return out

    def names(self, tokens: Tokens, path: str, owner: Ints, spans: Ints) -> Ints:
        """The code of each annotation's name."""
        names = tokens.text_column(f"{path}.name", len(owner), self._strings.code)
        ids = tokens.field(f"{path}.name_id")
        names[ids.owners] = self._sequences.texts("annotation", spans[owner[ids.owners]], ids.values)
        return names

    def values(self, tokens: Tokens, path: str, owner: Ints, spans: Ints, mask: Mask | None = None) -> Ints:
        """The code of each annotation's text (only of owners in ``mask``, if given); -1 if it is not a text."""
        texts = tokens.text_column(f"{path}.text", len(owner), self._strings.code, mask)
        ids = tokens.field(f"{path}.text_id")
        texts[ids.owners] = self._sequences.texts("value", spans[owner[ids.owners]], ids.values)
        return texts

    def whole(self, tokens: Tokens, spans: Ints, rows: set[int]) -> dict[int, dict[str, Any]]:
        """All annotations of the events ``rows``, by name; entries of dictionaries are merged into the same level."""
        out: dict[int, dict[str, Any]] = {}
        outer = tokens.owners("packet.event.annotation").astype(np.int64)
        path = "packet.event.annotation"
        for owner, where in ((outer, path), (outer[tokens.owners(f"{path}.entry")], f"{path}.entry")):
            mask = np.isin(owner, list(rows))
            names, texts = self.names(tokens, where, owner, spans), self.values(tokens, where, owner, spans, mask)
            values: dict[int, Any] = {at: self._strings.texts[c] for at, c in enumerate(texts.tolist()) if c >= 0}
            for kind in ("flag", "pointer", "unsigned", "signed", "real"):
                field = tokens.field(f"{where}.{kind}")
                numbers = reals(field.values) if kind == "real" else field.values
                values.update(zip(field.owners.tolist(), numbers.tolist(), strict=True))
            values |= {at: bool(values[at]) for at in tokens.field(f"{where}.flag").owners.tolist()}
            values |= self._lists(tokens, where).of(mask)
            for at, value in values.items():
                if int(owner[at]) in rows and names[at] >= 0:
                    out.setdefault(int(owner[at]), {})[self._strings.texts[names[at]]] = value
        return out

    def _lists(self, tokens: Tokens, path: str) -> _Lists:
        """The annotations that are lists of numbers."""
        inside = tokens.owners(f"{path}.item")
        values = np.full(len(inside), NULL, np.int64)
        for kind in ("unsigned", "signed"):
            field = tokens.field(f"{path}.item.{kind}")
            values[field.owners] = field.values
        indices, starts, counts = np.unique(inside, return_index=True, return_counts=True)  # items are grouped by list
        return _Lists(indices.astype(np.int64), starts, counts, values)

    def _level(self, tokens: Tokens, path: str, owner: Ints, spans: Ints, out: Columns) -> None:
        if not len(owner):
            return
        names = self.names(tokens, path, owner, spans)
        distinct, which = np.unique(names, return_inverse=True)
        meanings = [self._meaning(code) for code in distinct.tolist()]
        if not any(meanings):
            return
        # Texts that are not needed are not stored: stacks, and PyTorch's ``metadata``, which differs for every event.
        needed = np.array([one is not None and one[0] not in ("hint", _METADATA) for one in meanings])
        texts = self.values(tokens, path, owner, spans, needed[which])
        whole: Ints | None = None
        for number, meaning in enumerate(meanings):
            if meaning is None:
                continue
            at = np.flatnonzero(which == number)
            kind, column = meaning
            if kind == "hint":
                out.codes["hint"][owner[at]] = self._strings.code(column)
            elif kind == _METADATA:
                self._metadata(tokens, path, owner, at, texts, out)
            elif kind == "codes":
                self._triples(tokens, path, at, owner, texts, out.codes[column])
            elif kind == "ints":
                whole = self._whole(tokens, path, len(owner)) if whole is None else whole
                self._numbers(whole[at], texts[at], owner[at], out.ints[column], column)
            else:
                self._reals(tokens, path, at, owner, texts, out.floats[column])

    def _meaning(self, code: int) -> tuple[str, str] | None:
        if code < 0:
            return None
        if code not in self._meanings:
            name = self._strings.texts[code][:64]
            self._meanings[code] = (_METADATA, _METADATA) if _spelling(name) == _METADATA else _argument(name)
        return self._meanings[code]

    def _whole(self, tokens: Tokens, path: str, count: int) -> Ints:
        """The value of each annotation as an integer, NULL if it is not one."""
        values = np.full(count, NULL, np.int64)
        for kind in ("pointer", "unsigned", "signed"):
            field = tokens.field(f"{path}.{kind}")
            values[field.owners] = field.values
        field = tokens.field(f"{path}.real")
        floats = reals(field.values)
        with np.errstate(invalid="ignore"):
            is_integer = (np.abs(floats) < 1e15) & (np.floor(floats) == floats)
        values[field.owners[is_integer]] = floats[is_integer].astype(np.int64)
        return values

    def _numbers(self, values: Ints, texts: Ints, owner: Ints, out: Ints, column: str) -> None:
        """Write annotations' numbers, or numbers parsed from their texts, to the rows of their owners."""
        as_text, is_quantity = np.flatnonzero((values == NULL) & (texts >= 0)), column in _QUANTITIES
        convert = _agent if column == "source" else quantity if is_quantity else integer
        for code in np.unique(texts[as_text]).tolist():
            values[as_text[texts[as_text] == code]] = convert(self._strings.texts[code].strip())
        if is_quantity:
            values = np.where(values < 0, NULL, values)
        numeric = values != NULL
        out[owner[numeric]] = values[numeric]

    def _reals(self, tokens: Tokens, path: str, at: Ints, owner: Ints, texts: Ints, out: Reals) -> None:
        values = np.full(len(owner), np.nan)
        for kind in ("unsigned", "signed", "real"):
            field = tokens.field(f"{path}.{kind}")
            values[field.owners] = reals(field.values) if kind == "real" else field.values
        for row in at[np.isnan(values[at]) & (texts[at] >= 0)].tolist():
            values[row] = _real(self._strings.texts[texts[row]])
        out[owner[at]] = values[at]

    def _triples(self, tokens: Tokens, path: str, at: Ints, owner: Ints, texts: Ints, out: Ints) -> None:
        code = self._strings.code
        for text in np.unique(texts[at]).tolist():
            if text >= 0 and (match := _LIST.match(self._strings.texts[text][:64])):
                out[owner[at[texts[at] == text]]] = code("".join(match[1].split()))
        mask = np.zeros(len(owner), bool)
        mask[at] = True
        for row, numbers in self._lists(tokens, path).of(mask).items():
            if len(numbers) <= 3 and NULL not in numbers:
                out[owner[row]] = code(",".join(map(str, numbers)))

    def _metadata(self, tokens: Tokens, path: str, owner: Ints, at: Ints, texts: Ints, out: Columns) -> None:
        """Arguments in texts that are the inside of a JSON object; ``texts`` has the codes of interned texts."""
        members = {row: self._strings.texts[code] for row, code in zip(at.tolist(), texts[at].tolist(), strict=True)
                if code >= 0}  # fmt: skip
        mask = np.zeros(len(owner), bool)
        mask[at] = True
        field = tokens.field(f"{path}.text")
        ours = mask[field.owners]
        own = (column[ours].tolist() for column in (field.owners, field.values, field.sizes))
        for row, value, size in zip(*own, strict=True):
            members.setdefault(row, tokens.text(value, size))
        rows = owner.tolist()
        for row in at.tolist():
            for name, value in (fragment(members[row]) if row in members else {}).items():
                column = _argument(name[:64])
                if column is not None:
                    self._put(rows[row], *column, value, out)

    def _put(self, row: int, kind: str, column: str, value: object, out: Columns) -> None:
        if kind == "ints":
            number = quantity(value) if column in _QUANTITIES else integer(value)
            if number != NULL:
                out.ints[column][row] = number
        elif kind == "codes":
            if (text := triple(value)) is not None:
                out.codes[column][row] = self._strings.code(text)
        elif kind == "floats":
            out.floats[column][row] = real(value) if type(value) is int else _real(value)
        else:
            out.codes["hint"][row] = self._strings.code(column)


@lru_cache(maxsize=4096)
def _argument(name: str) -> tuple[str, str] | None:
    """The kind of column and the column that an argument of this name goes into; None for other arguments."""
    plain = _spelling(name)
    return next(((kind, table[plain]) for kind, table in _TABLES if plain in table), None)


def fragment(text: str) -> dict[str, object]:
    """The members of a JSON object, parsed from the text between its braces; {} if it is invalid."""
    try:
        document = orjson.loads("{" + text.strip().strip(",") + "}" if not text.lstrip().startswith("{") else text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _real(value: object) -> float:
    try:
        return float(value) if isinstance(value, (str, float)) and len(str(value)) < 400 else float("nan")
    except ValueError:
        return float("nan")
