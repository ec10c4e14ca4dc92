"""The operator to which each device activity's work belongs, and the FLOPs and bytes of one call of it.

Work belongs to the outermost operator with an entry, once; a composite has work only where nothing below it does. All
activities that an operator launched, copies and memsets included, share its work in proportion to their time.
Distinct pairs of operator and arguments are few: the work of each is computed once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.batches import integer_arrays, numbered
from ..core.call_tree import Ints, Mask, nearest, slices_of
from ..core.callers import callers_of, operator_rows
from ..core.captures import Joined
from ..core.derived import derived_value
from ..core.quantiles import codes, combined, dense
from . import experts
from .arguments import PRECISIONS, Call, Contradiction, Unknown, call_of
from .formulas import Cost
from .old_convolutions import old_convolutions
from .operators import entry, work_of

ARGUMENTS = ("name", "shapes", "types", "inputs")
Text = tuple[str, str | None, str | None, str | None]
_NONE, _COMPOSITE, _OWN = range(3)
_ELEMENT = re.compile(r"\b(?:OpaqueType<(?P<size>\d+)u>|(?P<type>c10::BFloat16|c10::Half|double|float)\b)")
_OPAQUE = {"1": "unsigned char", "2": "c10::Half", "4": "float", "8": "long"}
_TF32 = re.compile(r"tf32|s1688", re.IGNORECASE)


class Signature(Struct, frozen=True):
    """One operator with its recorded arguments and its work; ``contradicts`` if the shapes cannot be this operator's.

    ``dtype`` is the type of its operands as peaks name it; fp32 products are ``tf32`` where a kernel's name says so.
    """

    name: str
    shapes: str | None
    types: str | None
    inputs: str | None
    work: Cost | None
    contradicts: bool
    dtype: str | None


class Attribution(Struct, frozen=True):
    """Per row of ``run.kernels``: ``owner``, the host row of its operator (with captures a number per replayed call),
    and ``signature``, the operator's index in ``signatures``; -1 where no operator is known.
    """

    owner: Ints
    signature: Ints
    signatures: tuple[Signature, ...]


def attribution_of(run: Trace) -> Attribution | None:
    """The operators of the run's activities; None where no operator was recorded."""
    return run.remember("work", (), lambda: _attribution(run))


def _attribution(run: Trace) -> Attribution | None:
    if not run.has("host") or not run.has("kernels"):
        return None
    captures = callers_of(run) if run.captures is not None else None
    kernels = run.kernels.select("name").collect(engine="streaming")["name"]

    def owners() -> tuple[pl.DataFrame, pl.DataFrame]:
        return _arguments(run, _owners(run, operator_rows(run, replays=False), kernels))

    activities, texts = derived_value(run, "work-owners", tuple[pl.DataFrame, pl.DataFrame], owners)
    owner, signature = (activities[name].cast(pl.Int64).to_numpy() for name in ("owner", "signature"))
    signatures = _signatures(run, texts, signature, kernels)
    if captures is not None and captures.joined is not None:
        owner, signature, signatures = _with_captures(captures.joined, owner.copy(), signature.copy(), signatures)
    return Attribution(owner, signature, signatures)


def _with_captures(
    captures: Joined, owner: Ints, signature: Ints, signatures: tuple[Signature, ...]
) -> tuple[Ints, Ints, tuple[Signature, ...]]:
    """Attribute the kernels of graph replays as in their captures; a replay counts one call of each operator. Where
    launches with different shapes fit, the calls are known and their work is not."""
    for at, captured in enumerate(captures.captures):
        rows = np.flatnonzero(captures.capture == at)
        if not len(rows):
            continue
        owners = _owners(captured.run, captured.operator, captured.names)
        activities, texts = _arguments(captured.run, owners)
        number = activities["signature"].cast(pl.Int64).to_numpy()
        more = _signatures(captured.run, texts, number, captured.names)
        launch = captures.launch[rows]
        clear = (number[launch] >= 0) & ~captures.unclear[rows]
        signature[rows] = np.where(clear, number[launch] + len(signatures), -1)
        calls = numbered(captures.replay[rows], owners[launch]) + int(owner.max(initial=-1)) + 1
        owner[rows] = np.where(owners[launch] >= 0, calls, -1)
        signatures += more
    return owner, signature, signatures


