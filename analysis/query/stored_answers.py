"""Answers about big recordings, kept beside their tables, so that the next process that asks has them at once.

Who opens a recording again mostly asks what was asked before: the same views without a scope. Such an answer is kept
with its rows where it was found out (the first run's files, for a pair), and needs neither the recording's tables nor
the code that reads them: the overview of a trace of 2 GB takes 5 s, and 0.2 s the second time. It is another question
where anything differs that could change what is said: the state of a recording's file, what is known of it, its
label, our code, the order of the runs. Rows that stay on disk anyway, and answers of many rows, are not kept.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
from msgspec import DecodeError, Struct, msgpack

from ..contract.options import Options
from ..contract.page import PageSection
from ..contract.view import Answer, Runs, View
from ..core.derived import code, is_stored

MOST_BYTES = 8 << 20
"""An answer that takes more is not kept."""
MOST_ANSWERS = 40
"""Answers kept with one recording: all views of it, and its comparisons with some others."""
_BEGINNING = "answer-"


class _Said(Struct, frozen=True):
    """What is kept: the rows as an Arrow file, and the rest of the answer."""

    rows: bytes
    facts: dict[str, Any]
    summary: tuple[str, ...]
    notes: tuple[str, ...]
    picture: tuple[tuple[str, ...], ...]
    rows_below: bool
    page: tuple[PageSection, ...]
    cycle_summary: tuple[str, ...]


def known_answer(view: View, runs: Runs, options: Options, names: Sequence[str], find: Callable[[], Answer]) -> Answer:
    """The answer with the rows' columns ``names`` collected, as ``find`` tells it or as it did before.

    Raises what ``find`` raises. Rows that may stay on disk (``recorded``) are as ``find`` returns them.
    """
    store = runs[0].derived_store if runs and all(is_stored(run) for run in runs) else None
    if store is None or options != Options() or view.free_columns:
        return find()
    name = f"{_BEGINNING}{_question(view, runs)}"
    kept = store.read(name)
    if kept is not None and (answer := _unpacked(kept)) is not None:
        return answer
    answer = find()
    if answer.recorded:
        return answer
    plan = answer.frame if answer.keep is None else answer.frame.filter(answer.keep)
    rows = plan.select(names).collect(engine="streaming")
    answer = Answer(rows.lazy(), answer.facts, answer.summary, answer.notes, picture=answer.picture,
                    rows_below=answer.rows_below, page=answer.page, cycle_summary=answer.cycle_summary)
    packed = _packed(answer, rows)
    if packed is not None:
        store.write(name, packed)
        store.only_last(_BEGINNING, MOST_ANSWERS)
    return answer


def _question(view: View, runs: Runs) -> str:
    """What the answer depends on, as a number: the view and its shape, the runs, our code."""
    asked = [view.name, view.build.__module__, view.build.__qualname__, code()]
    for run in runs:
        assert run.derived_store is not None
        asked += [run.derived_store.identity, repr(run.info)]
    return f"{pl.Series([repr(asked)]).hash()[0]:016x}"


def _packed(answer: Answer, rows: pl.DataFrame) -> pl.DataFrame | None:
    """The answer as a table of one value; None where it is too large, or holds what cannot be written."""
    if rows.estimated_size() > MOST_BYTES:
        return None
    room = io.BytesIO()
    rows.write_ipc(room, compression="lz4")
    said = _Said(room.getvalue(), answer.facts, answer.summary, answer.notes, answer.picture, answer.rows_below,
                 answer.page, answer.cycle_summary)
    try:
        data = msgpack.encode(said)
    except (TypeError, ValueError, OverflowError):
        return None
    return pl.DataFrame({"value": [data]}) if len(data) <= MOST_BYTES else None


def _unpacked(kept: pl.DataFrame) -> Answer | None:
    try:
        said = msgpack.decode(kept["value"][0], type=_Said)
        rows = pl.read_ipc(io.BytesIO(said.rows))
    except (DecodeError, ValueError, TypeError, IndexError, pl.exceptions.PolarsError):
        return None
    return Answer(rows.lazy(), said.facts, said.summary, said.notes, picture=said.picture,
                  rows_below=said.rows_below, page=said.page, cycle_summary=said.cycle_summary)
