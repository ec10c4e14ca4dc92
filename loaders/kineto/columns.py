"""The raw event columns both readers fill, and the conversion of a JSON value to a cell.

The compiled scanner and the plain reader produce the same ``Block`` of columns for the same bytes; ``tables``
interprets them afterwards (kinds, devices, tables). Integers are Int64 with ``NULL`` for missing, so that the scanner
can write them; texts are codes into ``Strings``. Times are nanoseconds parsed from the digits of the text, because a
float64 of a 19-digit microsecond timestamp is off by up to 128 ns.
"""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import count
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..ingest import limits
from ..recording.faults import SINCE_BOOT

HOST_INTS = "ts dur pid tid correlation external_id rank offset sequence forward_tid".split()
HOST_CODES = "cat name pid_text tid_text kernel shapes types inputs".split()
"""Columns filled for host events; ``INTS`` and ``CODES`` begin with them."""
INTS = [
    *HOST_INTS,
    *"stream device registers shared bytes graph graph_node end group_size in_elements out_elements".split(),
    *"seq src_rank dst_rank".split(),
]
"""``offset`` and ``end`` are byte positions of the event in the block."""
CODES = [*HOST_CODES, *"grid block collective process_group group_ranks dtype".split()]
"""``pid_text``, ``tid_text``: ids recorded as JSON strings ('stream 7'); ``grid``, ``block``: the list without
brackets; ``kernel``: the kernel of a launch call; ``shapes``, ``types``, ``inputs``: an operator's lists as JSON."""
FLOATS = "occupancy blocks_per_sm".split()
FLOWS = ("s", "t", "f")  # Phases of flow events.
EVENT_KEYS = ("ts", "dur", "pid", "tid", "cat", "name")
ARGS_READ = {
    "correlation": ("id", "correlation"),
    "External id": ("id", "external_id"), "external id": ("old id", "external_id"),
    "stream": ("id", "stream"), "device": ("id", "device"), "registers per thread": ("quantity", "registers"),
    "shared memory": ("quantity", "shared"), "bytes": ("quantity", "bytes"), "graph id": ("id", "graph"),
    "graph node id": ("id", "graph_node"), "rank": ("id", "rank"), "Sequence number": ("id", "sequence"),
    "Fwd thread id": ("id", "forward_tid"), "grid": ("triple", "grid"), "block": ("triple", "block"),
    "est. achieved occupancy %": ("real", "occupancy"), "blocks per SM": ("real", "blocks_per_sm"),
    "Group size": ("quantity", "group_size"), "In msg nelems": ("quantity", "in_elements"),
    "Out msg nelems": ("quantity", "out_elements"), "Seq": ("id", "seq"),
    "Src Rank": ("id", "src_rank"), "Dst Rank": ("id", "dst_rank"), "Collective name": ("text", "collective"),
    "Process Group Name": ("name", "process_group"), "Process Group Ranks": ("list", "group_ranks"),
    "dtype": ("text", "dtype"), "kernel": ("text", "kernel"), "Input Dims": ("json", "shapes"),
    "Input type": ("json", "types"), "Concrete Inputs": ("json", "inputs"),
}  # fmt: skip
"""Keys read from ``args`` → (type of the value, column). 'External id' wins if both spellings are present."""
ARG_KEYS = tuple(ARGS_READ)

INSTANT_KEYS = ("Device Type", "Device Id", "Total Allocated", "Total Reserved", "Bytes", "Addr")
INSTANT_INTS = "ts pid tid rank offset device_type device_id allocated reserved change address".split()
"""``INSTANT_KEYS`` are read from ``args`` of memory instants; ``INSTANT_INTS`` are all columns of an instant."""

MARK_KEYS = ("connection_id", "correlation_id", "data size(Byte)")
MARK_TEXTS = ("Task Type", "kernel_details", "desc")
MARKS = "link other_link size task details desc phase".split()
"""What is read besides of a slice whose meaning depends on its process: integers and texts of ``args``, and its phase
(the byte). In ``MARKS`` they have the order of the keys; texts are codes, -1 for missing."""
PLACED_PHASES = ("X", "B", "E")

NULL = -(1 << 63)
NO_TIME_TEXT, ROUNDED_TIME, FAR_TIME = NULL + 1, NULL + 2, NULL + 3
"""A ``ts`` or ``dur`` that is no number, one whose exponent hides its last digits, and one beyond 64 bits; ``tables``
counts them and makes them ``NULL``."""

