"""Slices whose meaning depends on their process: those without a category, and begins with their ends.

Both readers hand them over as blocks with ``MARKS``, in file order, once the metadata of all processes is there.
Begins wait on the stack of their lane, as numbers, until their end; what is left of a block with them is kept. Each
lane is looked up once, and so is each distinct name, task and description.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from . import dialect
from .columns import CODES, FLOATS, INTS, MARKS, NULL, Block, Codes, Ints, integer, triple
from .dialect import Lane, Roles
from .tables import Tables

_INT = {name: row for row, name in enumerate(INTS)}
_CODE = {name: row for row, name in enumerate(CODES)}
_MARK = {name: row for row, name in enumerate(MARKS)}
_FLOAT = {name: row for row, name in enumerate(FLOATS)}
_KEPT_INTS = [_INT[name] for name in ("ts", "dur", "pid", "tid", "offset", "end")]
_KEPT_CODES = [_CODE[name] for name in ("name", "pid_text", "tid_text")]
"""Columns of a slice on a device that hold for it as recorded; the others follow from its lane and its marks."""
_LANE = (("ints", _INT["pid"]), ("ints", _INT["tid"]), ("codes", _CODE["pid_text"]), ("codes", _CODE["tid_text"]))
_PRIMES = [np.int64(value) for value in (
    0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB, 0x2545F4914F6CDD1D)]
DERIVED = "slices on lanes derived from others"
_X, _BEGIN, _END = map(ord, "XBE")

Rows = npt.NDArray[np.intp]


class Places:
    """Adds slices to the tables, each where its lane says. ``ignored`` counts those that are in no table."""

    def __init__(self, tables: Tables, roles: Roles, ignored: Counter[str]) -> None:
        self._tables, self._roles, self._ignored = tables, roles, ignored
        self._number: dict[tuple[Any, Any], int] = {}
        self._lanes: list[Lane] = []
        self._stacks: defaultdict[int, list[int]] = defaultdict(list)
        self._waiting: dict[int, tuple[Block, Ints, int]] = {}
        self._next = 0
        self._host = self._categories(dialect.category_without)
        self._copies = self._categories(_kind_of_copy)
        self._details: dict[int, tuple[int, int, int, float]] = {}
        self._kinds: dict[tuple[int, int], int] = {}

    @property
    def waiting(self) -> int:
        """Begins whose end has not come."""
        return len(self._waiting)

    def take(self, block: Block, marks: Ints) -> None:
        """Add the slices of a block with absolute offsets; its codes are those of ``Strings``."""
        if not block.rows:
            return
        lanes = self._lanes_of(block)
        phases = marks[_MARK["phase"]]
        whole = np.flatnonzero(phases == _X)
        codes = block.codes[_CODE["cat"], (phases == _X) | (phases == _BEGIN)]
        self._tables.count(np.bincount(np.where(codes < 0, self._tables.strings.code(""), codes)).astype(np.int64))
        if len(whole) == block.rows:
            self._place(Block(block.ints.copy(), block.codes, block.floats.copy(), 0), marks, lanes)
            return
        opened, closed = self._pairs(np.flatnonzero((phases == _BEGIN) | (phases == _END)), phases, lanes)
        block, marks, lanes, begins = self._with_waiting(block, marks, lanes, opened)
        self._keep(block, marks, phases, begins)
        ts = block.ints[_INT["ts"]]
        timed = (ts[begins] != NULL) & (ts[closed] != NULL)
        begins, closed = begins[timed], closed[timed]
        order = np.argsort(np.concatenate([whole, closed]), kind="stable")
        rows = np.concatenate([whole, begins])[order]
        taken = block.take(rows)
        taken.ints[_INT["dur"], np.flatnonzero(order >= len(whole))] = (
            ts[closed] - ts[begins])[order[order >= len(whole)] - len(whole)]
        self._next += len(phases)
        if len(rows):
            self._place(taken, marks[:, rows], lanes[rows])

    def _pairs(self, rows: Rows, phases: Ints, lanes: Ints) -> tuple[Ints, Rows]:
        """The numbers of the begins that end in this block, and the rows of their ends."""
        opened, closed = list[int](), list[int]()
        first, without = self._next, 0
        for row, lane, phase in zip(rows.tolist(), lanes[rows].tolist(), phases[rows].tolist(), strict=True):
            if phase == _BEGIN:
                self._stacks[lane].append(first + row)
            elif self._stacks[lane]:
                opened.append(self._stacks[lane].pop())
                closed.append(row)
            else:
                without += 1
        if without:
            self._ignored["ends without a begin"] += without
        return np.array(opened, np.int64), np.array(closed, np.intp)

    def _with_waiting(
        self, block: Block, marks: Ints, lanes: Ints, opened: Ints
    ) -> tuple[Block, Ints, Ints, Rows]:
        """The block with the begins of earlier blocks that end in it behind its rows, and the row of each begin."""
        early = np.flatnonzero(opened < self._next)
        if not len(early):
            return block, marks, lanes, opened - self._next
        ends = [self._waiting.pop(number) for number in opened[early].tolist()]
        parts = [(one.ints[:, at], one.codes[:, at], one.floats[:, at], own[:, at]) for one, own, at in ends]
        ints, codes, floats, own = (np.stack(columns, axis=1) for columns in zip(*parts, strict=True))
        begins = opened - self._next
        begins[early] = block.rows + np.arange(len(early))
        longer = Block(np.concatenate([block.ints, ints], axis=1), np.concatenate([block.codes, codes], axis=1),
                       np.concatenate([block.floats, floats], axis=1), 0)
        lanes = np.concatenate([lanes, self._lanes_of(Block(ints, codes, floats, 0))])
        return longer, np.concatenate([marks, own], axis=1), lanes, begins

    def _keep(self, block: Block, marks: Ints, phases: Ints, begins: Rows) -> None:
        """Keep the begins of the block that have not ended."""
        is_open = phases == _BEGIN
        is_open[begins[begins < len(phases)]] = False
        rows = np.flatnonzero(is_open)
        if len(rows):
            kept, own = block.take(rows), marks[:, rows].copy()
            for at, row in enumerate(rows.tolist()):
                self._waiting[self._next + row] = kept, own, at

    def _lanes_of(self, block: Block) -> Ints:
        """The number of each row's lane."""
        columns = [getattr(block, array)[row].astype(np.int64) for array, row in _LANE]
        mixed = np.zeros(block.rows, np.int64)
        for column, prime in zip(columns, _PRIMES, strict=True):
            mixed = (mixed ^ (mixed >> 29) ^ column) * prime
        _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
        inverse = inverse.reshape(-1)
        if any((column[first][inverse] != column).any() for column in columns):  # two lanes of one hash
            _, first, inverse = np.unique(np.stack(columns), axis=1, return_index=True, return_inverse=True)
            inverse = inverse.reshape(-1)
        numbers = [self._lane(*(int(column[row]) for column in columns)) for row in first.tolist()]
        return np.array(numbers, np.int64)[inverse]

    def _lane(self, pid: int, tid: int, pid_text: int, tid_text: int) -> int:
        texts = self._tables.strings.texts
        keys = self._key(pid, pid_text, texts), self._key(tid, tid_text, texts)
        if (number := self._number.get(keys)) is None:
            number = self._number[keys] = len(self._lanes)
            self._lanes.append(self._roles.lane(*keys))
        return number

    def _key(self, number: int, text: int, texts: list[str]) -> Any:
        """A pid or tid as ``dialect.key`` makes it of the value."""
        if number != NULL or text < 0:
            return "None" if number == NULL else number
        decimal = integer(texts[text])
        return texts[text] if decimal == NULL else decimal

    def _place(self, block: Block, marks: Ints, lanes: Ints) -> None:
        """Add rows to the tables; ``block`` is the caller's no more."""
        used, inverse = np.unique(lanes, return_inverse=True)
        kinds = np.array([self._lanes[lane].kind for lane in used.tolist()], np.int8)[inverse.reshape(-1)]
        categories = block.codes[_CODE["cat"]]
        empty = self._tables.strings.code("")
        recorded = (categories >= 0) & (categories != empty)
        steps = (recorded & (categories == self._tables.strings.code("step"))) | (~recorded & (kinds == Lane.STEPS))
        host = ~recorded & (kinds == Lane.HOST)
        self._on_host(block, marks, np.flatnonzero(host))
        drop = ~recorded & (kinds == Lane.DERIVED)
        for kind, own in ((Lane.TASKS, self._tasks), (Lane.GROUPS, self._groups), (Lane.RPD, self._operations),
                          (Lane.STREAM, self._streams)):
            rows = np.flatnonzero(~recorded & (kinds == kind))
            if len(rows):
                gone = own(block, marks, rows, lanes[rows])
                drop[rows[gone]] = True
        if drop.any():
            self._ignored[DERIVED] += int(np.count_nonzero(drop))
        self._steps(block, np.flatnonzero(steps))
        keep = ~drop & ~steps
        block = block if keep.all() else block.take(np.flatnonzero(keep))
        if block.rows:
            self._tables.add(self._tables.rows_of(block, as_recorded=False))

    def _steps(self, block: Block, rows: Rows) -> None:
        texts, names = self._tables.strings.texts, block.codes[_CODE["name"], rows].tolist()
        starts, durations = (block.ints[_INT[name], rows].tolist() for name in ("ts", "dur"))
        for name, start, dur in zip(names, starts, durations, strict=True):
            if start > NULL + 2 and dur >= 0:
                self._tables.cycle(texts[name] if name >= 0 else "None", start, dur)

    def _categories(self, category: Callable[[str], str]) -> dialect.CodeMeaning:
        """The code of the category that a name implies."""
        code = self._tables.strings.code
        return dialect.CodeMeaning(
            self._tables.strings, lambda texts: [code(category(text)) for text in texts], code(category("")), np.int32)

    def _on_host(self, block: Block, marks: Ints, rows: Rows) -> None:
        if not len(rows):
            return
        block.codes[_CODE["cat"], rows] = self._host[block.codes[_CODE["name"], rows]]
        correlation = block.ints[_INT["correlation"]]
        bare = rows[correlation[rows] == NULL]
        link = marks[_MARK["link"], bare]
        correlation[bare] = np.where(link == NULL, marks[_MARK["other_link"], bare], link)

    def _on_device(
        self, block: Block, rows: Rows, lanes: Ints, categories: Codes, correlation: Ints
    ) -> None:
        """Replace what slices of a device record by what their lane and marks say."""
        stream = block.ints[_INT["tid"], rows]
        texts, coded = self._tables.strings.texts, block.codes[_CODE["tid_text"], rows]
        for code in np.unique(coded[(stream == NULL) & (coded >= 0)]).tolist():
            stream[(stream == NULL) & (coded == code)] = integer(texts[code])
        used, inverse = np.unique(lanes, return_inverse=True)
        places = [self._lanes[lane] for lane in used.tolist()]
        device = np.array([place.device for place in places], np.int64)[inverse.reshape(-1)]
        named = np.array([NULL if place.stream is None else place.stream for place in places], np.int64)
        named = named[inverse.reshape(-1)]
        for column in range(len(INTS)):
            if column not in _KEPT_INTS:
                block.ints[column, rows] = NULL
        for column in range(len(CODES)):
            if column not in _KEPT_CODES:
                block.codes[column, rows] = -1
        block.floats[:, rows] = np.nan
        block.codes[_CODE["cat"], rows] = categories
        block.ints[_INT["device"], rows] = device
        block.ints[_INT["stream"], rows] = np.where(named == NULL, stream, named)
        block.ints[_INT["correlation"], rows] = correlation

    def _tasks(self, block: Block, marks: Ints, rows: Rows, lanes: Ints) -> npt.NDArray[np.bool_]:
        """Tasks of Ascend's hardware; those of a collective are left out where collectives have their own slices."""
        strings = self._tables.strings
        tasks, names = marks[_MARK["task"], rows], block.codes[_CODE["name"], rows]
        pairs, inverse = np.unique(np.stack([tasks, names.astype(np.int64)]), axis=1, return_inverse=True)
        codes = []
        for task, name in pairs.T.tolist():
            if (task, name) not in self._kinds:
                task_text, name_text = (strings.texts[code] if code >= 0 else "" for code in (task, name))
                part = self._roles.has_groups and task_text in _ASCEND_STEPS
                self._kinds[task, name] = -1 if part else strings.code(_ascend_category(task_text, name_text))
            codes.append(self._kinds[task, name])
        categories = np.array(codes, np.int32)[inverse.reshape(-1)]
        sizes = marks[_MARK["size"], rows]
        self._on_device(block, rows, lanes, categories, marks[_MARK["link"], rows])
        block.ints[_INT["bytes"], rows] = sizes
        return categories < 0

    def _groups(self, block: Block, marks: Ints, rows: Rows, lanes: Ints) -> npt.NDArray[np.bool_]:
        """Whole collectives of Ascend."""
        code = self._tables.strings.code("collective_comm")
        self._on_device(block, rows, lanes, np.full(len(rows), code, np.int32), marks[_MARK["link"], rows])
        return np.zeros(len(rows), np.bool_)

    def _operations(self, block: Block, marks: Ints, rows: Rows, lanes: Ints) -> npt.NDArray[np.bool_]:
        """Device operations of rpd2tracing, without its mirrored ranges."""
        strings = self._tables.strings
        used, inverse = np.unique(marks[_MARK["desc"], rows], return_inverse=True)
        kinds = [_rpd_category(strings.texts[code] if code >= 0 else "") for code in used.tolist()]
        codes = np.array([-1 if kind is None else strings.code(kind) for kind in kinds], np.int32)
        categories = codes[inverse.reshape(-1)]
        self._on_device(block, rows, lanes, categories, np.full(len(rows), NULL, np.int64))
        return categories < 0

    def _streams(self, block: Block, marks: Ints, rows: Rows, lanes: Ints) -> npt.NDArray[np.bool_]:
        """Operations of XLA's device lanes."""
        used, inverse = np.unique(marks[_MARK["details"], rows], return_inverse=True)
        inverse = inverse.reshape(-1)
        details = [self._detail(code) for code in used.tolist()]
        grid, shape, registers, occupancy = (np.array(column)[inverse] for column in zip(*details, strict=True))
        categories = self._copies[block.codes[_CODE["name"], rows]]
        self._on_device(block, rows, lanes, categories, marks[_MARK["other_link"], rows])
        block.codes[_CODE["grid"], rows], block.codes[_CODE["block"], rows] = grid, shape
        block.ints[_INT["registers"], rows] = registers
        block.floats[_FLOAT["occupancy"], rows] = occupancy
        return np.zeros(len(rows), np.bool_)

    def _detail(self, code: int) -> tuple[int, int, int, float]:
        """Grid and block as codes, registers and occupancy (%) of a kernel's details."""
        if code not in self._details:
            strings = self._tables.strings
            text = strings.texts[code] if code >= 0 else ""
            sizes = [triple(_sizes(text, key)) for key in ("grid", "block")]
            grid, shape = (-1 if size is None else strings.code(size) for size in sizes)
            registers, occupancy = _single(text, "regs"), _single(text, "occ_pct")
            self._details[code] = grid, shape, NULL if registers is None else registers, float(occupancy or "nan")
        return self._details[code]