def _arguments(run: Trace, owner: Ints) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Each ``owner`` with the number of its ``signature`` (-1: none), and the ``ARGUMENTS`` of each signature."""
    inverse, place = dense(owner)
    rows = owner[place]
    slices = rows[rows >= 0]
    recorded = _recorded(run, slices)
    keys = [recorded[name].to_physical().cast(pl.Int64).fill_null(-1).to_numpy() for name in ARGUMENTS]
    number = numbered(*keys) if len(slices) else np.zeros(0, np.int64)
    signature = np.concatenate([np.full(len(rows) - len(slices), -1), number])[inverse]
    first = pl.Series(dense(number)[1].astype(np.int64))
    activities = pl.DataFrame({"owner": owner.astype(np.int32), "signature": signature.astype(np.int32)})
    return activities, recorded[first].cast(pl.String)


def _recorded(run: Trace, rows: Ints) -> pl.DataFrame:
    """The recorded arguments of these host rows, in their order."""
    wanted = pl.DataFrame({"row": rows}, schema={"row": pl.UInt32})
    arguments = run.host.select(*ARGUMENTS).with_row_index("row").join(wanted.lazy(), on="row", how="semi")
    return arguments.sort("row").collect(engine="streaming").drop("row")


def _texts(arguments: pl.DataFrame) -> list[Text]:
    return [(name, shapes, types, inputs) for name, shapes, types, inputs in arguments.cast(pl.String).rows()]


def _signatures(run: Trace, texts: pl.DataFrame, signature: Ints, kernels: pl.Series) -> tuple[Signature, ...]:
    names = _kernel_names(kernels, signature)
    return tuple(_signature(text, names.get(at, ()), run) for at, text in enumerate(_texts(texts)))


def _signature(text: Text, kernels: Iterable[str], run: Trace) -> Signature:
    work, contradicts = _work(text, kernels, run)
    dtype = PRECISIONS.get(work.type) if work is not None else None
    if dtype == "fp32" and work is not None and work.matrix and any(map(_TF32.search, kernels)):
        dtype = "tf32"
    return Signature(*text, work, contradicts, dtype)


def _work(text: Text, kernels: Iterable[str], run: Trace) -> tuple[Cost | None, bool]:
    """The work of a call, and whether its shapes contradict its operator.

    Profilers do not record the element type of a list of tensors; it is taken from the kernels' names if they show it.
    """
    try:
        call = call_of(*text)
        if call is None:
            return None, False
        try:
            return work_of(call), False
        except Unknown:
            if (work := _work_from_other_operators(run, call, kernels)) is not None:
                return work, False
            element = next(filter(None, map(_element, kernels)), None)
            return (None if element is None else work_of(call.of_elements(element))), False
    except Unknown:
        return None, False
    except Contradiction:
        return None, True


def _work_from_other_operators(run: Trace, call: Call, kernels: Iterable[str]) -> Cost | None:
    """The work of a call as other operators' records imply it."""
    return experts.work(run, call, kernels) if call.name in experts.NAMES else old_convolutions(run).work(call)


def _element(kernel: str) -> str | None:
    element = _ELEMENT.search(kernel)
    if element is None:
        return None
    return _OPAQUE.get(element["size"]) if element["size"] else element["type"]


def _owners(run: Trace, rows: Ints, kernels: pl.Series) -> Ints:
    """Per kernel, the row of the operator that its work belongs to; ``rows``: the innermost operators at launch."""
    parent = slices_of(run).parent
    launching, inverse = np.unique(rows, return_inverse=True)
    own, composite = _entries(run, parent, rows, kernels)
    owner = nearest(parent, launching, own)
    while True:
        above = nearest(parent, np.where(owner >= 0, parent[owner], -1), own)
        if (above < 0).all():
            break
        owner = np.where(above >= 0, above, owner)
    inner = nearest(parent, launching, composite)
    owner = np.where(owner >= 0, owner, np.where(inner >= 0, inner, launching))
    owners: Ints = owner[inverse].astype(np.int64)
    return owners


def _entries(
    run: Trace, parent: npt.NDArray[np.int32], operator: Ints, kernels: pl.Series
) -> tuple[Mask, Mask]:
    """Which host rows are operators whose work is known: ordinary ones, and composites."""
    height = len(parent)
    some = pl.col("kind") == "op", pl.col("shapes").is_not_null()
    columns = (pl.col(name).to_physical().cast(pl.Int64).alias(name) for name in ARGUMENTS)
    entries = integer_arrays(run.host.with_row_index("row").filter(*some).select("row", *columns), "row", *ARGUMENTS)
    if not len(entries["row"]):
        return np.zeros(height, bool), np.zeros(height, bool)
    number = numbered(*(entries[name] for name in ARGUMENTS))
    first = entries["row"][np.unique(number, return_index=True)[1]]
    order = np.argsort(first)
    texts: dict[int, Text] = dict(
        zip(order.tolist(), _texts(_recorded(run, first[order])), strict=True))
    states = np.array([_state(texts[at], run) for at in range(len(first))] + [_NONE], np.int8)
    signature = np.full(height, -1, np.int32)
    signature[entries["row"]] = number
    unsure = nearest(parent, operator, states[signature] < 0)
    names = _kernel_names(kernels, np.where(unsure >= 0, signature[unsure], -1))
    for at in np.flatnonzero(states < 0).tolist():
        states[at] = _work_state(texts[at][0], _work(texts[at], names.get(at, ()), run)[0])
    state = states[signature]
    return state == _OWN, state == _COMPOSITE


def _work_state(name: str, work: Cost | None) -> int:
    formula = entry(name)
    return _NONE if work is None or formula is None else _COMPOSITE if formula.composite else _OWN


def _state(text: Text, run: Trace) -> int:
    """Whether a call has work of its own, as a composite, or none; -1 where the names of its kernels may decide."""
    if entry(text[0]) is None:
        return _NONE
    state = _work_state(text[0], _work(text, (), run)[0])
    by_kernels = text[0] in experts.NAMES or bool(text[2] and "TensorList" in text[2])
    return -1 if state == _NONE and by_kernels else state


def _kernel_names(name: pl.Series, group: Ints) -> dict[int, list[str]]:
    """The distinct names of the activities of each group."""
    some = np.flatnonzero(group >= 0)
    if not len(some):
        return {}
    number, places = dense(combined((group[some], codes(name.cast(NAME))[some])))
    places[number[::-1]] = some[::-1]  # in reverse, so that the first of each is written last
    first = pl.Series(np.sort(places))
    frame = pl.DataFrame({"group": pl.Series(group).gather(first), "name": name.gather(first).cast(pl.String)})
    return dict(frame.group_by("group").agg(pl.col("name").drop_nulls()).rows())