_NUMBER = re.compile(r"(-?)(\d{1,15})(?:\.(\d+))?\Z", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,18}\Z", re.ASCII)
_FLOAT = re.compile(r"-?\d+(?:\.(\d+))?(?:[eE]([-+]?\d+))?\Z", re.ASCII)

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class Number(str):
    """The text of a JSON number that is not an integer, kept as text until its value is needed."""

    __slots__ = ()


class Block(Struct):
    """Slices (events with ``ph`` X and a category) of one part of the file, in file order. ``ints`` is (len(INTS), n),
    ``codes`` (len(CODES), n) with -1 for missing, ``floats`` (len(FLOATS), n) with NaN; a block of host events may have
    only the rows ``HOST_INTS`` and ``HOST_CODES``. ``base`` is the offset of the block's position 0 in the decompressed
    source. ``numbers`` maps local codes to codes of ``Strings``, its last entry being -1 for missing; None if ``codes``
    already are codes of ``Strings``."""

    ints: Ints
    codes: Codes
    floats: Floats
    base: int
    numbers: Codes | None = None

    @property
    def rows(self) -> int:
        """Number of events."""
        return int(self.ints.shape[1])

    def take(self, rows: npt.NDArray[np.intp]) -> Block:
        """A block of the selected rows."""
        return Block(self.ints[:, rows], self.codes[:, rows], self.floats[:, rows], self.base, self.numbers)

    def texts(self, column: str) -> Codes:
        """A column of ``CODES`` as codes of ``Strings``."""
        codes: Codes = self.codes[CODES.index(column)]
        if self.numbers is None or int(codes.max(initial=-1)) < 0:  # shapes are most often not recorded
            return codes
        return self.numbers.take(codes, mode="wrap")

    def translated(self) -> Block:
        """The block with all codes mapped to codes of ``Strings``."""
        if self.numbers is None:
            return self
        return Block(self.ints, self.numbers.take(self.codes, mode="wrap"), self.floats, self.base)


def block_of(rows: int, ints: dict[str, Any], codes: dict[str, Any], floats: dict[str, Any]) -> Block:
    """A block from columns by name (arrays or scalars); columns not given are missing."""
    result = Block(
        np.full((len(INTS), rows), NULL, np.int64), np.full((len(CODES), rows), -1, np.int32),
        np.full((len(FLOATS), rows), np.nan), 0,
    )  # fmt: skip
    arrays = (INTS, ints, result.ints), (CODES, codes, result.codes), (FLOATS, floats, result.floats)
    for names, columns, array in arrays:
        for name, values in columns.items():
            array[names.index(name)] = values
    return result


class Strings:
    """The string table of a load: each distinct text gets a code in order of first occurrence, on any thread. Raises
    limits.Exceeded if there are more texts, or longer ones, than any recorder writes."""

    def __init__(self) -> None:
        self._most, self._room = limits.limit("names"), limits.limit("name-bytes")
        self.texts: list[str] = []
        self._codes: defaultdict[str, int] = defaultdict(count().__next__)
        self._lock = threading.Lock()

    def __contains__(self, text: str) -> bool:
        return text in self._codes

    def code(self, text: str) -> int:
        """The code of a text, a new one if the text is new."""
        code = self._codes.get(text, -1)
        return code if 0 <= code < len(self.texts) else self.numbers((text,))[0]

    def numbers(self, texts: Sequence[str]) -> list[int]:
        """The codes of many texts; new ones are added. Each text is looked up only once."""
        with self._lock:  # held until ``texts`` has an entry for each code
            before = len(self.texts)
            numbers = list(map(self._codes.__getitem__, texts))
            if len(self._codes) > before:
                by_number = dict(zip(numbers, texts, strict=True))
                fresh = [by_number[number] for number in range(before, len(self._codes))]
                self.texts += fresh
                self._room -= sum(map(len, fresh))
            if self._room < 0:
                raise limits.Exceeded("name-bytes", "its names are longer than can be held")
            if len(self.texts) > self._most:
                raise limits.Exceeded("names", f"has more than {self._most:,} different names and other texts")
        return numbers


def nanoseconds(value: Any) -> int:
    """A JSON timestamp in µs (number or text) as ns, halves rounded away from zero; NULL if it is not a timestamp."""
    if type(value) is int:
        return value * 1000 if -(1 << 63) < value * 1000 < 1 << 63 else NULL
    if not isinstance(value, str):
        return NULL
    if value[-4:-3] == "." and len(value) < 20 and value.isascii():
        digits = value[:-4] + value[-3:]
        if digits.isdecimal():
            return int(digits)
    match = _NUMBER.match(value)
    if match is None:
        return _odd_nanoseconds(value)
    sign, integer_digits, fraction = match.groups()
    amount = int(integer_digits) * 1000
    if fraction:
        amount += int(fraction[:3].ljust(3, "0")) + (len(fraction) > 3 and fraction[3] >= "5")
    return -amount if sign else amount