_ASCEND_STEPS = ("SDMA", "RDMA", "Write Value", "Notify Wait", "Notify Record", "Reduce_Inline")
"""Task types that are steps of a collective; ignored if collectives have their own slices."""
_ASCEND_COPY = re.compile(r"MEMCPY|SDMA|PCIE_DMA|RDMA")
_ASCEND_WAIT = re.compile(
    r"EVENT|NOTIFY|.*[ _]WAIT\b|PLACE_HOLDER|PROFILING|WRITE[ _]VALUE|STREAM_|MODEL_EXECUTE|PROFILER|CMO|.*RECORD\b"
)


def _ascend_category(task: str, name: str) -> str:
    """The category of an NPU task; tasks that only synchronise streams or record something are not kernels."""
    task, name = task.upper(), name.upper()
    if name.startswith("HCOM"):
        return "collective_comm"
    if _ASCEND_COPY.match(task) or _ASCEND_COPY.match(name):
        return "gpu_memcpy"
    if task.startswith("MEMSET") or name.startswith("MEMSET"):
        return "gpu_memset"
    return "cuda_sync" if _ASCEND_WAIT.match(task) or _ASCEND_WAIT.match(name) else "kernel"


def _rpd_category(operation: str) -> str | None:
    """The category of a device operation as ROCm's rpd2tracing writes it; None for its mirrored ranges."""
    if operation.startswith("UserMarker frame"):
        return None
    if operation.startswith("Copy"):
        return "gpu_memcpy"
    if operation.startswith(("Fill", "Memset")):
        return "gpu_memset"
    return "cuda_sync" if operation.startswith(("Barrier", "Marker")) else "kernel"


def _kind_of_copy(name: str) -> str:
    if re.match(r"memset", name, re.I):
        return "gpu_memset"
    return "gpu_memcpy" if re.match(r"memcpy", name, re.I) else "kernel"


def _sizes(details: str, key: str) -> list[int] | None:
    match = re.search(rf"\b{key}:(\d+),(\d+),(\d+)", details)
    return [int(size) for size in match.groups()] if match else None


def _single(details: str, key: str) -> int | None:
    match = re.search(rf"\b{key}:(\d{{1,9}})\b", details)
    return int(match[1]) if match else None
