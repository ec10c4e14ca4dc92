"""Short display names for a run or a table, cut to a list's column width: no two alike.

Two names may share a short form (two Tensile GEMMs that differ in a tuning field) or look alike once cut. They are then
shown with their difference: first the field or argument in which they differ, then the differing stretch of the form,
last a number. Invariants: different names give different text if the width allows it, all text fits, and the time is
linear in the number of names. Names are compared among all activities of the runs, never among the rows of one answer:
a kernel has the same name in ``--top 2``, the details, SQL and every sentence.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import blake2b

import polars as pl
from rich.cells import cell_len

from ....loaders.trace import Trace
from ..derived import derived_value
from ..text import clean, cut, cut_end
from .short_name import IN_RUNS, full_text, short_name

_LEAST = 12  # Below this many cells, a form and its distinguishing field no longer read as a name.

_FIELDS = 3  # Most fields shown to tell names apart.

_COMPARED = 64  # Most names of one form compared pairwise; beyond that the first fields are shown.

_EVERYWHERE = frozenset(
    "void at native std kernel impl gpu nocast cuda char unsigned const operator lambda instance anonymous namespace ul"
    .split()
)
"""Words that occur in most names, so they distinguish nothing."""

_FIELD_CELLS = 12  # Cells of a field that is shown alone.

_DEEPEST = 8  # Most rounds of cutting names that still look alike.

_READ = 2_000  # Characters of a name that are compared field by field.

_ROOM = 0.6  # Share of the width that the fields may take.

_FIELD = re.compile(r"[A-Za-z]+[A-Za-z0-9]*|-?\d+(?:x\d+)*[A-Za-z]*")
_SEPARATOR = " ·"


def display_names(names: Iterable[str], width: int | None = None) -> dict[str, str]:
    """Recorded name → distinct display text of at most ``width`` cells (any length for None)."""
    raw = dict.fromkeys(names)
    forms = {name: short_name(name) for name in raw}
    fields: dict[str, str] = {}
    for group in _alike(forms):
        fields |= _differing(group)
    shown = {name: _placed(form, fields.get(name, ""), width) for name, form in forms.items()}
    if width is not None and width >= _LEAST:
        for group in _alike(shown):
            texts = {name: _joined(forms[name], fields.get(name, "")) for name in group}
            shown |= _stretches(texts, width)
    for group in _alike(shown):
        shown |= _numbered(group, shown, set(shown.values()), width)
    return shown


def _alike(shown: dict[str, str]) -> list[list[str]]:
    """The groups of names that share a text."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, text in shown.items():
        groups[text].append(name)
    return [group for group in groups.values() if len(group) > 1]


def _joined(form: str, field: str) -> str:
    return f"{form}{_SEPARATOR}{field}" if field else form


def _placed(form: str, field: str, width: int | None) -> str:
    """The form, then the fields that distinguish it; with fields the form is cut at its end, else in its middle."""
    whole = _joined(form, field)
    if width is None or cell_len(whole) <= width:
        return whole
    if not field or width < _LEAST:
        return cut(form, width)
    tail = _SEPARATOR + cut(field, int(width * _ROOM) - len(_SEPARATOR))
    return cut_end(form, width - cell_len(tail)) + tail


def _differing(group: Sequence[str]) -> dict[str, str]:
    """The text that distinguishes each name of a group: one field if enough, else the first few. If all names have the
    same number of fields, they are compared by position, so that ``<4, 1>`` and ``<1, 4>`` differ."""
    split = {name: _fields(name) for name in group}
    as_many = len({len(fields) for fields in split.values()}) == 1
    keyed = {
        name: list(enumerate(fields)) if as_many else [(0, field) for field in dict.fromkeys(fields)]
        for name, fields in split.items()
    }
    held = Counter(key for keys in keyed.values() for key in keys)
    own = {name: [key for key in keys if held[key] < len(group)] for name, keys in keyed.items()}
    result: dict[str, str] = {}
    for name, keys in own.items():
        alone = [key[1] for key in keys if len(key[1]) <= _FIELD_CELLS and held[key] == 1]
        words = [field for field in alone if field[0].isalpha()]
        result[name] = next(iter(words or alone), None) or _combined(name, own)
    return result


def _fields(name: str) -> list[str]:
    """The words and numbers of a name, without those that most templates contain."""
    result = _FIELD.findall(full_text(name)[:_READ])
    return [field.rstrip("ul") if field[0].isdigit() else field for field in result if field not in _EVERYWHERE]


def _combined(name: str, own: dict[str, list[tuple[int, str]]]) -> str:
    """Fields that distinguish the name only together: each one rules out some of the other names."""
    if len(own) > _COMPARED:
        return " ".join(field for _, field in own[name][:_FIELDS])
    others = [set(keys) for other, keys in own.items() if other != name]
    taken: list[str] = []
    for key in own[name]:
        left = [keys for keys in others if key in keys]
        if len(left) < len(others):
            taken.append(key[1])
            others = left
        if not others or len(taken) == _FIELDS:
            break
    return " ".join(taken)