def time_cell(value: Any) -> int:
    """``nanoseconds``, with the reason where a value is there but is no time."""
    amount = nanoseconds(value)
    if isinstance(value, str) and ("e" in value or "E" in value) and (match := _FLOAT.match(value)):
        if amount == NULL:
            return FAR_TIME
        hidden = int(match[2]) > len(match[1] or "")  # a number this long has more digits than those shown
        return ROUNDED_TIME if hidden and abs(amount) > SINCE_BOOT else amount
    if amount != NULL or value is None:
        return amount
    return FAR_TIME if type(value) is int or (isinstance(value, str) and _FLOAT.match(value)) else NO_TIME_TEXT


def _odd_nanoseconds(text: str) -> int:
    if not _FLOAT.match(text) or len(text) > 400:
        return NULL
    try:
        amount = int((Decimal(text) * 1000).quantize(Decimal(1), rounding=ROUND_HALF_UP))
    except (ArithmeticError, ValueError):
        return NULL
    return amount if -(1 << 63) < amount < 1 << 63 else NULL


def integer(value: Any, is_quantity: bool = False) -> int:
    """A JSON value as Int64: integers, integral floats and decimal texts; anything else is NULL. Ids beyond Int64 but
    within 64 bits become two's complement; quantities beyond Int64 are NULL."""
    if type(value) is not int:
        if isinstance(value, Number):
            value = _integral(value)
        elif isinstance(value, str) and _DECIMAL.match(value):
            value = int(value)
        else:
            return NULL
    if -(1 << 63) <= value < 1 << 63:
        return int(value)
    return value - (1 << 64) if not is_quantity and 0 <= value < 1 << 64 else NULL


def _integral(text: Number) -> int:
    if not abs(float(text)) < 1e18:
        return NULL
    try:
        value = Decimal(text)
    except ArithmeticError:
        return NULL
    return int(value) if abs(value) < 10**18 and value == value.to_integral_value() else NULL


def real(value: Any) -> float:
    """A JSON number as float; NaN for anything else."""
    if type(value) is int or isinstance(value, Number):
        try:
            return float(value)
        except OverflowError:
            return float("nan")
    return float("nan")


def triple(value: Any) -> str | None:
    """The elements of a grid or block list joined by commas; None for anything but a list of plain numbers."""
    if not isinstance(value, list) or not value:
        return None
    if not all(type(item) is int or isinstance(item, Number) for item in value):
        return None
    return ",".join(map(str, value))


