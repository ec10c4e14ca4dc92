"""Samples of the processors and calls of the system, with the functions they came from."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl

from warplens.analysis.contract.options import Options
from warplens.analysis.cycles.scope import scoped_any_cycle
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

THREAD = 4242 << 24 | 4242
TABLES = """
create table COMPOSITE_EVENTS (id integer primary key, start integer, cpu integer, threadState integer,
  globalTid integer, cpuCycles integer);
create table SAMPLING_CALLCHAINS (id integer, symbol integer, module integer, unresolved integer, stackDepth integer);
create table OSRT_CALLCHAINS (id integer, symbol integer, module integer, unresolved integer, stackDepth integer);
insert into StringIds values (9001, 'memcpy'), (9002, 'main'), (9003, '0x7f01'), (9004, '0x7f02'),
  (9005, '/usr/lib/libc.so.6'), (9006, '/opt/train'), (9007, '/opt/libcuda.so.1');
"""


def with_chains(samples: Path, folder: Path) -> tuple[Trace, int]:
    """The sample export with two samples, one without a chain, and a chain for its first system call; when the first
    of them was taken."""
    path = folder / "sampled.sqlite"
    shutil.copy(samples / "nsys.sqlite", path)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES)
        (begin,) = database.execute("select max(start) from OSRT_API").fetchone()
        database.executemany("insert into COMPOSITE_EVENTS values (?, ?, 0, 1, ?, 1)", [
            (1, begin, THREAD), (2, begin + 1_000, THREAD), (3, begin + 2_000, THREAD)])
        database.executemany("insert into SAMPLING_CALLCHAINS values (?, ?, ?, ?, ?)", [
            (2, 9003, 9007, 1, 0), (2, 9004, 9007, 1, 1), (2, 9002, 9006, 0, 2),
            (1, 9002, 9006, 0, 1), (1, 9001, 9005, 0, 0)])
        database.execute("update OSRT_API set callchainId = 7 where rowid = 1")
        database.execute("insert into OSRT_CALLCHAINS values (7, 9001, 9005, 0, 0)")
        database.commit()
    (run,) = open_run(str(path), use_cache=False)
    return run, int(run.call_chains.filter(pl.col("call").is_null()).select(pl.col("start_ns").min()).collect().item())


def test_a_chain_names_frames_without_symbols_by_their_module(samples: Path, tmp_path: Path) -> None:
    run, _ = with_chains(samples, tmp_path)
    texts = pl.col("call", "state", "function", "stack").cast(pl.String)
    assert run.call_chains.select(texts).collect().sort("call", "function", nulls_last=True).rows() == [
        ("pthread_cond_wait", None, "memcpy", "memcpy (libc.so.6)"),
        (None, "Running", "[libcuda.so.1]", "[libcuda.so.1]\nmain (train)"),
        (None, "Running", "memcpy", "memcpy (libc.so.6)\nmain (train)"),
    ]


def test_a_window_holds_the_samples_taken_in_it(samples: Path, tmp_path: Path) -> None:
    run, first = with_chains(samples, tmp_path)
    cut = scoped_any_cycle(run, Options(from_ns=first, to_ns=first + 1_000), "a")
    taken = cut.call_chains.filter(pl.col("call").is_null()).select("start_ns").collect()["start_ns"]
    assert taken.to_list() == [first]
