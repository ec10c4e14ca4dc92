"""Tables that several threads use at once: what polars alone would let stop the program for ever."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_TWO_THREADS = """
import sys, threading
import polars as pl
from polars.io.plugins import register_io_source
from warplens.loaders.schema import columns_of

sys.setswitchinterval(0.05)  # a thread keeps the interpreter for long: the other waits for it with the frame locked
TRIES = 400
together, shared = threading.Barrier(3), [pl.LazyFrame()]

def reads_the_columns():
    for _ in range(TRIES):
        together.wait()
        assert columns_of(shared[0]).names() == ["a", "b", "c"]

def puts_beside_another():
    other = pl.LazyFrame({"other": [1]})
    for _ in range(TRIES):
        together.wait()
        for _ in range(5):
            pl.concat([shared[0], other], how="horizontal")

threads = [threading.Thread(target=work, daemon=True) for work in (reads_the_columns, puts_beside_another)]
for thread in threads:
    thread.start()
for _ in range(TRIES):
    read = register_io_source(lambda *_: iter([pl.DataFrame({"a": [1]})]), schema={"a": pl.Int64})
    shared[0] = read.with_columns(b=pl.lit(1)).with_columns(c=pl.lit(2))
    together.wait()
for thread in threads:
    thread.join()
print("ended")
"""


def test_two_threads_use_one_table() -> None:
    done = subprocess.run([sys.executable, "-c", _TWO_THREADS], capture_output=True, text=True, timeout=120)
    assert done.stdout == "ended\n", done.stderr


def test_the_columns_of_a_table_are_asked_of_a_copy() -> None:
    asked = re.compile(r"\.collect_schema\(|(?:run|trace)\.(?:table\(\w+\)|\w+)\.clear\(")
    where = [f"{path.relative_to(ROOT)}:{number}" for room in ("cli", "tui", "analysis", "loaders")
             for path in sorted((ROOT / room).rglob("*.py"))
             for number, line in enumerate(path.read_text().splitlines(), 1) if asked.search(line)]
    assert [place.split(":")[0] for place in where] == ["loaders/schema.py"] * 2, where
