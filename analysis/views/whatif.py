"""What-if: the time each change would save per cycle, from a replay of the run, and how accurate that replay is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec.structs import asdict, replace

from ...loaders.schema import NAME
from ..contract.changes import parse
from ..contract.column import Column
from ..contract.options import SIDES, Options
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View

if TYPE_CHECKING:
    from ..replay.answer import Predictions

COLUMNS = (
    Column("bound", "≤", "text", "≤: a bound, many changes at once; empty: one change that can be made", width=1,
           order=1),
    Column("kind", "kind", "text", "kernel, kernels (a family, or all), op, collective, collectives, copy, host, idle "
           "(one cause), sync (calls that wait), graph", width=11, order=1),
    Column("name", "what", "text", "what would take no time: a kernel, an operator with its kernels and host time, "
           "host code, an idle cause, a call that no longer waits", width=34, order=0, pinned=True, elastic=True,
           role="name"),
    Column("share", "of time", "fraction", "saved / cycle (recording, where there are not two cycles); ░ behind it: "
           "the time it takes / cycle", width=46, order=2, role="share", bar="share", under="takes", of="base"),
    Column("device_ns", "takes", "ns", "device time per cycle; empty for host code and waits, which overlap the device",
           width=10, order=1),
    Column("saved_ns", "saves", "ns", "how much shorter the cycle would be; savings do not add up: two changes may "
           "shorten the same wait", width=10, order=0, role="time", pairs="alone"),
    Column("takes", "takes", "fraction", "device time / cycle time", order=None, of="base"),
    Column("saved_at_peak_ns", "at peak", "ns", "saved if it took the least time its work allows; – where unknown",
           width=10, order=4),
    Column("saved_with_host_ns", "host ×0.5 too", "ns", "saved if all host code also took half its time; far more than "
           "the two apart when host and device overlap", width=13, order=3),
    Column("count", "count", "number", "how often per cycle", width=8, order=5),
    Column("how", "how it is done", "text", "what usually makes it faster or lets it overlap", width=34, order=6),
    Column("change", "change", "text", "argument for --change", width=20, order=None),
    Column("start_ns", "start", "ns", "start of the slice it shortens most", order=None, role="moment"),
    Column("dur_ns", "duration", "ns", "duration of that slice", order=None),
)
PAIR_COLUMNS = (Column("run", "run", "text", "A or B", width=4, order=0, role="where", pairs="side"), *COLUMNS)
_DTYPES: dict[str, Any] = {
    "run": pl.String, "bound": pl.String, "kind": NAME, "name": NAME, "device_ns": pl.Int64, "takes": pl.Float64,
    "saved_ns": pl.Int64, "share": pl.Float64, "saved_at_peak_ns": pl.Int64,
    "saved_with_host_ns": pl.Int64, "count": pl.Float64, "how": pl.String, "change": pl.String,
    "start_ns": pl.Int64, "dur_ns": pl.Int64,
}


def build(runs: Runs, options: Options) -> Answer:
    """Predicted saving of each change in one run, largest first; for two runs, the changes of both."""
    from ..idle.polling import polls_of
    from ..replay import answer

    changes = tuple(parse(text) for text in options.changes)
    sides, lacking = [], []
    for run in runs:
        try:
            sides.append(answer.predictions(run, options, changes))
        except CannotAnswer as why:
            lacking.append(str(why))
            sides.append(answer.Predictions(run.info.label, sentences=(str(why),)))
    if len(lacking) == len(runs):
        raise CannotAnswer(" ".join(dict.fromkeys(lacking)))
    rows = [
        {"run": side.upper(), **asdict(row)}
        for side, one in zip(SIDES, sides, strict=False) for row in one.rows
    ]
    frame = pl.DataFrame(rows, schema=_DTYPES).sort(
        "bound", "saved_ns", descending=[False, True], maintain_order=True)
    facts = [_facts(one) | {"polls": polls_of(run).facts} for one, run in zip(sides, runs, strict=True)]
    labels = ("",) if len(runs) == 1 else ("A: ", "B: ")
    sentences = [f"{label}{line}" for label, one in zip(labels, sides, strict=True) for line in one.sentences]
    if len(runs) == 2 and (line := answer.prediction_sentence(sides)):
        sentences.append(line)
    notes = tuple(dict.fromkeys(note for one in sides for note in one.notes))
    doubt = max((answer.doubt_of(one.accuracy) for one in sides if one.accuracy is not None and one.rows),
                default=0.0)
    doubts = dict.fromkeys(("saved_ns", "saved_at_peak_ns", "saved_with_host_ns"), doubt)
    if len(runs) == 1:
        return Answer(frame.drop("run").lazy(), facts[0], tuple(sentences), notes, picture=sides[0].picture,
                      rows_below=True, doubts=doubts)
    return Answer(
        frame.lazy(), dict(zip(SIDES, facts, strict=True)), tuple(sentences), notes,
        picture=tuple(lines for one in sides for lines in one.picture), rows_below=True, doubts=doubts,
    )


def _facts(one: Predictions) -> dict[str, Any]:
    facts: dict[str, Any] = {"replay": asdict(one.accuracy) if one.accuracy else None}
    if one.path is not None:
        facts["critical_path"] = one.path
    if one.rows:
        facts["cycle_ns"], facts["most"] = one.cycle_ns, one.most
    if one.job is not None:
        facts["job"] = one.job.facts
    if one.scenario is not None:
        facts["scenario"] = one.scenario
    return facts


def details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """Explains a change's saving: the critical path without and with it."""
    from ..replay.answer import why

    side = 1 if row.get("run") == "B" and len(runs) > 1 else 0
    return why(row, runs[side], options)


PATH_COLUMNS = (
    Column("at", "#", "count", "position on the path", width=6, order=2, role="order"),
    Column("kind", "kind", "text", "kernels, collectives, copies, host code, calls, latencies and waits", width=23,
           order=1),
    Column("name", "what", "text", "what the cycle waited for", width=34, order=0, pinned=True, role="name"),
    Column("lane", "where", "text", "host or stream", width=20, order=3),
    Column("start_ns", "start", "ns", "recorded start", width=10, order=4, role="moment"),
    Column("dur_ns", "takes", "ns", "time on the critical path", width=10, order=0, role="time"),
    Column("share", "share", "fraction", "share of the cycle; the steps of the path add up to 100%", width=20, order=2,
           role="share", bar="share", of="base"),
)


def build_path(runs: Runs, options: Options) -> Answer:
    """The critical path of a cycle, step by step."""
    from ..replay import path_rows

    answer = build(runs, options)
    rows = path_rows.rows(runs[0], options)
    schema: dict[str, Any] = {"at": pl.Int64, "kind": pl.String, "name": NAME, "lane": pl.String, "start_ns": pl.Int64,
              "dur_ns": pl.Int64, "share": pl.Float64}
    return replace(answer, frame=pl.DataFrame(rows, schema=schema).lazy())


PATH = View("whatif", PATH_COLUMNS, build_path, two_runs=False, noun="steps of the critical path")
VIEW = View(
    "whatif", COLUMNS, build, pair_columns=PAIR_COLUMNS, noun="changes", row_id=("kind", "name"), details=details,
    other=PATH,
)
