"""What recorded categories, names and metadata mean: the one list every reader shares.

Kineto renamed its categories between 2021 and 2022, vendors added theirs, and Ascend and JAX write slices without any,
where the process they are on tells what they are. Categories are compared in lower case. What a text means is worked
out once: each property of texts is a ``CodeMeaning``, an array over the codes of ``Strings`` that is filled in for a
code when a row first uses it so. The last entry stands for 'missing', which is where code -1 leads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..collective_names import kernel_kind
from .columns import NULL, Codes, Number, Strings, json_list
from .document import decode

if TYPE_CHECKING:
    import polars as pl

DEVICE_KINDS = ("kernel", "collective", "memcpy", "memset", "sync")
HOST_KINDS = ("op", "runtime", "driver", "python", "annotation", "sched", "io", "overhead", "dataloader")
RANGE, IGNORED = "range", "ignored"
"""Profiler ranges become metrics; ignored are events that only repeat others."""
REPEATS = "repeats of other events (annotations on GPU lanes, spans)"
KINDS = (*DEVICE_KINDS, *HOST_KINDS, RANGE, IGNORED)
"""Kinds by number; those below ``len(DEVICE_KINDS)`` are device activity, those below ``IGNORED`` host slices."""

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
BACKWARD_ARROW = "fwdbwd"  # The category of flow events from a forward operator to its backward one.
_BACKWARD = re.compile(r"autograd::engine::|.*Backward\d*\Z", re.DOTALL)


def is_backward(name: str) -> bool:
    """Whether an operator of this name runs in the backward pass."""
    return _BACKWARD.match(name) is not None


def kind_of_category(category: str) -> str:
    """The kind of a slice by its category; slices of a category nobody knows are annotations."""
    return _CATEGORIES.get(category.lower(), "annotation")


def is_listed(category: str) -> bool:
    """Whether the category is one of the list."""
    return category.lower() in _CATEGORIES


def kind_of_name(kind: str, name: str) -> str:
    """The kind after a look at the name: collectives among kernels, data loading among operators."""
    if kind == "kernel":
        return kernel_kind(name)
    if kind in ("op", "annotation") and name.startswith("enumerate(DataLoader)"):
        return "dataloader"
    return kind


def category_without(name: str) -> str:
    """The category a host slice would have had, by its name."""
    if name.startswith("$"):
        return "python_function"
    return "cuda_runtime" if _RUNTIME.match(name) else "user_annotation"


def step_number(name: str) -> int | None:
    """The N of ``ProfilerStep#N``."""
    match = _STEP.match(name)
    return int(match[1]) if match else None


def number_in(text: str) -> int:
    """A pid or tid recorded as text: '24610' and 'stream 7' are numbers, other texts a stable negative one."""
    import zlib

    match = re.search(r"(-?\d{1,18})\Z", text.strip(), re.ASCII)
    return int(match[1]) if match else -1 - zlib.crc32(text.encode("utf-8", "replace"))


_GPU_IN_NAME = re.compile(r"\b(?:GPU|gpu|device)[ :#]?(\d{1,4})\b[ :_-]*")
_UNITS = (
    (re.compile(r"freq|clock", re.I), "MHz"),
    (re.compile(r"power", re.I), "W"),
    (re.compile(r"temp(?:erature)?\b", re.I), "C"),
)


def counter(event: dict[str, Any], devices: dict[int, str]) -> list[tuple[str, str | None, float, str]]:
    """The samples of one counter event as (metric, device, value, unit). Every number in ``args`` is a series. A series
    is named by its key, by the event's name where the key says nothing ('value'), or by both. The device is
    ``args.device``, a 'GPU n' in the name, or what the process is known to be."""
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
    """The unit a metric's name implies; '' where it implies none."""
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
    """A JSON number (``Number`` or int) as float; None for anything else, booleans among it."""
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
"""What names of host slices say: nothing, that data is loaded, that it is a step of the profiler."""
KIND = {kind: number for number, kind in enumerate(KINDS)}


class CodeMeaning:
    """One property of texts as an array by code: ``values`` gives those of some texts, ``missing`` that of none."""

    def __init__(self, strings: Strings, values: Callable[[Sequence[str]], Any], missing: Any, dtype: type) -> None:
        self._strings, self._values, self._missing = strings, values, missing
        self._arrays: tuple[npt.NDArray[Any], ...] = np.full(1, missing, dtype), np.ones(1, bool)

    def __getitem__(self, codes: Codes) -> npt.NDArray[Any]:
        """The property for each code. Threads may do the same work twice, never read what is half done."""
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
    """All that the tables ask about texts. ``names``, ``triples`` and ``ranks`` are codes of the process-wide
    categorical; grids and blocks are 'x,y,z' and ranks '0,1,2', however the list was spaced in the file.
    ``device_word`` is what devices are called."""

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

    def spelled(self, column: str) -> CodeMeaning:
        """What the texts of a column of a table become."""
        if column in ("shapes", "types", "inputs"):
            return self.lists
        return self.ranks if column == "group_ranks" else self.triples if column in ("grid", "block") else self.names


@cache
def _shared_categories() -> pl.Series:
    """Codes mean something for as long as a column of the type is there."""
    import polars as pl  # here and below, because rows are read while polars is still being imported

    return pl.Series(["GPU 0"], dtype=pl.Categorical())


def category_codes(texts: Sequence[str]) -> npt.NDArray[np.uint32]:
    """The codes of texts in the categorical type all tables share in this process, entering those that are new."""
    import polars as pl

    _shared_categories()
    codes: npt.NDArray[np.uint32] = pl.Series(texts, dtype=pl.Categorical()).to_physical().to_numpy()
    return codes


def _tidy(text: str) -> str:
    """The text without white space. To replace the one usual blank takes a sixth of the time of a translation."""
    text = text.replace(" ", "")
    return text if text.isprintable() else text.translate(_NO_BLANKS)


def _compact(text: str) -> str:
    """JSON without white space; as it is where it cannot be read."""
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
