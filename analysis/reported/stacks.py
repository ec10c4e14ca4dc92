"""Stacks: which functions the CPUs ran, from sampled call stacks.

The first shape is a list of functions (flat view in Nsight Systems), with callers and callees of each in its details
(bottom-up); the other is the tree of each thread from its outermost frame on (top-down), with its flame graph. A sample
without callers counts in ``self`` of the list only. All shares are of the samples with callers, so that a function's
total is never below its self and runs of different lengths can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from ..contract.column import Column, side_by_side
from ..contract.options import SIDES, Options
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View, lettered, merged_notes, neither
from ..core import units
from ..core.call_stacks import Stacks, function_of, module_of, stacks_of, tree_of
from ..details.glances import Glances
from ..details.listed import place, row_section, sides, text
from ..table.sides import paired_rows
from ..table.tree import DEEPEST, in_order, texts_of

_NAME = Column("name", "function", "text", "sampled function; '[module]' where it has no symbol", width=34, order=0,
               elastic=True, pinned=True, role="name", pairs="key")
_MODULE = Column("module", "module", "text", "library or program it belongs to", width=20, order=4, role="label",
                 pairs="key")
_OWN = (
    Column("self_samples", "self", "count", "samples in the function itself", width=7, order=2, role="count",
           pairs="side"),
    Column("self_share", "self %", "fraction", "share of the samples with a call stack in the function itself", width=7,
           order=1, role="share", pairs="sum", of="of the samples"),
)
_TOTAL = (
    Column("samples", "total", "count", "samples in it or its callees, among samples with a call stack", width=7,
           order=3, role="count", pairs="side"),
    Column("share", "total %", "fraction", "share of the samples with a call stack in it or its callees", width=7,
           order=0, role="share", pairs="sum", of="of the samples"),
)
COLUMNS = (  # sorted by self %, which a narrow list shows
    _NAME, _OWN[0], replace(_OWN[1], order=0), replace(_TOTAL[0], order=None), replace(_TOTAL[1], order=1), _MODULE,
    Column("threads", "threads", "count", "threads it was sampled on", width=7, order=5, pairs="side"),
)
TREE_COLUMNS = (
    Column("tree", "thread, function", "text", "function, indented below its caller", 44, order=0, elastic=True,
           pinned=True, role="tree", pairs="key"),
    Column("name", "name", "text", "thread or function", 34, order=None, role="name", pairs="key"),
    Column("path", "path", "text", "frame numbers from the outermost down, the same in both runs", 20, order=None,
           role="label", pairs="key"),
    Column("kind", "kind", "text", "thread or function", 8, order=None, role="label", pairs="key"),
    Column("thread", "thread", "text", "number of the thread it was sampled on", 8, order=None, role="label",
           pairs="alone"),
    Column("depth", "depth", "number", "number of enclosing frames", 5, order=None, pairs="key"),
    Column("under", "below", "count", "number of rows below it in the tree", 6, order=None, pairs="key"),
    *_TOTAL, *_OWN, _MODULE,
)
_SAMPLES = pl.col("samples").sum()
TREE_PAIR_COLUMNS = side_by_side(TREE_COLUMNS)
_TREE_KEYS = tuple(Column(name, name, "text", "", pairs="key")
                   for name in ("path", "name", "kind", "depth", "parent", "module"))


def _stacks(runs: Runs) -> list[Stacks]:
    """The stacks of each run. Raises CannotAnswer if one has none."""
    stacks = [stacks_of(run) for run in runs]
    lacking = [run.info.label for run, one in zip(runs, stacks, strict=True) if one.seen.is_empty()]
    whys = [f"{label} holds no CPU samples; Nsight Systems records them with nsys profile --sample=process-tree."
            for label in lacking]
    if whys:
        raise CannotAnswer(neither(lacking, whys) if len(whys) == 2 else whys[0])
    return stacks


def _functions(stacks: Stacks) -> pl.DataFrame:
    """The functions of a run, most self samples first."""
    lines, seen = stacks.lines, stacks.seen
    once = lines.unique(["at", "code"])  # a function that calls itself is in the sample once
    own = lines.unique("at", keep="first", maintain_order=True).group_by("code").agg(
        self_samples=_SAMPLES, own=pl.col("samples").filter("walked").sum())
    threads = once.lazy().join(seen.lazy(), on="at").select("code", "thread").unique().group_by("code").agg(
        threads=pl.len().cast(pl.Int64)).collect(engine="streaming")
    rows = once.group_by("code").agg(pl.col("samples").filter("walked").sum()).join(own, on="code", how="left").join(
        threads, on="code").join(stacks.names.to_frame().with_row_index("code"), on="code")
    facts = _facts(stacks)
    return rows.with_columns(pl.col("self_samples", "own").fill_null(0)).sort(
        "own", "samples", "self_samples", "frame", descending=[True, True, True, False]).with_columns(
        name=function_of("frame"), module=module_of("frame"), self_share=pl.col("own") / facts["with_callers"],
        share=pl.col("samples") / facts["with_callers"]).select(column.name for column in COLUMNS)


def _facts(stacks: Stacks) -> dict[str, Any]:
    """The figures of the sentence above the functions and the tree."""
    innermost = stacks.lines.unique("at", keep="first", maintain_order=True)
    unnamed = innermost.filter(stacks.names.gather(innermost["code"]).str.starts_with("["))
    return {
        "samples": int(innermost["samples"].sum()),
        "with_callers": int(innermost.filter("walked")["samples"].sum()), "functions": len(stacks.names),
        "threads": stacks.threads.height, "without_symbols": int(unnamed["samples"].sum()),
    }


def _sentence(facts: dict[str, Any]) -> str:
    unnamed = units.percent(100 * facts["without_symbols"] / facts["samples"], places=0)
    return (f"{units.counted(facts['samples'], 'CPU sample', 'CPU samples')} on "
            f"{units.counted(facts['threads'], 'thread', 'threads')}, {units.count(facts['with_callers'])} of them "
            "with callers · "
            f"{units.counted(facts['functions'], 'function', 'functions')} · {unnamed} in code without symbols")


def _notes(facts: dict[str, Any]) -> tuple[str, ...]:
    lacking = facts["samples"] - facts["with_callers"]
    return (f"{units.counted(lacking, 'sample has', 'samples have')} no callers recorded and count in self only, "
            "not in shares: nsys profile --samples-per-backtrace=1 records them with every sample.",) if lacking else ()


def build(runs: Runs, options: Options) -> Answer:
    """The functions of one run, or of two by the change of their shares. Raises CannotAnswer."""
    stacks = _stacks(runs)
    frames = [_functions(one) for one in stacks]
    return _answer(frames[0] if len(runs) == 1 else paired_rows(frames[0], frames[1], COLUMNS), stacks)


def _answer(rows: pl.DataFrame, stacks: Sequence[Stacks], *notes: str) -> Answer:
    """The answer of these rows, with the facts, sentences and notes of their stacks."""
    facts = [_facts(one) for one in stacks]
    if len(stacks) == 1:
        return Answer(rows.lazy(), facts[0], (_sentence(facts[0]),), (*_notes(facts[0]), *notes))
    return Answer(rows.lazy(), dict(zip(SIDES, facts, strict=True)), lettered([(_sentence(one),) for one in facts]),
                  (*merged_notes([_notes(one) for one in facts]), *notes))


MOST_PATHS = 100_000
"""Most rows of a tree; beyond it the paths with fewest samples are left out."""


def build_tree(runs: Runs, options: Options) -> Answer:
    """The tree of one run under its threads, most samples first, or of two, the largest change of a share first."""
    stacks = _stacks(runs)
    alone = len(runs) == 1
    trees, least = zip(*(_tree(one, alone) for one in stacks), strict=True)
    result = in_order(trees[0], ("samples",)) if alone else in_order(
        paired_rows(trees[0], trees[1], (*_TREE_KEYS, *_TOTAL, *_OWN)), ("share_delta", "self_share_delta"))
    rows = result.with_columns(texts_of(result)).select(column.name for column in (
        TREE_COLUMNS if alone else TREE_PAIR_COLUMNS))
    left_out = (f"Paths with fewer than {units.counted(max(least), 'sample', 'samples')} are left out.",)
    return _answer(rows, stacks, *left_out[: max(least) > 1])


def _tree(stacks: Stacks, by_thread: bool) -> tuple[pl.DataFrame, int]:
    """One row per path from the outermost frame on, per thread or for all threads together, unordered; and the least
    number of samples of a row."""
    tree = tree_of(stacks, by_thread, DEEPEST)
    every, least = int(tree.own.sum()), 1
    if len(tree.own) > MOST_PATHS:
        least = int(np.sort(tree.samples)[-MOST_PATHS]) + 1
        tree = tree.at_least(least)
    names = pl.concat([stacks.names, stacks.threads["called"].alias("frame")])
    of_thread = tree.name >= len(stacks.names)
    root = np.arange(len(tree.above))
    for row, above in enumerate(tree.above.tolist()):  # a parent comes before its children
        root[row] = row if above < 0 else root[above]
    thread = stacks.threads["tid"].gather(tree.name[root] - len(stacks.names)) if by_thread else None
    rows = pl.DataFrame({
        "path": tree.path, "parent": tree.path.gather(np.maximum(tree.above, 0)).set(pl.Series(tree.above < 0), None),
        "frame": names.gather(tree.name), "depth": tree.depth, "thread": thread, "samples": tree.samples,
        "self_samples": tree.own, "kind": np.where(of_thread, "thread", "function"),
    })
    return rows.with_columns(
        pl.col("path", "parent", "thread").cast(pl.String), name=function_of("frame"), module=module_of("frame"),
        share=pl.col("samples") / every, self_share=pl.col("self_samples") / every), least


def _glance(runs: Runs, options: Options) -> Glances:
    """The callers and callees of a function, for each run."""
    known = []
    for _, run, ending in sides(runs, options):
        stacks = stacks_of(run)
        lines, code = stacks.lines.filter("walked"), pl.col("code")
        known.append((stacks.names, lines.with_columns(
            callee=code.shift(1).over("at"), caller=code.shift(-1).over("at")), ending))

    def of(row: dict[str, Any]) -> list[Section]:
        result: list[Section] = []
        for names, lines, ending in known:
            matching = names.to_frame().with_row_index("code").filter(
                function_of("frame") == row["name"], module_of("frame").eq_missing(row["module"]))
            calls = lines.join(matching, on="code", how="semi")
            for title, other, nothing in (("Called by", "caller", "nothing recorded above it"),
                                          ("Calls", "callee", "nothing, it ran itself")):
                rows = calls.unique(["at", other]).group_by(other).agg(_SAMPLES)
                frames = names.gather(rows[other]).fill_null(nothing)
                result += _section(f"{title}{ending}", rows.with_columns(frame=frames))
        return result

    return of


def _section(title: str, rows: pl.DataFrame) -> list[Section]:
    """Functions (``frame``) by their ``samples``, most first."""
    rows = rows.sort("samples", "frame", descending=[True, False])
    rows = rows.select(function_of("frame").alias("function"), module_of("frame").alias("module"), "samples")
    return row_section(title, rows, (place, text, units.count), ("function", "module", "samples"))


def _tree_glance(runs: Runs, options: Options) -> Glances:
    """The functions at and below a node of the tree, by self samples."""
    trees = [(in_order(_tree(stacks_of(run), len(runs) == 1)[0], ("samples",)), ending)
             for _, run, ending in sides(runs, options)]

    def of(row: dict[str, Any]) -> list[Section]:
        result: list[Section] = []
        for tree, ending in trees:
            for at in (tree["path"] == row["path"]).arg_true():
                below = tree.slice(at, tree["under"][at] + 1).filter(pl.col("self_samples") > 0)
                result += _section(f"Samples at and below it{ending}", below.group_by("frame").agg(
                    samples=pl.col("self_samples").sum()))
        return result

    return of


TREE = View("stacks", TREE_COLUMNS, build_tree, TREE_PAIR_COLUMNS, noun="paths", glance=_tree_glance,
            details=lambda row, runs, options: _tree_glance(runs, options)(row))
VIEW = View("stacks", COLUMNS, build, side_by_side(COLUMNS), noun="functions", glance=_glance,
            details=lambda row, runs, options: _glance(runs, options)(row), other=TREE)
