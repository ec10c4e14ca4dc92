"""The meaning of recorded categories, names, processes and counter events, shared by both readers.

Kineto renamed its categories between 2021 and 2022, vendors added their own, and Ascend and JAX write slices without
category, whose process determines their kind. Categories are compared in lower case. The meaning of a text is computed
once: each property is a ``CodeMeaning``, an array over the codes of ``Strings`` whose entry is filled in when a row
first needs it. The last entry is for missing texts, so that code -1 indexes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..collective_names import kernel_kind
from .columns import NULL, Codes, Number, Strings, integer, json_list
from .document import decode

if TYPE_CHECKING:
    import polars as pl

DEVICE_KINDS = ("kernel", "collective", "memcpy", "memset", "sync")
HOST_KINDS = ("op", "runtime", "driver", "python", "annotation", "sched", "io", "overhead", "dataloader")
RANGE, IGNORED = "range", "ignored"
"""Profiler ranges become metrics; ignored events only repeat others."""
OWN = "trace"  # Category of the span that the recorder writes about itself.
REPEATS = "repeats of other events (annotations on GPU lanes, spans)"
KINDS = (*DEVICE_KINDS, *HOST_KINDS, RANGE, IGNORED)
"""Kinds by number: below ``len(DEVICE_KINDS)`` device activities, from there to ``RANGE`` host slices."""

_CATEGORIES = {
    "kernel": "kernel", "hpu_op": "kernel", "mtia_ccp_events": "kernel", "concurrent_kernel": "kernel",
    "collective_comm": "collective",
    "gpu_memcpy": "memcpy", "memcpy": "memcpy", "gpu_memset": "memset", "memset": "memset",
    "cuda_sync": "sync", "cuda_event": "sync", "hip_sync": "sync", "xpu_sync": "sync", "gpu_sync": "sync",
    "cpu_op": "op", "operator": "op", "op": "op",
    "cuda_runtime": "runtime", "runtime": "runtime", "hip_runtime": "runtime", "mtia_runtime": "runtime",
    "glow_runtime": "runtime", "xpu_runtime": "runtime", "privateuse1_runtime": "runtime", "enqueue": "runtime",
    "dequeue": "runtime",
    "cuda_driver": "driver", "driver": "driver", "hip_driver": "driver", "mtia_driver": "driver",
    "xpu_driver": "driver", "privateuse1_driver": "driver",
    "python_function": "python", "python": "python", "user_annotation": "annotation", "nvtx": "annotation",
    "overhead": "overhead", "sched": "sched", "io": "io",
    "cuda_profiler_range": RANGE,
    "gpu_user_annotation": IGNORED, "trace": IGNORED,
}  # fmt: skip

_STEP = re.compile(r"ProfilerStep\*?#(\d{1,18})\Z", re.ASCII)
_RUNTIME = re.compile(
    r"(?:cuda|hip|acl|nccl|rccl|zes?)[A-Z]|cu[A-Z][a-z]|(?:AscendCL|Node|Runtime|Communication|Model|Hccl|HCCL)@"
)
BACKWARD_ARROW = "fwdbwd"  # Category of flow events from a forward operator to its backward operator.
_BACKWARD = re.compile(r"autograd::engine::|.*Backward\d*\Z", re.DOTALL)


def is_backward(name: str) -> bool:
    """Whether an operator of this name runs in the backward pass."""
    return _BACKWARD.match(name) is not None


def kind_of_category(category: str) -> str:
    """The kind of a slice by its category; unknown categories are annotations."""
    return _CATEGORIES.get(category.lower(), "annotation")


def is_listed(category: str) -> bool:
    """Whether the category is a known one."""
    return category.lower() in _CATEGORIES


def kind_of_name(kind: str, name: str) -> str:
    """The kind refined by the name: collectives among kernels, DataLoader slices among operators and annotations."""
    if kind == "kernel":
        return kernel_kind(name)
    if kind in ("op", "annotation") and name.startswith("enumerate(DataLoader)"):
        return "dataloader"
    return kind


def category_without(name: str) -> str:
    """The category of a host slice recorded without one, guessed from its name."""
    if name.startswith("$"):
        return "python_function"
    return "cuda_runtime" if _RUNTIME.match(name) else "user_annotation"


def step_number(name: str) -> int | None:
    """N of ``ProfilerStep#N``; None for other names."""
    match = _STEP.match(name)
    return int(match[1]) if match else None


