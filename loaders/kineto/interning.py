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
from .columns import CODES, NULL, Block, Codes, Strings

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

    def of(self, block: Block, column: str) -> npt.NDArray[Any]:
        """The property for each row of a block by one of its columns of texts."""
        codes, numbers = block.codes[CODES.index(column)], block.numbers
        if numbers is None or len(numbers) > len(codes):
            return self[block.texts(column)]
        used = np.zeros(len(numbers), bool)
        used[codes] = True
        used_codes = np.flatnonzero(used)  # most texts are no names but grids, and what those mean nobody asks
        property_of = np.empty(len(numbers), self._arrays[0].dtype)
        property_of[used_codes] = self[numbers[used_codes]]
        values: npt.NDArray[Any] = property_of.take(codes, mode="wrap")
        return values

    def _longer(self, old: npt.NDArray[Any], was: npt.NDArray[Any], size: int) -> tuple[npt.NDArray[Any], ...]:
        array, filled = np.full(size, self._missing, old.dtype), np.zeros(size, bool)
        filled[: len(was) - 1] = was[:-1]
        array[: len(old) - 1] = old[:-1]
        filled[-1] = True
        return array, filled


class InternedTexts:
    """All that the tables ask about texts.

    ``names``, ``triples`` and ``ranks`` are codes of the process-wide categorical; grids and blocks are 'x,y,z' and
    ranks '0,1,2', however the list was spaced in the file. ``device_word`` is what devices are called.
    """

    def __init__(self, strings: Strings) -> None:
        self.strings, self.device_word = strings, "GPU"
        self.names = CodeMeaning(strings, _categories, 0, np.uint32)
        self.triples = CodeMeaning(strings, lambda texts: _categories(_tidy(texts)), 0, np.uint32)
        self.ranks = CodeMeaning(strings, lambda texts: _categories([_listed(text) for text in texts]), 0, np.uint32)
        self.kind = CodeMeaning(strings, _kinds, KIND["annotation"], np.uint8)
        self.collective = CodeMeaning(strings, lambda texts: [_named("kernel", t) for t in texts], False, bool)
        self.role = CodeMeaning(strings, lambda texts: [_role(t) for t in texts], ORDINARY, np.uint8)
        self.number = CodeMeaning(strings, lambda texts: [dialect.number_in(t[:64]) for t in texts], NULL, np.int64)

    def spelled(self, column: str) -> CodeMeaning:
        """What the texts of a column of a table become."""
        return self.ranks if column == "group_ranks" else self.triples if column in ("grid", "block") else self.names


def _categories(texts: Sequence[str]) -> Any:
    from .categories import codes  # here, because rows are read while polars is still being imported

    return codes(texts)


def _kinds(texts: Sequence[str]) -> list[int]:
    return [KIND[dialect.kind_of_category(text)] for text in texts]


def _tidy(texts: Sequence[str]) -> list[str]:
    """Without white space; lists of numbers hold no semicolon."""
    return ";".join(texts).translate(_NO_BLANKS).split(";")


def _listed(text: str) -> str:
    """A list of ranks as '0,1,2', whether the recorder wrote a list or its text."""
    return text.translate(_NO_BLANKS).strip("[]")


_NO_BLANKS = str.maketrans("", "", " \t\r\n")


def _named(kind: str, name: str) -> bool:
    return dialect.kind_of_name(kind, name) != kind


def _role(name: str) -> int:
    if dialect.step_number(name) is not None:
        return STEP
    return LOADING if _named("op", name) else ORDINARY
