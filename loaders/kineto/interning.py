"""What each distinct text means, worked out once and looked up for every row.

A text can be a name, a category, a thread or a grid; each of these is a ``CodeMeaning``, an array over the codes of
``Strings`` that is filled in for a code when a row first uses it so. The last entry stands for 'missing', which is
where code -1 leads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import dialect
from .columns import NULL, Codes, Strings, json_list
from .decode import decode

_NO_BLANKS = str.maketrans("", "", " \t\r\n")
ORDINARY, LOADING, STEP = range(3)
"""What names of host slices say: nothing, that data is loaded, that it is a step of the profiler."""
KIND = {kind: number for number, kind in enumerate(dialect.KINDS)}


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
        self.names = CodeMeaning(strings, _categories, 0, np.uint32)
        self.triples = CodeMeaning(strings, lambda texts: _categories(_tidy(texts)), 0, np.uint32)
        self.ranks = CodeMeaning(
            strings, lambda texts: _categories([text.strip("[]") for text in _tidy(texts)]), 0, np.uint32
        )
        self.lists = CodeMeaning(strings, lambda texts: _categories([_compact(text) for text in texts]), 0, np.uint32)
        self.kind = CodeMeaning(
            strings, lambda texts: [KIND[dialect.kind_of_category(t)] for t in texts], KIND["annotation"], np.uint8
        )
        self.collective = CodeMeaning(strings, lambda texts: [_named("kernel", t) for t in texts], False, bool)
        self.role = CodeMeaning(strings, lambda texts: [_role(t) for t in texts], ORDINARY, np.uint8)
        self.number = CodeMeaning(strings, lambda texts: [dialect.number_in(t[:64]) for t in texts], NULL, np.int64)

    def spelled(self, column: str) -> CodeMeaning:
        """What the texts of a column of a table become."""
        if column in ("shapes", "types", "inputs"):
            return self.lists
        return self.ranks if column == "group_ranks" else self.triples if column in ("grid", "block") else self.names


def _categories(texts: Sequence[str]) -> Any:
    from .categories import codes  # here, because rows are read while polars is still being imported

    return codes(texts)


def _tidy(texts: Sequence[str]) -> list[str]:
    """Texts without white space."""
    return [text.translate(_NO_BLANKS) for text in texts]


def _compact(text: str) -> str:
    """JSON without white space; as it is where it cannot be read."""
    try:
        return json_list(decode(text.encode())[0]) or text
    except ValueError:
        return text


def _named(kind: str, name: str) -> bool:
    return dialect.kind_of_name(kind, name) != kind


def _role(name: str) -> int:
    if dialect.step_number(name) is not None:
        return STEP
    return LOADING if _named("op", name) else ORDINARY