def number_in(text: str) -> int:
    """A pid or tid recorded as text: the trailing number of '24610' or 'stream 7', else a stable negative hash."""
    import zlib

    match = re.search(r"(-?\d{1,18})\Z", text.strip(), re.ASCII)
    return int(match[1]) if match else -1 - zlib.crc32(text.encode("utf-8", "replace"))


_LABEL = re.compile(r"\[([A-Za-z]+\d{1,6}(?:[-_ ]*[A-Za-z]+\d{1,6})*)\]")
_PART = re.compile(r"([A-Za-z]+)(\d+)")
_LAYOUT = ("node", "pp", "dp", "cp", "ep", "tp")
MOST_LABELLED = 1 << 20
"""Ranks of labels with one number are below this; above, they only have the order of the ranks."""


def label_in(text: str) -> str | None:
    """The label at the head of a pid ('[TP00-PP01] 83'), which tells the process; None without one."""
    match = _LABEL.match(text)
    return match[1] if match else None


def rank_in(text: str) -> int:
    """The rank that the label of a pid tells: its number or, of several, a number that orders them as a layout does;
    NULL without a label."""
    label = label_in(text)
    if label is None:
        return NULL
    parts = [(word.lower(), int(number)) for word, number in _PART.findall(label)]
    if len(parts) == 1:
        return parts[0][1]
    parts.sort(key=lambda part: _LAYOUT.index(part[0]) if part[0] in _LAYOUT else -1)
    order = 1
    for _, number in parts[:4]:
        order = order * (1 << 10) + min(number, (1 << 10) - 1)
    return MOST_LABELLED + order


_GPU_IN_NAME = re.compile(r"\b(?:GPU|gpu|device)[ :#]?(\d{1,4})\b[ :_-]*")
_UNITS = (
    (re.compile(r"freq|clock", re.I), "MHz"),
    (re.compile(r"power", re.I), "W"),
    (re.compile(r"temp(?:erature)?\b", re.I), "C"),
)


def counter(event: dict[str, Any], devices: dict[int, str]) -> list[tuple[str, str | None, float, str]]:
    """The samples of one counter event as (metric, device, value, unit). Every number in ``args`` is a series, named
    after its key, after the event if the key is generic ('value'), or after both. The device is ``args.device``, else
    a 'GPU n' in the name, else the process's device in ``devices``."""
    recorded = event.get("args")
    args = recorded if isinstance(recorded, dict) else {}
    name = event["name"] if isinstance(event.get("name"), str) else "counter"
    device = _device_of(args.get("device"), name, event.get("pid"), devices)
    stem = _GPU_IN_NAME.sub("", name).strip() or name
    unit = args.get("unit") if isinstance(args.get("unit"), str) else None
    series = [(key, number(value)) for key, value in args.items() if key not in ("device", "unit")]
    numbers = [(key, value) for key, value in series if value is not None]
    out = []
    for key, value in numbers:
        if key.lower() in ("value", "", stem.lower()) or (len(numbers) == 1 and stem.lower().endswith(key.lower())):
            metric = stem
        else:
            metric = key if stem.lower() in key.lower() or key.lower().endswith(stem.lower()) else f"{stem} {key}"
        out.append((metric, device, value, unit or unit_of(metric)))
    return out


def unit_of(metric: str) -> str:
    """The unit implied by a metric's name; '' if there is none."""
    bracket = re.search(r"[\[(]([^\])]{1,12})[\])]\s*\Z", metric)
    if bracket and bracket[1] in ("MHz", "B/s", "W", "%", "C", "B", "GB/s", "MB", "GB"):
        return bracket[1]
    return next((unit for pattern, unit in _UNITS if pattern.search(metric)), "")


def _device_of(recorded: Any, name: str, pid: Any, devices: dict[int, str]) -> str | None:
    if type(recorded) is int:
        return f"GPU {recorded}"
    if isinstance(recorded, str) and recorded:
        return recorded
    match = _GPU_IN_NAME.search(name)
    if match:
        return f"GPU {match[1]}"
    return devices.get(number_in(pid) if isinstance(pid, str) else pid) if type(pid) in (int, str) else None


def number(value: Any) -> float | None:
    """A JSON number (``Number`` or int) as float; None for anything else, booleans included."""
    if type(value) is int or isinstance(value, Number):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return None
    return None


