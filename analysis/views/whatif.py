"""What-if: what each change would buy per cycle, from a replay of the run, and how far that replay can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec.structs import asdict

from ...loaders.schema import NAME
from ..contract.changes import parse
from ..contract.column import Column
from ..contract.options import SIDES, Options
from ..contract.sections import Section
from ..contract.view import Answer, Runs, View

if TYPE_CHECKING:
    from ..replay.answer import Predictions

COLUMNS = (
    Column("kind", "kind", "text", "kernel, op, collective, copy, host, idle (a cause of it), sync (calls that wait), "
           "graph", width=10, order=1, role="where"),
    Column("name", "what", "text", "what would take no time: a kernel, an operator with its kernels and host time, "
           "host code, a cause of idle time, a call that would no longer wait", width=30, order=0, elastic=True,
           pinned=True, role="name"),
    Column("device_ns", "takes", "ns", "device time per cycle; empty for host code and waits, which overlap the device",
           width=10, order=1),
    Column("takes", "takes", "fraction", "device time over cycle time", width=14, order=3, bar="dram"),
    Column("saved_ns", "wins", "ns", "how much shorter the cycle would be; wins do not add up, for two changes may "
           "shorten the same wait", width=10, order=0, role="time"),
    Column("share", "wins", "fraction", "saved / cycle", width=14, order=2, role="share", bar="share"),
    Column("saved_at_peak_ns", "at peak", "ns", "saved where it takes the least time possible", width=10, order=4),
    Column("count", "count", "number", "per cycle", width=8, order=5),
    Column("how", "how it is done", "text", "what usually makes it faster or lets it overlap", width=34, order=6),
    Column("change", "change", "text", "as --change takes it", width=20, order=None),
)
PAIR_COLUMNS = (Column("run", "run", "text", "A or B", width=4, order=0, role="where", pairs="side"), *COLUMNS)
_DTYPES: dict[str, Any] = {
    "run": pl.String, "kind": NAME, "name": NAME, "device_ns": pl.Int64, "takes": pl.Float64, "saved_ns": pl.Int64,
    "share": pl.Float64, "saved_at_peak_ns": pl.Int64, "count": pl.Float64, "how": pl.String, "change": pl.String,
}


def build(runs: Runs, options: Options) -> Answer:
    """What each change would buy in a run, most first; of two runs in either."""
    from ..replay import answer

    changes = tuple(parse(text) for text in options.changes)
    sides = [answer.predictions(run, options, changes) for run in runs]
    rows = [
        {"run": side.upper(), **asdict(row)}
        for side, one in zip(SIDES, sides, strict=False) for row in one.rows
    ]
    frame = pl.DataFrame(rows, schema=_DTYPES).sort("saved_ns", descending=True, maintain_order=True)
    facts = [_facts(one) for one in sides]
    labels = ("",) if len(runs) == 1 else ("A: ", "B: ")
    said = [f"{label}{line}" for label, one in zip(labels, sides, strict=True) for line in one.sentences]
    if len(runs) == 2 and (line := answer.came_true(sides)):
        said.append(line)
    notes = tuple(dict.fromkeys(note for one in sides for note in one.notes))
    if len(runs) == 1:
        return Answer(frame.drop("run").lazy(), facts[0], tuple(said), notes, picture=sides[0].picture, rows_below=True)
    return Answer(
        frame.lazy(), dict(zip(SIDES, facts, strict=True)), tuple(said), notes,
        picture=tuple(lines for one in sides for lines in one.picture), rows_below=True,
    )


def _facts(one: Predictions) -> dict[str, Any]:
    facts: dict[str, Any] = {"replay": asdict(one.accuracy) if one.accuracy else None}
    if one.path is not None:
        facts["critical_path"] = one.path
    if one.scenario is not None:
        facts["scenario"] = one.scenario
    return facts


def details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """Why a change wins what it wins: the critical path before it and with it."""
    from ..replay.answer import why

    side = 1 if row.get("run") == "B" and len(runs) > 1 else 0
    return why(row, runs[side], options)


VIEW = View(
    "whatif", COLUMNS, build, pair_columns=PAIR_COLUMNS, noun="changes", row_id=("kind", "name"), details=details,
)