def _stretches(texts: dict[str, str], width: int, depth: int = 0) -> dict[str, str]:
    """Cuts the texts of a group around the part where they differ; texts that still look alike are cut again."""
    if depth > _DEEPEST:
        return {}
    begin = _agreed(texts.values())
    end = _agreed([text[begin:][::-1] for text in texts.values()])
    shown: dict[str, list[str]] = defaultdict(list)
    for name, text in texts.items():
        # The text's start, the stretch start…stop with some context, and its end; ``width`` cells in total
        stop = len(text) - end
        room = width - 2
        head = tail = room // 4
        middle = room - head - tail
        before = max(0, middle - (stop - begin)) // 2
        first = max(0, min(begin - before, len(text) - middle))
        stretches = [(0, head), (first, first + middle), (len(text) - tail, len(text))]
        out, at = "", 0
        for low, high in stretches:
            if high > at:
                out += ("…" if low > at else "") + text[max(low, at) : high]
                at = high
        shown[out].append(name)
    result: dict[str, str] = {}
    for text, group in shown.items():
        if len(group) == 1 and cell_len(text) <= width:
            result[group[0]] = text
        elif 1 < len(group) < len(texts):
            result |= _stretches({name: texts[name] for name in group}, width, depth + 1)
    return result


def _agreed(texts: Collection[str]) -> int:
    """Length of the longest common prefix."""
    low, high = min(texts), max(texts)
    return next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))


def _numbered(group: list[str], shown: dict[str, str], taken: set[str], width: int | None) -> dict[str, str]:
    """Last resort: the first name keeps its text, the others get a number, in the order of the raw names."""
    result: dict[str, str] = {}
    number = 2
    for name in sorted(group)[1:]:
        while True:
            tail = f" #{number}"
            number += 1
            if width is not None and len(tail) >= width:
                return result
            text = shown[name] + tail if width is None else cut(shown[name], width - len(tail)) + tail
            if text not in taken:
                break
        taken.add(text)
        result[name] = text
    return result


MOST = 4_096
"""Most names that are compared with one another; with more, each shortened name carries a digest of its raw name."""
_TABLES = (("kernels", "name"), ("kernel_stats", "name"), ("profile", "function"))


class ShortNames:
    """Names made distinct from one another; ``find`` lists them, on first use."""

    def __init__(self, find: Callable[[], Collection[str]]) -> None:
        self._find = find
        self._shown: dict[int | None, dict[str, str]] = {}

    @cached_property
    def names(self) -> Collection[str]:
        """The names; empty if there are too many to compare."""
        result = self._find()
        self._many = len(result) > MOST
        return () if self._many else result

    def fit(self, raw: str, width: int | None) -> str | None:
        """The name's distinct text of at most ``width`` cells (any length for None); None if unknown."""
        names = self.names
        if self._many:
            form = short_name(raw)
            if form == raw and (width is None or cell_len(form) <= width):
                return form
            tail = f" ·{blake2b(raw.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"
            return form + tail if width is None else cut_end(form, max(1, width - len(tail))) + tail
        shown = self._shown.get(width)
        if shown is None:
            shown = self._shown[width] = display_names(names, width)
        return shown.get(raw)


def short_names_of(runs: Sequence[Trace]) -> ShortNames:
    """The short names of everything that ran on a device in these complete runs."""
    return ShortNames(lambda: sorted({name for run in runs for name in _activities(run)}))


@contextmanager
def speaking_of(names: ShortNames) -> Iterator[None]:
    """Within this context, ``fit_name`` uses these short names."""
    before = IN_RUNS.set(names.fit)
    try:
        yield
    finally:
        IN_RUNS.reset(before)


def shown_name(raw: str | None, width: int | None, *names: ShortNames) -> str:
    """The text of a recorded name from the first of ``names`` that has it, else its short form, cut to ``width``."""
    if raw is None:
        return clean(raw)
    for some in names:
        text = some.fit(raw, width)
        if text is not None:
            return text
    form = short_name(raw)
    return form if width is None else cut(form, width)


def _activities(run: Trace) -> list[str]:
    """The distinct names in the run's activity tables; if there are more than ``MOST``, only a few more than that."""
    def find() -> list[str]:
        result: set[str] = set()
        for table, column in _TABLES:
            if run.has(table):
                some = run.table(table).select(pl.col(column).unique()).head(MOST + 2).collect(engine="streaming")
                result.update(some[column].cast(pl.String).drop_nulls())
        return sorted(result)

    return derived_value(run, "activity-names", list[str], find)