MEMORY_TOTALS = (("memory allocated", "Total Allocated"), ("memory reserved", "Total Reserved"))
MEMORY_CHANGE = "memory change"


_NO_BLANKS = str.maketrans("", "", "\t\r\n")
ORDINARY, LOADING, STEP = range(3)
"""Roles of host slices by name: none, DataLoader, profiler step."""
KIND = {kind: number for number, kind in enumerate(KINDS)}


class CodeMeaning:
    """One property of texts as an array over codes; ``values`` computes it for texts, ``missing`` is for code -1."""

    def __init__(self, strings: Strings, values: Callable[[Sequence[str]], Any], missing: Any, dtype: type) -> None:
        self._strings, self._values, self._missing = strings, values, missing
        self._arrays: tuple[npt.NDArray[Any], ...] = np.full(1, missing, dtype), np.ones(1, bool)

    def __getitem__(self, codes: Codes) -> npt.NDArray[Any]:
        """The property of each code. Threads may compute an entry twice but never read an unfinished one."""
        array, filled = self._arrays
        if len(array) <= len(self._strings.texts):
            array, filled = self._arrays = self._longer(array, filled, 2 * len(self._strings.texts) + 2)
        at_hand = filled.take(codes, mode="wrap")
        if not at_hand.all():
            new = np.flatnonzero(np.bincount(codes[~at_hand]))
            texts = self._strings.texts
            array[new] = self._values([texts[code] for code in new.tolist()])
            filled[new] = True
        values: npt.NDArray[Any] = array.take(codes, mode="wrap")
        return values

    def _longer(self, old: npt.NDArray[Any], was: npt.NDArray[Any], size: int) -> tuple[npt.NDArray[Any], ...]:
        array, filled = np.full(size, self._missing, old.dtype), np.zeros(size, bool)
        filled[: len(was) - 1] = was[:-1]
        array[: len(old) - 1] = old[:-1]
        filled[-1] = True
        return array, filled


class InternedTexts:
    """All properties of texts that the tables need. ``names``, ``triples``, ``lists`` and ``ranks`` are codes of the
    process-wide polars Categorical: 'x,y,z' for grids and blocks, '0,1,2' for ranks, whatever the spacing in the file.
    ``device_word`` is the prefix of device names ('GPU'); ``labelled`` the rank that the label of a pid tells."""

    def __init__(self, strings: Strings) -> None:
        self.strings, self.device_word = strings, "GPU"

        def spelling(spell: Callable[[str], str]) -> CodeMeaning:
            return CodeMeaning(strings, lambda texts: category_codes([spell(text) for text in texts]), 0, np.uint32)

        def property_of(value: Callable[[str], Any], missing: Any, dtype: type) -> CodeMeaning:
            return CodeMeaning(strings, lambda texts: [value(text) for text in texts], missing, dtype)

        self.names = CodeMeaning(strings, category_codes, 0, np.uint32)
        self.triples, self.lists = spelling(_tidy), spelling(_compact)
        self.ranks = spelling(lambda text: _tidy(text).strip("[]"))
        self.kind = property_of(lambda text: KIND[kind_of_category(text)], KIND["annotation"], np.uint8)
        self.collective = property_of(lambda text: _named("kernel", text), False, bool)
        self.role = property_of(_role, ORDINARY, np.uint8)
        self.number = property_of(lambda text: number_in(text[:64]), NULL, np.int64)
        self.labelled = property_of(rank_in, NULL, np.int64)

    def spelled(self, column: str) -> CodeMeaning:
        """The property that gives the categorical codes of a table column."""
        if column in ("shapes", "types", "inputs"):
            return self.lists
        return self.ranks if column == "group_ranks" else self.triples if column in ("grid", "block") else self.names


@cache
def _shared_categories() -> pl.Series:
    """Keeps one column of the Categorical dtype alive, without which polars may reassign its codes."""
    import polars as pl  # here and below, because rows are read before polars has finished importing

    return pl.Series(["GPU 0"], dtype=pl.Categorical())


def category_codes(texts: Sequence[str]) -> npt.NDArray[np.uint32]:
    """The codes of texts in the Categorical that all tables of this process share; new texts are added."""
    import polars as pl

    _shared_categories()
    codes: npt.NDArray[np.uint32] = pl.Series(texts, dtype=pl.Categorical()).to_physical().to_numpy()
    return codes