class Rows:
    """Collects slices as Python values in the order of ``EVENT_KEYS`` and ``ARG_KEYS``; ``block`` returns columns."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self.flows = 0
        self._values: list[Sequence[Any]] = []
        self._args: list[Sequence[Any]] = []
        self._spans: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, event: dict[str, Any], offset: int, end: int) -> None:
        """Add one decoded event, non-integer numbers as ``Number``."""
        recorded = event.get("args")
        args = recorded if isinstance(recorded, dict) else {}
        self.add_values([event.get(key) for key in EVENT_KEYS], [args.get(key) for key in ARG_KEYS], offset, end)

    def add_values(self, values: Sequence[Any], args: Sequence[Any], offset: int, end: int) -> None:
        """Add one event as values in the order of ``EVENT_KEYS`` and ``ARG_KEYS``."""
        self._values.append(values)
        self._args.append(args)
        self._spans.append((offset, end))

    def sort(self, event: dict[str, Any], offset: int, end: int) -> bool:
        """Add a slice or count a flow event; otherwise do nothing and return False."""
        if event.get("ph") == "X" and type(event.get("cat")) is str:
            self.add(event, offset, end)
        elif event.get("ph") in FLOWS:
            self.arrow(event.get("cat"), event.get("name"))
        else:
            return False
        return True

    def arrow(self, category: Any, name: Any) -> None:
        """Count a flow event and intern its texts, as the compiled scanner does; it adds no row."""
        self.flows += 1
        for text in (category, name):
            if type(text) is str:
                self._strings.code(text)

    def block(self, base: int) -> Block:
        """The collected slices as a block of columns."""
        if not self._spans:
            empty = (len(INTS), 0), (len(CODES), 0), (len(FLOATS), 0)
            return Block(np.empty(empty[0], np.int64), np.empty(empty[1], np.int32), np.empty(empty[2]), base)
        ts, dur, pid, tid, cat, name = zip(*self._values, strict=True)
        start, end = zip(*self._spans, strict=True)
        columns: dict[str, npt.NDArray[Any]] = {
            "ts": _times(ts), "dur": _times(dur), "pid": _column(pid, numeric_id), "tid": _column(tid, numeric_id),
            "offset": np.array(start, np.int64), "end": np.array(end, np.int64), "cat": self._texts(cat),
            "name": self._texts(map(name_text, name)), "pid_text": self._texts(pid), "tid_text": self._texts(tid),
        }  # fmt: skip
        args = dict(zip(ARG_KEYS, zip(*self._args, strict=True), strict=True))
        old = args.pop("external id")
        if any(value is not None for value in old):
            new = args["External id"]
            args["External id"] = tuple(b if a is None else a for a, b in zip(new, old, strict=True))
        for key, values in args.items():
            kind, column = ARGS_READ[key]
            if kind in ("id", "quantity"):
                columns[column] = _column(values, integer if kind == "id" else quantity)
            elif kind == "real":
                columns[column] = _reals(values)
            else:
                columns[column] = self._texts(map(_TEXT_OF[kind], values))
        ints, codes, floats = (np.stack([columns[name] for name in names]) for names in (INTS, CODES, FLOATS))
        return Block(ints, codes, floats, base)

    def _texts(self, values: Iterable[Any]) -> Codes:
        code = self._strings.code
        return np.array([code(value) if type(value) is str else -1 for value in values], np.int32)


class MarkedRows(Rows):
    """Slices that wait for their place, with their ``MARKS``."""

    def __init__(self, strings: Strings) -> None:
        super().__init__(strings)
        self._marks: list[tuple[int, ...]] = []

    def add(self, event: dict[str, Any], offset: int, end: int) -> None:
        """Add one decoded event of a phase in ``PLACED_PHASES``."""
        super().add(event, offset, end)
        recorded = event.get("args")
        args = recorded if isinstance(recorded, dict) else {}
        texts = [args.get(key) for key in MARK_TEXTS]
        self._marks.append((
            *(integer(args.get(key), is_quantity="size" in key) for key in MARK_KEYS),
            *(self._strings.code(text) if type(text) is str else -1 for text in texts), ord(event["ph"]),
        ))

    def marks(self) -> Ints:
        """The marks as (len(MARKS), n)."""
        return np.array(self._marks, np.int64).reshape(-1, len(MARKS)).T


def _column(values: Sequence[Any], convert: Callable[[Any], int]) -> Ints:
    kinds = set(map(type, values))
    if kinds == {type(None)}:
        return np.full(len(values), NULL, np.int64)
    if kinds <= {int, type(None)}:
        try:
            return np.array(values if kinds == {int} else [NULL if v is None else v for v in values], np.int64)
        except OverflowError:
            pass
    return np.array([convert(value) for value in values], np.int64)


def _reals(values: Sequence[Any]) -> Floats:
    if not any(value is not None for value in values):
        return np.full(len(values), np.nan)
    return np.array([real(value) for value in values], np.float64)


def _times(values: Sequence[Any]) -> Ints:
    return np.array([time_cell(value) for value in values], np.int64)


def quantity(value: Any) -> int:
    """``integer`` for quantities: values beyond Int64 are NULL, whereas ids keep their 64 bits."""
    return integer(value, is_quantity=True)


def numeric_id(value: Any) -> int:
    """A pid or tid recorded as a number; NULL for one recorded as text, which goes to a text column."""
    return NULL if isinstance(value, str) and not isinstance(value, Number) else integer(value)


def listed(value: Any) -> Any:
    """The ranks of a group: text as recorded, a list of numbers joined by commas."""
    return triple(value) if isinstance(value, list) else value


def json_list(value: Any) -> str | None:
    """The JSON text of a list, decoded or still raw; None for anything else."""
    if isinstance(value, msgspec.Raw):
        text = bytes(value).decode("utf-8", "replace")
        return text if text.startswith("[") else None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if isinstance(value, list) else None


def name_text(value: Any) -> Any:
    """An event name as text: numbers become text as written, anything else is returned unchanged."""
    if type(value) is int or isinstance(value, Number):
        return str.__str__(value) if isinstance(value, str) else str(value)
    return value


_TEXT_OF: dict[str, Callable[[Any], Any]] = {
    "text": lambda value: value, "triple": triple, "name": name_text, "list": listed, "json": json_list,
}  # fmt: skip
