"""Any two runs: every view answers or says why it cannot, and no number of an answer is NaN or infinite.

Pairs are drawn from the samples and, where they are here, the real recordings. What recordings of two machines differ
in and samples do not is changed in some: the numbers of the devices, whether they are named, whether each launch has a
duration, whether there is more than one step. WARPLENS_SEED draws other pairs, WARPLENS_EXPLORE more of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import polars as pl
import polars.selectors as cs
import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.overview.leads import lead_of
from warplens.analysis.query.report import report
from warplens.analysis.table.export import json, text
from warplens.analysis.views import VIEWS
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.schema import NAME
from warplens.loaders.trace import Trace

ROOT = Path(__file__).resolve().parents[3]
RECORDINGS = ROOT.parent / "shared" / "data" / "traces"
DEEP = "WARPLENS_EXPLORE" in os.environ
SEED = int(os.environ.get("WARPLENS_SEED", "1"))
DRAWS = 60 if DEEP else 7
LARGEST = 12_000_000 if DEEP else 200_000
KINDS = (".json", ".json.gz", ".sqlite", ".csv", ".rpd", ".txt", ".db", ".pftrace", ".xplane.pb", ".pickle", ".jsonl")
SAME_FAMILY, CHANGED = 0.7, 0.6
"""Chance that both runs are of one family, and that a run is changed."""


def _files(root: Path) -> dict[str, list[Path]]:
    """Inputs by family, which is the folder below the root; files that lie in the root are their own by suffix."""
    families: dict[str, list[Path]] = {}
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        inner = path.relative_to(root).parts
        if path.is_file() and path.name.endswith(KINDS) and "hostile" not in inner and path.stat().st_size <= LARGEST:
            families.setdefault(inner[0] if len(inner) > 1 else "".join(path.suffixes), []).append(path)
    return families


FAMILIES = [*_files(ROOT / "samples").values(), *_files(RECORDINGS).values()]


def _renumbered(run: Trace) -> Trace:
    """As a machine has it whose devices begin at another number."""
    moved = pl.col("device").cast(pl.String).str.replace(r"^GPU (\d+)$", "GPU 1${1}").cast(NAME)
    return run.with_tables(**{
        name: run.table(name).with_columns(moved) for name in ("kernels", "metrics", "kernel_stats", "profile")
    })


def _unnamed(run: Trace) -> Trace:
    """As a format has it that names no device."""
    nowhere = pl.lit(None, NAME).alias("device")
    return run.with_tables(**{name: run.table(name).with_columns(nowhere) for name in ("kernels", "kernel_stats")})


def _unmeasured(run: Trace) -> Trace:
    """One kernel has no durations, one launch in five has none."""
    first = run.kernels.select(pl.col("name").first()).collect().item() if run.has("kernels") else None
    lost = (pl.col("name") == pl.lit(first, pl.String)).fill_null(False) | (pl.col("index") % 5 == 3)
    return run.with_tables(kernels=run.kernels.with_columns(pl.when(~lost).then("dur_ns").alias("dur_ns")))


def _one_step(run: Trace) -> Trace:
    """Of recorded steps the first alone."""
    return run.with_tables(cycles=run.cycles.head(1))


def _one_launch(run: Trace) -> Trace:
    """Nothing ran but one kernel, once."""
    return run.with_tables(kernels=run.kernels.head(1))


CHANGES: tuple[Callable[[Trace], Trace], ...] = (_renumbered, _unnamed, _unmeasured, _one_step, _one_launch)


@lru_cache(64)
def _opened(path: Path) -> Trace | None:
    """The first run in a file; None where there is none to compare."""
    try:
        return open_run(str(path), use_cache=False)[0]
    except Unreadable:
        return None


def _drawn(chance: random.Random) -> tuple[str, tuple[Trace, Trace]]:
    """Two runs, and what they are in words."""
    while True:
        family = chance.choice(FAMILIES)
        other = family if chance.random() < SAME_FAMILY else chance.choice(FAMILIES)
        runs, words = [], []
        for path in (chance.choice(family), chance.choice(other)):
            run = _opened(path)
            if run is None:
                break
            change = chance.choice(CHANGES) if chance.random() < CHANGED else None
            runs.append(change(run) if change is not None else run)
            words.append(path.name + (f" ({change.__name__[1:]})" if change is not None else ""))
        else:
            return " against ".join(words), (runs[0], runs[1])


@pytest.mark.parametrize("draw", range(DRAWS))
def test_every_view_answers_or_says_why_not(draw: int) -> None:
    words, runs = _drawn(random.Random(f"{SEED} {draw}"))
    failed = []
    for view in VIEWS:
        if view.name == "sql":
            continue
        try:
            table = report(view.name, runs, Options(), top=20)
            text.render([table])
            b"".join(json.pieces([table]))
            lead_of(table)
        except Exception as error:
            failed.append(f"{view.name}: {error!r}")
            continue
        bad = table.frame.select(cs.float().is_nan() | cs.float().is_infinite()).sum()
        failed += [f"{view.name}: {column.name} is not finite" for column in bad if column.sum()]
    assert not failed, f"seed {SEED}, draw {draw}: {words}: {failed}"