def _tidy(text: str) -> str:
    """The text without white space. Replacing plain spaces first takes a sixth of the time of ``str.translate``."""
    text = text.replace(" ", "")
    return text if text.isprintable() else text.translate(_NO_BLANKS)


def _compact(text: str) -> str:
    """JSON without white space; unchanged if it cannot be decoded."""
    try:
        return json_list(decode(text.encode())[0]) or text
    except ValueError:
        return text


def _named(kind: str, name: str) -> bool:
    return kind_of_name(kind, name) != kind


def _role(name: str) -> int:
    if step_number(name) is not None:
        return STEP
    return LOADING if _named("op", name) else ORDINARY


ASCEND = "NPU"  # Prefix of Ascend device names.


class Lane(Struct, frozen=True):
    """What the slices of one thread are, and the device and stream they are on."""

    HOST: ClassVar[int] = 0
    DERIVED: ClassVar[int] = 1
    STEPS: ClassVar[int] = 2
    TASKS: ClassVar[int] = 3
    GROUPS: ClassVar[int] = 4
    RPD: ClassVar[int] = 5
    STREAM: ClassVar[int] = 6

    kind: int
    device: int = NULL
    stream: int | None = None


class Roles:
    """The role of each process by its metadata: a device, a host process, or lanes derived from others. ``devices``
    maps pids to device names; ``word`` is the prefix of device names, None for GPUs; ``has_groups``: collectives have
    slices of their own."""

    _XLA_DEVICE = re.compile(r"/device:(\w+):(\d+)")
    _RPD_DEVICE = re.compile(r"GPU(\d{1,4})")

    def __init__(self, processes: dict[Any, dict[str, str]], threads: dict[tuple[Any, Any], str]) -> None:
        self.devices: dict[int, str] = {}
        self.word: str | None = None
        self._threads = threads
        self._ascend: dict[Any, int] = {}
        self._ascend_links: dict[Any, int] = {}
        self._xla: dict[Any, int] = {}
        self._derived: set[Any] = set()
        self._rpd: dict[Any, int] = {}
        self.xla = False
        for pid, process in processes.items():
            name, labels = process.get("name", ""), process.get("labels", "")
            if match := self._XLA_DEVICE.search(name):
                self._xla[pid] = int(match[2])
                self.xla = True
                self.word = match[1]
            elif name == "Ascend Hardware":
                self._ascend[pid] = len(self._ascend)
                self.word = ASCEND
            elif name in ("HCCL", "Communication"):
                self._ascend_links[pid] = len(self._ascend_links)
            elif name == "Overlap Analysis":
                self._derived.add(pid)
            elif type(pid) is int and re.fullmatch(r"GPU \d+", labels.strip()):
                self.devices[pid] = labels.strip()
            elif (rpd := self._RPD_DEVICE.fullmatch(name)) and pid == int(rpd[1]):
                self._rpd[pid] = pid
                self.devices[pid] = f"GPU {pid}"
        self._streams = {pid for (pid, _), name in threads.items() if pid in self._xla and name.startswith("Stream")}

    @property
    def has_groups(self) -> bool:
        """Whether collectives of Ascend have slices of their own."""
        return bool(self._ascend_links)

    def lane(self, pid: Any, tid: Any) -> Lane:
        """What a slice without a category is on this thread (``key`` of its pid and tid)."""
        if pid in self._derived:
            return Lane(Lane.DERIVED)
        if pid in self._ascend:
            return Lane(Lane.TASKS, self._ascend[pid])
        if pid in self._ascend_links:  # "Group" lanes hold whole collectives; "Plane" lanes their steps, device tasks
            whole = self._threads.get((pid, tid), "").startswith("Group")
            return Lane(Lane.GROUPS, self._ascend_links[pid]) if whole else Lane(Lane.DERIVED)
        if pid in self._rpd:
            return Lane(Lane.RPD, pid)
        if pid not in self._xla:
            return Lane(Lane.HOST)
        name = self._threads.get((pid, tid), "")
        if name == "Steps":
            return Lane(Lane.STEPS)
        operations = name.startswith("Stream") if pid in self._streams else name == "XLA Ops"
        if not operations:
            return Lane(Lane.DERIVED)
        match = re.search(r"#(\d{1,18})", name)
        return Lane(Lane.STREAM, self._xla[pid], int(match[1]) if match else None)


def key(value: Any) -> Any:
    """A pid or tid as dictionary key: 7 and '7' are the same."""
    number = integer(value)
    return number if number != NULL else str(value)
